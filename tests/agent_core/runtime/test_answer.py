"""Answer: a model's stream, as deltas to show and facts to keep."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agent_core import events as e
from agent_core.agent.state import TOOLS_WITHHELD, replay
from agent_core.agent.strategy import EMPTY_NOTE, Ask
from agent_core.agents import Controls
from agent_core.controls import ToolChoice
from agent_core.events import FactBody
from agent_core.messages import UNKNOWN_USAGE, Citation, Reasoning, Text, ToolCall, Usage, native_text
from agent_core.providers import base as p
from agent_core.providers.base import MAX_CITATIONS
from agent_core.runtime.compacting import SummaryAnswer
from agent_core.runtime.drive import Answer, out_of_steps
from tests.agent_core.history import (
    RUN,
    ended,
    failed,
    history,
    make_agent,
    opened,
    requested,
    said,
    spec,
    started,
    wish,
)
from tests.cases import for_each

AGENT = make_agent(spec("look"))
DONE = p.Finished("done")


def make_answer(tool_choice: ToolChoice = "auto", attempt=1, model: str | None = None) -> Answer:
    chosen = Controls(tool_choice=tool_choice, model=model)
    return Answer(Ask(n=1, attempt=attempt, message="msg_1", takes=(1,), controls=chosen, snapshot="s"), 2)


def play(*deltas: p.ModelDelta, interrupted: bool = False, tool_choice: ToolChoice = "auto") -> Sequence[FactBody]:
    """Return the facts of an answer that was streamed as *deltas*."""
    answer = make_answer(tool_choice)
    answer.take(deltas)
    return answer.facts(replay(RUN, history(*opened(), started())), AGENT, interrupted=interrupted)


def message(facts: Sequence[FactBody]) -> e.MessageCompleted:
    assert isinstance(facts[0], e.MessageCompleted)
    return facts[0]


def calling(slot: int, name: str = "look", raw: str = "{}", arguments: dict | None = None) -> list[p.ModelDelta]:
    return [p.ToolStart(slot, f"c{slot}", name), p.ToolArgsDelta(slot, raw), p.ToolEnd(slot, raw, arguments)]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), TEXT), max_size=4), max_size=6))
def test_appended_message_equals_the_shown_deltas(batches):
    """Joined by their offsets in code points, the deltas of each part give the text that is kept of it."""
    answer, shown = make_answer(), dict[int, str]()
    for batch in batches:
        deltas = answer.take(
            [p.ModelTextDelta(slot, text) if slot else p.ModelReasoningDelta(slot, text) for slot, text in batch]
        )
        assert len({delta.part for delta in deltas}) == len(deltas), "one delta per part and batch"
        for delta in deltas:
            assert (delta.message, delta.epoch, delta.attempt) == ("msg_1", 2, 1)
            assert delta.text
            assert len(shown.get(delta.part, "")) == delta.offset
            shown[delta.part] = shown.get(delta.part, "") + delta.text
    answer.take([DONE])
    parts = message(answer.facts(replay(RUN, history(*opened(), started())), AGENT, interrupted=False)).parts
    kept = [part.text for part in parts if isinstance(part, Text | Reasoning)]
    assert kept == [text for _, text in sorted(shown.items()) if text.strip()]


def test_a_whole_answer_completes_message_and_step():
    """A whole answer is one completed message, then its step with the usage."""
    usage = Usage(1, 2, 3, 4, 5, 6)
    facts = play(p.ModelReasoningDelta(0, "Hm."), p.ModelTextDelta(1, "Hi."), p.UsageReport(usage), DONE)
    assert facts == [
        e.MessageCompleted(message="msg_1", role="assistant", parts=(Reasoning("Hm."), Text("Hi.")), stop="done"),
        e.StepCompleted(n=1, usage=usage, cost=None),
    ]


def test_the_last_usage_report_counts():
    """Of several usage reports the last one is kept, and none at all is unknown."""
    first, last = Usage(1, 1, None, None, None, None), Usage(1, 9, None, None, None, None)
    assert play(p.UsageReport(first), p.UsageReport(last), DONE)[1] == e.StepCompleted(n=1, usage=last, cost=None)
    assert play(DONE)[1] == e.StepCompleted(n=1, usage=UNKNOWN_USAGE, cost=None)


def test_an_empty_answer_is_a_message_without_parts():
    """An answer that says nothing, or only blanks, is kept as a whole message without parts."""
    assert message(play(DONE)).parts == ()
    assert message(play(p.ModelTextDelta(0, " \n"), DONE)).parts == ()
    assert message(play(DONE)).partial is False


def test_calls_are_requested_in_order():
    """Calls stand in the message in the order they were said, and are requested in that order after the step."""
    facts = play(p.ModelTextDelta(0, "Wait."), *calling(1, arguments={"a": 1}), *calling(2, "see", arguments={}), DONE)
    said, step, first, second = facts
    assert isinstance(step, e.StepCompleted)
    assert isinstance(first, e.ToolRequested)
    assert isinstance(second, e.ToolRequested)
    assert message([said]).stop == "tools"
    assert message([said]).parts == (
        Text("Wait."),
        ToolCall(first.call, "look", {"a": 1}),
        ToolCall(second.call, "see", {}),
    )
    assert [(each.name, each.index, each.step) for each in (first, second)] == [("look", 0, 1), ("see", 1, 1)]
    assert first.call != second.call


def test_arguments_that_are_no_object_are_requested_as_they_came():
    """A call whose arguments are no JSON object, or cannot be kept as one, is requested with none and the raw text."""
    *_, request = play(*calling(0, raw='{"a": ', arguments=None), DONE)
    assert isinstance(request, e.ToolRequested)
    assert (request.arguments, request.raw) == ({}, '{"a": ')
    *_, request = play(*calling(0, raw='{"a": "\\ud800"}', arguments={"a": "\ud800"}), DONE)
    assert isinstance(request, e.ToolRequested)
    assert (request.arguments, request.raw) == ({}, '{"a": "\\ud800"}')


def test_lone_surrogates_are_replaced():
    """A lone surrogate in a model's text becomes U+FFFD, in what is shown and in what is kept."""
    assert message(play(p.ModelTextDelta(0, "a\ud800b"), DONE)).parts == (Text("a\ufffdb"),)


