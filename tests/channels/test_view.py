"""The fold of a log into the view that channels show."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_core import events as e
from agent_core.events import Event, Fact, Live, TextDelta
from agent_core.messages import Actor, Text, ToolCall, Usage
from channels.spec import CallView, ConversationView, MessageLimits, RunView, ShownMessage
from channels.text import end_of
from channels.view import EMPTY, Segment, border, cut, view
from tests.cases import for_each
from tests.channels.logs import NAMES, Emitter, event, expected, fold, golden

ANN = Actor("ann", "user")


def summary(body: ConversationView) -> dict[str, Any]:
    """Return what the golden expectations speak of."""
    transcript = [
        {"role": said.role, "text": said.text, **({"partial": True} if said.partial else {})} for said in body.messages
    ]
    asked = {call.question.id: call.question for said in body.messages for call in said.calls if call.question}
    known = {name: [each.status, each.arguments, each.by and each.by.id] for name, each in asked.items()}
    approvals = {"approvals": known} if known else {}
    drawn = [(call.id, each) for said in body.messages for call in said.calls for each in call.renders]
    shown = {each.id: [call, each.kind, each.title, each.text] for call, each in drawn}
    renders = {"renders": shown} if shown else {}
    return {
        "transcript": transcript,
        "runs": {run.id: run.status for run in body.runs},
        **approvals,
        **renders,
    }


@for_each(
    "parts, stop, cut",
    [((Text("Half"),), "error", True), ((), "error", False), ((Text("Half"),), "length", True), ((), "done", False)],
)
def test_an_ended_run_knows_whether_its_answer_is_complete(parts, stop, cut):
    """What stays of an answer that broke off, or was cut, is a part of one: the run in the view says so."""
    emit = Emitter()
    said = e.MessageCompleted(message="m", role="assistant", parts=parts, stop=stop, partial=stop == "error")
    begun = [emit(e.StepStarted(n=1, attempt=1, message="m", takes=(), snapshot="s")), emit(said)]
    failed = fold([*begun, emit(e.RunFailed(code="provider_error", message="Gone.", retryable=True))])
    assert failed.runs[-1].cut is cut
    usage = Usage(None, None, None, None, None, None)
    completed = fold([*begun, emit(e.RunCompleted(stop_reason="end_turn", usage=usage, cost=None))])
    assert completed.runs[-1].cut is cut


@for_each(
    "run, words",
    [
        (RunView("run_1", "failed", error="Ask again.", cut=True), "! The answer above is incomplete. Ask again."),
        (
            RunView("run_1", "completed", reason="max_steps", cut=True),
            "(ended: max steps, before the answer was complete)",
        ),
        (RunView("run_1", "completed", reason="end_turn", cut=True), "(ended before the answer was complete)"),
    ],
)
def test_an_answer_that_is_not_complete_says_so(run, words):
    """Below a text that is a part of an answer stands that it is one."""
    assert end_of(run) == words


def settled(body: ConversationView) -> ConversationView:
    """Return *body* without what depends on the path to it: the last attempt that wrote, and where *past* ends."""
    plain = tuple(replace(said, epoch=0, attempt=0) for said in body.past + body.recent)
    return replace(body, past=plain, recent=())


def joined(events: list[Event], at: int, body: ConversationView) -> list[Event]:
    """Return the events that a reader with *body* receives when it joins after event *at*.

    These are the facts that it lacks, each part of the open message as one delta from offset 0, then the rest.
    """
    whole = fold(events[:at])
    tail: list[Event] = [each for each in events[:at] if isinstance(each, Fact) and each.seq > body.seq]
    for said in whole.recent:
        for n, piece in enumerate(said.parts):
            if said.open and piece.kind == "text":
                delta = TextDelta(
                    message=said.id, part=n, epoch=said.epoch, attempt=said.attempt, offset=0, text=str(piece.text)
                )
                tail.append(Live(session="ses_1", run=said.run, parent_run=None, time=0, body=delta))
    return tail + events[at:]


def delta(text: str, offset: int, *, message: str = "msg_2", part: int = 0, epoch: int = 1, attempt: int = 1):
    return TextDelta(message=message, part=part, epoch=epoch, attempt=attempt, offset=offset, text=text)


def started(*, n: int = 1, attempt: int = 1, message: str = "msg_2", takes: tuple[int, ...] = ()):
    return e.StepStarted(n=n, attempt=attempt, message=message, takes=takes, snapshot="sha256:1")


def received(text: str, message: str = "msg_1"):
    return e.MessageReceived(message=message, actor=ANN, parts=(Text(text),))


def last(body: ConversationView) -> ShownMessage:
    return body.messages[-1]


@for_each("name", NAMES)
def test_a_golden_log_folds_to_what_every_fold_agrees_on(name):
    """Each golden log gives the transcript and the runs of its expectation."""
    assert summary(fold(golden(name))) == expected(name)


@for_each("name", NAMES)
def test_the_facts_alone_give_the_same_picture(name):
    """A reader that joins after the end, without any live event, has the same picture."""
    facts = [each for each in golden(name) if isinstance(each, Fact)]
    assert settled(fold(facts)) == settled(fold(golden(name)))


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_a_log_read_in_two_goes_is_the_log(data, name):
    """Wherever a reader leaves and rejoins, it ends with the picture of one that never left."""
    events = golden(name)
    join = data.draw(st.integers(0, len(events)))
    leave = data.draw(st.integers(0, join))
    body = fold(events[:leave])
    assert settled(fold(joined(events, join, body), body)) == settled(fold(events))


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_overlapping_reads_are_harmless(data, name):
    """A duplicate fact, and the events between, change nothing."""
    events = golden(name)
    start, end = sorted((data.draw(st.integers(0, len(events))), data.draw(st.integers(0, len(events)))))
    again = [each for each in events[start:end] if isinstance(each, Fact)]
    assert fold(again, fold(events)) == fold(events)


@given(pieces=st.lists(st.tuples(st.text(max_size=5), st.integers(0, 40)), max_size=30))
def test_text_is_what_was_shown_up_to_the_offset_and_the_new_text(pieces):
    """A delta keeps `shown[:offset]`, counted in code points, and adds its text; older views stay as they are."""
    emit, shown, body = Emitter(), "", EMPTY
    seen: list[tuple[ConversationView, str]] = []
    for text, offset in pieces:
        shown = shown[:offset] + text
        body = view(body, emit(delta(text, offset)))
        seen.append((body, shown))
    assert [last(each).text for each, _ in seen] == [text for _, text in seen]


def test_growing_a_long_text_copies_none_of_it():
    """The pieces of a growing text are shared by all its states."""
    emit, body = Emitter(), EMPTY
    for n in range(100):
        body = view(body, emit(delta("word ", 5 * n)))
    first = last(view(EMPTY, emit(delta("word ", 0)))).parts[0].text
    assert last(body).text == "word " * 100
    assert len(last(body).parts[0].text.pieces) == 100
    assert first.put(5, "a").put(6, "b").pieces is first.pieces


def test_a_newer_attempt_clears_the_text_of_an_older_one():
    """A higher epoch or attempt starts the message afresh, and deltas of the older one are ignored."""
    emit = Emitter()
    body = fold([emit(started()), emit(delta("half a th", 0)), emit(delta("Whole.", 0, attempt=2))])
    assert last(body).text == "Whole."
    assert last(view(body, emit(delta("ought", 9)))).text == "Whole."
    assert last(view(body, emit(delta("Again", 0, epoch=2)))).text == "Again"


def test_activity_has_a_line_with_its_status():
    """A call goes through requested, running with its progress, and its outcome."""
    body, seen = EMPTY, []
    for each in golden("tools"):
        body = view(body, each)
        for said in body.recent:
            seen += [call for call in said.calls if call.id == "call_1" and call not in seen]
    starts = [(each.time, each.body) for each in golden("tools")]
    (began,) = (time for time, body in starts if isinstance(body, e.ToolStarted) and body.call == "call_1")
    assert seen == [
        CallView("call_1", "calculate", "requested"),
        CallView("call_1", "calculate", "running", began=began),
        CallView("call_1", "calculate", "running", "multiplying", began=began),
        CallView("call_1", "calculate", "done", began=began, seconds=0.023),
    ]


def test_a_call_of_a_message_without_calls_is_shown_below_it():
    """A call that was requested in a refused try is shown with the message of its step."""
    emit = Emitter()
    asked = e.ToolRequested(call="call_1", name="calculate", arguments={}, index=0, step=1)
    body = fold([emit(started()), emit(asked), emit(e.ToolPending(call="call_1", on="approval"))])
    assert last(body).calls == (CallView("call_1", "calculate", "waiting"),)


def test_a_message_waits_until_a_step_takes_it():
    """A queued and a steered message are last until their step, then where it took them."""
    for name in ("queued", "steered"):
        events = golden(name)
        at = next(n for n, each in enumerate(events) if each.type == "message.received" and n > 2)
        body = fold(events[: at + 1])
        assert [said.id for said in body.waiting] == ["msg_3"]
        assert body.waiting[0].steered == (name == "steered")
        assert not fold(events).waiting


def test_a_message_whose_run_ended_before_a_step_is_not_lost():
    """The message of a queued run that was cancelled takes its place in the transcript; a steered one waits on."""
    emit = Emitter()
    start = [emit(received("one")), emit(e.RunQueued())]
    steered = emit(received("two", "msg_3"))
    body = fold([*start, steered, emit(e.RunCancelled(by=ANN, reason=None))])
    assert [(said.id, said.border) for said in body.recent] == [("msg_1", True)]
    assert [said.id for said in body.waiting] == ["msg_3"]


@for_each("name", ["stopped_queue", "stopped_adopted"])
def test_after_a_stop_nothing_waits(name):
    """Messages that a Stop clears follow those that were taken: queued, added to the run, or left to a waiting run."""
    body = fold(golden(name))
    assert not body.waiting
    assert body.active is None
    cleared = [said.seq for said in body.messages if said.role == "user"]
    assert cleared == sorted(cleared)


def test_what_is_cancelled_in_the_queue_ends_no_message_of_the_run_at_work():
    """The active run continues in its message, which does not show those that were cancelled in the queue."""
    events = golden("stopped_queue")
    at = next(n for n, each in enumerate(events) if each.type == "run.cancelling" and each.run == "run_1")
    body = fold(events[:at])
    assert [said.text for said in body.messages] == ["one", "Half", "two", "four", "three"]
    assert [said.text for said in body.waiting] == ["three"]
    assert border(body, Segment(), MessageLimits(1.0)) is None
    assert [run.id for run in cut(body, Segment()).runs] == ["run_1"]


def test_of_several_runs_cancelled_in_the_queue_the_last_has_a_border():
    """Where none is at work, as many as are cancelled give one message that says so."""
    emit, start = Emitter(), []
    for n in (1, 2):
        start += [emit(received(str(n), f"msg_{n}"), f"run_{n}"), emit(e.RunQueued(), f"run_{n}")]
    body = fold([*start, *(emit(e.RunCancelled(by=ANN, reason=None), f"run_{n}") for n in (2, 1))])
    assert [(said.text, said.run, said.border) for said in body.recent] == [("1", "run_1", True), ("2", None, False)]


def test_a_correction_replaces_what_was_said():
    """A corrected message shows its new text, whether it waits or was taken."""
    emit = Emitter()
    fixed = e.MessageCorrected(message="msg_1", parts=(Text("better"),))
    start = [emit(received("good")), emit(e.RunQueued())]
    assert fold([*start, emit(fixed)]).waiting[0].text == "better"
    assert fold([*start, emit(started(takes=(1,))), emit(fixed)]).recent[0].text == "better"


def test_a_deleted_message_is_gone_or_empty():
    """What no step took is not there any more; what one took keeps its place and says nothing."""
    emit = Emitter()
    gone = e.MessageCorrected(message="msg_1", parts=(), corrects=1)
    start = [emit(received("good")), emit(e.RunQueued())]
    assert not fold([*start, emit(gone)]).messages
    assert [said.text for said in fold([*start, emit(started(takes=(1,))), emit(gone)]).messages] == ["", ""]


def test_a_wait_and_an_end_draw_a_border():
    """Text after a wait or the end of a run is in a message of its own."""
    emit = Emitter()
    body = fold([emit(received("one")), emit(e.RunQueued()), emit(started(takes=(1,)))])
    waiting = view(body, emit(e.RunWaiting(on=("client",))))
    assert last(waiting).border
    assert waiting.active is not None
    assert waiting.active.status == "requires_action"
    ended = view(body, emit(e.RunFailed(code="lost", message="The worker is gone.", retryable=True)))
    assert last(ended).border
    assert not last(ended).open
    assert ended.active is None
    assert ended.runs[0].error == "The worker is gone."


@for_each(
    "text, call, shows, blank",
    [
        ("", False, False, True),
        (" \n", False, False, True),
        ("", True, False, True),
        ("", True, True, False),
        ("Hi", True, False, False),
    ],
)
def test_an_answer_without_a_word_is_blank(text: str, call: bool, shows: bool, blank: bool):
    """A run that ends with nothing to read, and with nothing that its last tools showed, gave no answer."""
    emit = Emitter()
    events = [emit(received("one")), emit(e.RunQueued()), emit(started(takes=(1,)))]
    if call:
        parts = (Text("Let me see."), ToolCall(call="call_1", name="look", arguments={}))
        events.append(emit(e.MessageCompleted(message="msg_2", role="assistant", parts=parts, stop="tools")))
        if shows:
            events.append(
                emit(e.RenderShown(call="call_1", render="rnd_1", kind="table", payload={}, text="1", title=None))
            )
        events.append(emit(e.StepStarted(n=2, attempt=1, message="msg_3", takes=(), snapshot="sha256:1")))
    last_message = "msg_3" if call else "msg_2"
    events.append(emit(e.MessageCompleted(message=last_message, role="assistant", parts=(Text(text),), stop="done")))
    usage = e.Usage(None, None, None, None, None, None)
    body = fold([*events, emit(e.RunCompleted(stop_reason="end_turn", usage=usage, cost=None))])
    assert body.runs[-1].blank is blank
    assert "no answer" in str(end_of(body.runs[-1])) if blank else end_of(body.runs[-1]) is None


def test_the_active_run_is_the_one_that_works():
    """A Stop ends the run at work, else the first of the queue."""
    events = golden("queued")
    at = next(n for n, each in enumerate(events) if isinstance(each, Fact) and each.seq == 8)
    body = fold(events[: at + 1])
    assert body.active is not None
    assert (body.active.id, body.active.active) == ("run_1", True)
    only_queued = fold([events[2], events[3]])
    assert only_queued.active is not None
    assert (only_queued.active.id, only_queued.active.active) == ("run_1", False)


def test_cancelling_is_shown_before_the_end():
    """Between the Stop and the end of its run the view says so."""
    events = golden("cancel")
    at = next(n for n, each in enumerate(events) if each.type == "run.cancelling")
    assert fold(events[: at + 1]).runs[0].cancelling
    assert not fold(events).runs[0].cancelling


def test_an_imported_message_is_shown_in_order():
    """A message of the history that a run brought along is shown as it is."""
    emit = Emitter()
    said = e.MessageCompleted(message="msg_0", role="user", parts=(Text("Before."),), stop="done")
    assert fold([emit(said)]).recent[0].text == "Before."


def test_reasoning_and_calls_hold_their_place_and_are_not_text():
    """Parts other than text keep the index of the text after them and show nothing."""
    emit = Emitter()
    thought = e.ReasoningDelta(message="msg_2", part=0, epoch=1, attempt=1, offset=0, text="Hm.")
    body = fold([emit(thought), emit(delta("Yes.", 0, part=2))])
    assert [piece.kind for piece in last(body).parts] == ["reasoning", "other", "text"]
    assert last(body).text == "Yes."


def test_unknown_events_are_skipped():
    """An event of a later version, of a child run, or of an unknown call changes at most `seq`."""
    emit = Emitter()
    frame = {"session": "ses_1", "run": "run_1", "parent_run": None, "time": "2026-01-05T09:00:00.001Z"}
    later = event({**frame, "seq": 7, "type": "poem.recited", "data": {"lines": 3}})
    assert view(EMPTY, later) == ConversationView(seq=7)
    child = Emitter()(received("task"), "run_2", parent="run_1")
    assert view(EMPTY, child) == ConversationView(seq=1)
    assert view(EMPTY, emit(delta("x", 0), "run_2", parent="run_1")) == EMPTY
    assert view(EMPTY, emit(e.ToolProgress(call="call_9", text="…"))) == EMPTY
    assert view(EMPTY, emit(e.Heartbeat())) == EMPTY


def test_a_fact_without_a_run_changes_no_run():
    """Facts of the session itself show nothing."""
    body = fold(golden("plain")[:2])
    assert body == ConversationView(seq=2)


def test_a_late_event_changes_an_old_message():
    """A message of *past* can still change: the end of a call, a border, a correction."""
    emit = Emitter()
    asked = e.ToolRequested(call="call_1", name="buy", arguments={}, index=0, step=1)
    first = e.MessageCompleted(message="msg_2", role="assistant", parts=(Text("One."),), stop="tools")
    start = [emit(received("one")), emit(e.RunQueued()), emit(started(takes=(1,))), emit(first), emit(asked)]
    body = fold([*start, emit(started(n=2, message="msg_3"), "run_2")])
    assert [said.id for said in body.past] == ["msg_1", "msg_2"]
    done = e.ToolCompleted(call="call_1", outcome="done", parts=(), truncated=False)
    fixed = e.MessageCorrected(message="msg_1", parts=(Text("uno"),))
    body = fold([emit(done), emit(fixed), emit(e.RunCancelled(by=ANN, reason=None))], body)
    assert (body.past[0].text, body.past[1].calls[0].status, body.past[1].border) == ("uno", "done", True)


def test_facts_about_what_lies_before_the_cursor_are_tolerated():
    """Facts about a run, a call or a message that lie before the cursor change what can be known and no more."""
    emit = Emitter()
    waiting, asked = (
        e.RunWaiting(on=("approval",)),
        e.ToolRequested(call="call_1", name="buy", arguments={}, index=0, step=1),
    )
    unknown = e.MessageCorrected(message="msg_9", parts=(Text("?"),))
    body = fold([emit(asked), emit(waiting), emit(unknown), emit(e.RunResumed(epoch=2, cause="approval"))])
    assert (body.messages, [run.status for run in body.runs]) == ((), ["running"])
    assert view(body, emit(e.RunStarted(epoch=3), None)) == replace(body, seq=5)
