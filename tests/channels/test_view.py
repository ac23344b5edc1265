"""What view makes of a log."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core import Actor, Event, Fact, Live, Text, TextDelta
from agent_core.domain import events as e
from channels.base import Body, Call, Limits, ShownMessage
from channels.relay import Segment, border, cut
from channels.view import EMPTY, view
from tests.channels.logs import NAMES, Teller, event, expected, fold, golden

ANN = Actor("ann", "user")


def summary(body: Body) -> dict[str, Any]:
    """Return what the golden expectations speak of."""
    transcript = [
        {"role": said.role, "text": said.text, **({"partial": True} if said.partial else {})} for said in body.messages
    ]
    asked = {call.question.id: call.question for said in body.messages for call in said.calls if call.question}
    told = {name: [each.status, each.arguments, each.by and each.by.id] for name, each in asked.items()}
    approvals = {"approvals": told} if told else {}
    drawn = [(call.id, each) for said in body.messages for call in said.calls for each in call.renders]
    shown = {each.id: [call, each.kind, each.title, each.text] for call, each in drawn}
    renders = {"renders": shown} if shown else {}
    return {
        "transcript": transcript,
        "runs": {run.id: run.status for run in body.runs},
        **approvals,
        **renders,
    }


def settled(body: Body) -> Body:
    """Return *body* without what only the way to it tells: the last try that wrote, and where *past* ends."""
    plain = tuple(replace(said, epoch=0, attempt=0) for said in body.past + body.recent)
    return replace(body, past=plain, recent=())


def joined(events: list[Event], at: int, body: Body) -> list[Event]:
    """Return what a reader who knows *body* is told when it joins after event *at*.

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