def test_native_items_are_kept_with_the_model_that_wrote_them():
    """What must be replayed verbatim is kept with the message, whole messages only."""
    said = (
        p.NativeItem(('{"signature":"x"}',)),
        p.ModelTextDelta(1, "Hi"),
        p.NativeItem(('{"text":', 1, "}")),
        *calling(2, arguments={}),
        p.NativeItem(('{"type":"call"}',), call=2),
    )
    native = message(play(*said, DONE)).native
    assert native is not None
    assert native.pieces == ('{"signature":"x"},{"text":', 0, '},{"type":"call"}')
    assert native.calls == ("c2",)
    assert message(play(*said, interrupted=True)).native is None


@for_each("reason", ["length", "continue"])
def test_calls_under_a_cut_are_dropped(reason):
    """An answer that was cut keeps its text; its calls are neither kept nor requested, whole or not."""
    facts = play(
        p.ModelTextDelta(0, "I will"), *calling(1, arguments={}), p.ToolStart(2, "c", "see"), p.Finished(reason)
    )
    assert message(facts).stop == reason
    assert message(facts).parts == (Text("I will"),)
    assert [type(fact) for fact in facts[1:]] == [e.StepCompleted]


@for_each("end", [[p.Refusal("No.")], [p.Refusal("No."), p.Finished("refused")], [p.Finished("refused")]])
def test_refusal_withdraws_the_shown_text(end):
    """A refused answer is a message without parts, whatever text came before; its calls are not requested."""
    facts = play(p.ModelTextDelta(0, "Sure, "), *calling(1, arguments={}), *end)
    assert message(facts).stop == "refused"
    assert message(facts).parts == ()
    assert [type(fact) for fact in facts[1:]] == [e.StepCompleted]


def test_stopped_refusal_keeps_no_text():
    """Text that a refusal took back does not return as the partial answer of a run that is then stopped."""
    facts = play(p.ModelTextDelta(0, "Sure, "), p.Refusal("No."), interrupted=True)
    assert (message(facts).stop, message(facts).parts) == ("cancelled", ())


def test_stream_without_an_end_is_a_failed_attempt():
    """A stream that ends without a word is a try that failed on the network, with nothing kept of its text."""
    (failed,) = play(p.ModelTextDelta(0, "Half a"))
    assert isinstance(failed, e.StepFailed)
    assert (failed.code, failed.retryable, failed.attempt) == ("network", True, 1)


def test_failure_keeps_its_code_and_message():
    """A failed try names kind, message, pause and the tokens it cost, and nothing of its text is kept."""
    usage = Usage(7, 1, None, None, None, None)
    (failed,) = play(
        p.ModelTextDelta(0, "Half a"), p.UsageReport(usage), p.CallFailed("overloaded", "Busy.", True, 3.0)
    )
    assert failed == e.StepFailed(
        n=1, attempt=1, code="overloaded", message="Busy.", retryable=True, retry_after=3.0, partial=True, usage=usage
    )


@for_each(
    "model, message",
    [
        (
            "anthropic:claude-haiku-4-5",
            "Too long. `anthropic:claude-haiku-4-5` takes 200,000 tokens, its answer among them.",
        ),
        ("openai-compatible:unheard-of", "Too long."),
    ],
)
def test_context_overflow_names_the_context_size(model, message):
    """The message for a request that was too long names the model's context size, where that is known."""
    answer = make_answer(model=model)
    answer.take([p.CallFailed("context_overflow", "Too long.", False)])
    (failed,) = answer.facts(replay(RUN, history(*opened(), started())), AGENT, interrupted=False)
    assert isinstance(failed, e.StepFailed)
    assert failed.message == message


def test_the_first_end_counts():
    """What a provider says after its first end changes nothing."""
    (failed,) = play(p.CallFailed("invalid", "Bad.", False), DONE)
    assert isinstance(failed, e.StepFailed)
    assert message(play(DONE, p.CallFailed("invalid", "Bad.", False))).stop == "done"


def test_stopped_answer_keeps_its_partial_text():
    """An answer that was stopped keeps its text as a partial message, without its calls, and what it cost."""
    facts = play(p.ModelTextDelta(0, "Half a"), *calling(1, arguments={}), interrupted=True)
    partial = e.MessageCompleted(
        message="msg_1", role="assistant", parts=(Text("Half a"),), stop="cancelled", partial=True
    )
    assert facts == [partial, e.StepCompleted(n=1, usage=UNKNOWN_USAGE, cost=None)]
    assert len(play(interrupted=True)) == 1, "a try that never began has cost nothing"


def test_an_answer_that_ended_just_before_the_stop_is_whole():
    """A stop that comes after the whole answer leaves it whole; calls that it asked for are not requested any more."""
    assert message(play(p.ModelTextDelta(0, "All."), DONE, interrupted=True)).stop == "done"
    assert message(play(p.ModelTextDelta(0, "All."), *calling(1, arguments={}), DONE, interrupted=True)).partial


def test_withheld_calls_are_refused_and_the_step_asked_again():
    """A call in a step that may not call is requested, denied, and the try fails with a note to the model."""
    facts = play(p.ModelTextDelta(0, "Let me look."), *calling(1, arguments={"a": 1}), DONE, tool_choice="none")
    request, denied, failed, note = facts
    assert isinstance(request, e.ToolRequested)
    assert isinstance(denied, e.ToolCompleted)
    assert (denied.call, denied.outcome) == (request.call, "denied")
    assert isinstance(failed, e.StepFailed)
    assert failed.retryable
    assert isinstance(note, e.ContextAdded)
    assert "`look`" in note.text


def test_a_second_withheld_call_ends_with_the_text():
    """When a step that may not call does so once more, its text is the answer and the call is dropped."""
    facts = again(p.ModelTextDelta(0, "All I know."), *calling(1, arguments={}))
    assert message(facts).stop == "done"
    assert message(facts).parts == (Text("All I know."),)
    assert [type(fact) for fact in facts[1:]] == [e.StepCompleted]


def again(*deltas: p.ModelDelta, code: str = TOOLS_WITHHELD, most: int = 3, results: int = 0) -> Sequence[FactBody]:
    """Return the facts of the second attempt at the last of *most* steps, after so many *results* of tools."""
    calls = [wish(f"c{n}") for n in range(results)]
    found = [fact for each in calls for fact in (requested(each), ended(each.call))]
    tried = [failed(most, code=code), started(most, attempt=2)]
    before = history(*opened(), started(), said(1, *calls, stop="tools"), *found, started(most), *tried)
    chosen = Controls(tool_choice="none", max_steps=most)
    move = Ask(n=most, attempt=2, message=f"msg_{most}", takes=(), controls=chosen, snapshot="s")
    answer = Answer(move, 2)
    answer.take([*deltas, DONE])
    return answer.facts(replay(RUN, before), AGENT, interrupted=False)