def last(body: Body) -> ShownMessage:
    return body.messages[-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_log_folds_to_what_every_fold_agrees_on(name):
    """Each golden log gives the transcript and the runs of its expectation."""
    assert summary(fold(golden(name))) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_alone_give_the_same_picture(name):
    """A reader who comes after the end, and so misses every live event, sees the same."""
    facts = [each for each in golden(name) if isinstance(each, Fact)]
    assert settled(fold(facts)) == settled(fold(golden(name)))


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_a_log_read_in_two_goes_is_the_log(data, name):
    """Wherever a reader leaves and wherever it joins again, it ends with the picture of one who never left."""
    events = golden(name)
    join = data.draw(st.integers(0, len(events)))
    leave = data.draw(st.integers(0, join))
    body = fold(events[:leave])
    assert settled(fold(joined(events, join, body), body)) == settled(fold(events))


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_overlapping_reads_are_harmless(data, name):
    """A fact that is told twice, and what was told between, changes nothing."""
    events = golden(name)
    start, end = sorted((data.draw(st.integers(0, len(events))), data.draw(st.integers(0, len(events)))))
    again = [each for each in events[start:end] if isinstance(each, Fact)]
    assert fold(again, fold(events)) == fold(events)


@given(pieces=st.lists(st.tuples(st.text(max_size=5), st.integers(0, 40)), max_size=30))
def test_text_is_what_was_shown_up_to_the_offset_and_the_new_text(pieces):
    """A delta keeps `shown[:offset]`, counted in code points, and adds its text; older Bodies stay as they are."""
    tell, shown, body = Teller(), "", EMPTY
    seen: list[tuple[Body, str]] = []
    for text, offset in pieces:
        shown = shown[:offset] + text
        body = view(body, tell(delta(text, offset)))
        seen.append((body, shown))
    assert [last(each).text for each, _ in seen] == [text for _, text in seen]


def test_growing_a_long_text_copies_none_of_it():
    """The pieces of a growing text are shared by all its states."""
    tell, body = Teller(), EMPTY
    for n in range(100):
        body = view(body, tell(delta("word ", 5 * n)))
    first = last(view(EMPTY, tell(delta("word ", 0)))).parts[0].text
    assert last(body).text == "word " * 100
    assert len(last(body).parts[0].text.pieces) == 100
    assert first.put(5, "a").put(6, "b").pieces is first.pieces


def test_a_newer_try_clears_what_an_older_one_wrote():
    """A higher epoch or attempt starts the message afresh, and the older one is not heard any more."""
    tell = Teller()
    body = fold([tell(started()), tell(delta("half a th", 0)), tell(delta("Whole.", 0, attempt=2))])
    assert last(body).text == "Whole."
    assert last(view(body, tell(delta("ought", 9)))).text == "Whole."
    assert last(view(body, tell(delta("Again", 0, epoch=2)))).text == "Again"


def test_activity_has_a_line_with_its_status():
    """A call goes through requested, running with its progress, and its outcome."""
    body, seen = EMPTY, []
    for each in golden("tools"):
        body = view(body, each)
        for said in body.recent:
            seen += [call for call in said.calls if call.id == "call_1" and call not in seen]
    assert seen == [
        Call("call_1", "calculate", "requested"),
        Call("call_1", "calculate", "running"),
        Call("call_1", "calculate", "running", "multiplying"),
        Call("call_1", "calculate", "done"),
    ]


def test_a_call_of_a_message_that_tells_of_none_stands_below_it():
    """A call that was requested in a refused try is shown with the message of its step."""
    tell = Teller()
    asked = e.ToolRequested(call="call_1", name="calculate", arguments={}, index=0, step=1)
    body = fold([tell(started()), tell(asked), tell(e.ToolPending(call="call_1", on="approval"))])
    assert last(body).calls == (Call("call_1", "calculate", "waiting"),)


def test_a_message_waits_until_a_step_takes_it():
    """A queued and a steered message stand last until their step, then where it took them."""
    for name in ("queued", "steered"):
        events = golden(name)
        at = next(n for n, each in enumerate(events) if each.type == "message.received" and n > 2)
        body = fold(events[: at + 1])
        assert [said.id for said in body.waiting] == ["msg_3"]
        assert body.waiting[0].steered == (name == "steered")
        assert not fold(events).waiting


def test_a_message_whose_run_ended_before_a_step_is_not_lost():
    """The message of a queued run that was cancelled takes its place in the transcript; a steered one waits on."""
    tell = Teller()
    start = [tell(received("one")), tell(e.RunQueued())]
    steered = tell(received("two", "msg_3"))
    body = fold([*start, steered, tell(e.RunCancelled(by=ANN, reason=None))])
    assert [(said.id, said.border) for said in body.recent] == [("msg_1", True)]
    assert [said.id for said in body.waiting] == ["msg_3"]


@pytest.mark.parametrize("name", ["stopped_queue", "stopped_adopted"])
def test_after_a_stop_nothing_waits(name):
    """What a Stop clears stands behind what was taken, be it queued, joined to the run, or left to a run that waits."""
    body = fold(golden(name))
    assert not body.waiting
    assert body.active is None
    cleared = [said.seq for said in body.messages if said.role == "user"]
    assert cleared == sorted(cleared)


def test_what_is_cancelled_in_the_queue_ends_no_message_of_the_run_at_work():
    """The run at work goes on in its message, which says nothing of those that were cancelled behind it."""
    events = golden("stopped_queue")
    at = next(n for n, each in enumerate(events) if each.type == "run.cancelling" and each.run == "run_1")
    body = fold(events[:at])
    assert [said.text for said in body.messages] == ["one", "Half", "two", "four", "three"]
    assert [said.text for said in body.waiting] == ["three"]
    assert border(body, Segment(), Limits(1.0)) is None
    assert [run.id for run in cut(body, Segment()).runs] == ["run_1"]


def test_of_runs_that_are_cancelled_in_the_queue_the_last_tells():
    """Where none is at work, as many as are cancelled give one message that says so."""
    tell, start = Teller(), []
    for n in (1, 2):
        start += [tell(received(str(n), f"msg_{n}"), f"run_{n}"), tell(e.RunQueued(), f"run_{n}")]
    body = fold([*start, *(tell(e.RunCancelled(by=ANN, reason=None), f"run_{n}") for n in (2, 1))])
    assert [(said.text, said.run, said.border) for said in body.recent] == [("1", "run_1", True), ("2", None, False)]


def test_a_correction_replaces_what_was_said():
    """A corrected message shows its new text, whether it waits or was taken."""
    tell = Teller()
    fixed = e.MessageCorrected(message="msg_1", parts=(Text("better"),))
    start = [tell(received("good")), tell(e.RunQueued())]
    assert fold([*start, tell(fixed)]).waiting[0].text == "better"
    assert fold([*start, tell(started(takes=(1,))), tell(fixed)]).recent[0].text == "better"


def test_a_deleted_message_is_gone_or_empty():
    """What no step took is not there any more; what one took keeps its place and says nothing."""
    tell = Teller()
    gone = e.MessageCorrected(message="msg_1", parts=(), corrects=1)
    start = [tell(received("good")), tell(e.RunQueued())]
    assert not fold([*start, tell(gone)]).messages
    assert [said.text for said in fold([*start, tell(started(takes=(1,))), tell(gone)]).messages] == ["", ""]


def test_a_wait_and_an_end_draw_a_border():
    """What follows a wait or the end of a run stands in a message of its own."""
    tell = Teller()
    body = fold([tell(received("one")), tell(e.RunQueued()), tell(started(takes=(1,)))])
    waiting = view(body, tell(e.RunWaiting(on=("client",))))
    assert last(waiting).border
    assert waiting.active is not None
    assert waiting.active.status == "requires_action"
    ended = view(body, tell(e.RunFailed(code="lost", message="The worker is gone.", retryable=True)))
    assert last(ended).border
    assert not last(ended).open
    assert ended.active is None
    assert ended.runs[0].error == "The worker is gone."


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


def test_cancelling_is_told_before_the_end():
    """Between the Stop and the end of its run a Body says so."""
    events = golden("cancel")
    at = next(n for n, each in enumerate(events) if each.type == "run.cancelling")
    assert fold(events[: at + 1]).runs[0].cancelling
    assert not fold(events).runs[0].cancelling


def test_an_imported_message_stands_where_it_was_told():
    """A message of the history that a run brought along is shown as it is."""
    tell = Teller()
    said = e.MessageCompleted(message="msg_0", role="user", parts=(Text("Before."),), stop="done")
    assert fold([tell(said)]).recent[0].text == "Before."


def test_reasoning_and_calls_hold_their_place_and_are_not_text():
    """Parts other than text keep the index of the text behind them and show nothing."""
    tell = Teller()
    thought = e.ReasoningDelta(message="msg_2", part=0, epoch=1, attempt=1, offset=0, text="Hm.")
    body = fold([tell(thought), tell(delta("Yes.", 0, part=2))])
    assert [piece.kind for piece in last(body).parts] == ["reasoning", "other", "text"]
    assert last(body).text == "Yes."


def test_what_is_unknown_is_passed_over():
    """An event of a later version, of a child run, or of a call nobody knows changes at most `seq`."""
    tell = Teller()
    frame = {"session": "ses_1", "run": "run_1", "parent_run": None, "time": "2026-01-05T09:00:00.001Z"}
    later = event({**frame, "seq": 7, "type": "poem.recited", "data": {"lines": 3}})
    assert view(EMPTY, later) == Body(seq=7)
    child = Teller()(received("task"), "run_2", parent="run_1")
    assert view(EMPTY, child) == Body(seq=1)
    assert view(EMPTY, tell(delta("x", 0), "run_2", parent="run_1")) == EMPTY
    assert view(EMPTY, tell(e.ToolProgress(call="call_9", text="…"))) == EMPTY
    assert view(EMPTY, tell(e.Heartbeat())) == EMPTY


def test_a_fact_without_a_run_changes_no_run():
    """Facts of the session itself show nothing."""
    body = fold(golden("plain")[:2])
    assert body == Body(seq=2)


def test_a_late_word_about_an_old_message_is_heard():
    """What is told of a message that changes no more by the rule still does: a call's end, a border, a correction."""
    tell = Teller()
    asked = e.ToolRequested(call="call_1", name="buy", arguments={}, index=0, step=1)
    first = e.MessageCompleted(message="msg_2", role="assistant", parts=(Text("One."),), stop="tools")
    start = [tell(received("one")), tell(e.RunQueued()), tell(started(takes=(1,))), tell(first), tell(asked)]
    body = fold([*start, tell(started(n=2, message="msg_3"), "run_2")])
    assert [said.id for said in body.past] == ["msg_1", "msg_2"]
    done = e.ToolCompleted(call="call_1", outcome="done", parts=(), truncated=False)
    fixed = e.MessageCorrected(message="msg_1", parts=(Text("uno"),))
    body = fold([tell(done), tell(fixed), tell(e.RunCancelled(by=ANN, reason=None))], body)
    assert (body.past[0].text, body.past[1].calls[0].status, body.past[1].border) == ("uno", "done", True)


def test_a_reader_that_knows_too_little_is_not_confused():
    """Facts about a run, a call or a message that lie before the cursor change what can be known and no more."""
    tell = Teller()
    waiting, asked = (
        e.RunWaiting(on=("approval",)),
        e.ToolRequested(call="call_1", name="buy", arguments={}, index=0, step=1),
    )
    unknown = e.MessageCorrected(message="msg_9", parts=(Text("?"),))
    body = fold([tell(asked), tell(waiting), tell(unknown), tell(e.RunResumed(epoch=2, cause="approval"))])
    assert (body.messages, [run.status for run in body.runs]) == ((), ["running"])
    assert view(body, tell(e.RunStarted(epoch=3), None)) == replace(body, seq=5)