@for_each(
    "deltas",
    [calling(0, arguments={}), [p.ModelReasoningDelta(0, "Hm.")], [p.ModelTextDelta(0, " ")], []],
)
def test_a_last_step_without_words_says_what_there_is(deltas):
    """Where the second try of the last step has no words either, the person reads how far the run has come."""
    said, step = again(*deltas, results=2)
    assert message([said]).parts == (Text(out_of_steps(3, 2)),)
    assert "limit of 3 steps" in out_of_steps(3, 2)
    assert "2 tool results are there" in out_of_steps(3, 2)
    assert (message([said]).stop, message([said]).partial) == ("done", False)
    assert isinstance(step, e.StepCompleted)
    alone, _ = again(*calling(0, arguments={}), most=1)
    assert message([alone]).parts == (Text(out_of_steps(1, 0)),)


def test_an_empty_last_answer_is_asked_for_in_words_once():
    """An empty answer in the last step is a failed attempt and a note; one of a single step stays as it is."""
    failed_, note = again(p.ModelReasoningDelta(0, "Hm."), code="network", results=1)
    assert isinstance(failed_, e.StepFailed)
    assert (failed_.code, failed_.retryable) == ("empty_answer", True)
    assert note == e.ContextAdded(source="note", text=EMPTY_NOTE)
    assert message(again(code="empty_answer", results=1)).parts == (Text(out_of_steps(3, 1)),)
    assert message(again(code="network", most=1)).parts == ()


def test_citations_are_kept_on_their_text():
    """What a provider names as a source stands with the part; a stretch that is not in it is left out."""
    whole, beyond = Citation(start=0, end=4, url="https://a"), Citation(start=2, end=9, title="B")
    facts = play(
        p.ModelReasoningDelta(0, "Hm."),
        p.ModelTextDelta(1, "Rain"),
        p.ModelCitation(1, whole),
        p.ModelCitation(1, beyond),
        p.ModelCitation(7, whole),
        DONE,
    )
    assert message(facts).parts == (Reasoning("Hm."), Text("Rain", (whole, Citation(title="B"))))


def test_citations_of_an_answer_are_bounded():
    """Of an answer that names ever more sources the first 200 are kept."""
    cited = [p.ModelCitation(0, Citation(title=str(n))) for n in range(MAX_CITATIONS + 5)]
    (text,) = message(play(p.ModelTextDelta(0, "Rain"), *cited, DONE)).parts
    assert isinstance(text, Text)
    assert [each.title for each in text.citations] == [str(n) for n in range(200)]


def test_native_items_name_stretches_of_parts():
    """A stretch of a slot's text in a native item becomes one of the part in which that text is kept."""
    stretch = p.NativeItem(('{"text":', (4, 2, 5), "}"))
    facts = play(p.ModelReasoningDelta(3, "Hm."), p.ModelTextDelta(4, "It rains."), stretch, DONE)
    native = message(facts).native
    assert native is not None
    assert native.pieces == ('{"text":', (1, 2, 5), "}")
    assert native_text(message(facts).parts, (1, 2, 5)) == " ra"


def test_delta_part_numbers_match_the_message():
    """The part that a delta names is its index in the parts of the completed message, after blank parts too."""
    answer = make_answer()
    shown = answer.take([p.ModelTextDelta(0, "\n\n"), *calling(1, arguments={}), p.ModelTextDelta(2, "Text.")])
    answer.take([DONE])
    parts = message(answer.facts(replay(RUN, history(*opened(), started())), AGENT, interrupted=False)).parts
    last = shown[-1]
    assert parts[last.part] == Text("Text.")


def test_counts_of_an_answer_and_of_a_summary_are_believed_within_bounds():
    """A count below zero, or above a thousand million, is unknown; the others of its report are kept."""
    given, known = Usage(10**9, 10**9 + 1, -1, 0, None, 2**64), Usage(10**9, None, None, 0, None, None)
    assert play(p.UsageReport(given), DONE)[1] == e.StepCompleted(n=1, usage=known, cost=None)
    summary = SummaryAnswer()
    summary.take(p.UsageReport(given))
    assert summary.usage == known
