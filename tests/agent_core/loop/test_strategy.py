"""The strategy: a pure function from what has happened to what comes next."""

from agent_core import events as e
from agent_core.agent.state import TOOLS_WITHHELD, Compact, RunState, replay
from agent_core.agent.strategy import (
    CONTINUE_NOTE,
    Ask,
    CallTools,
    Finish,
    Move,
    Wait,
    announce,
    backoff,
    message_id,
    react,
)
from agent_core.agents import Agent, Controls, Limits, controls
from agent_core.events import FactBody
from agent_core.messages import UNKNOWN_USAGE, Text
from tests.agent_core.history import (
    ANN,
    RUN,
    USAGE,
    called,
    closed,
    ended,
    failed,
    history,
    make_agent,
    opened,
    received,
    said,
    spec,
    started,
    wish,
)
from tests.cases import for_each

LOOK, SAFE = spec(), spec("see", concurrency_safe=True)
AGENT = make_agent(LOOK, SAFE)


def state_after(*bodies: FactBody) -> RunState:
    return replay(RUN, history(*bodies))


def after(*bodies: FactBody, agent: Agent = AGENT) -> Move:
    return react(state_after(*bodies), agent)


def one_step(*more: FactBody) -> list[FactBody]:
    return [*opened(), started(takes=(1,)), *more]


def test_a_run_begins_by_asking_the_model():
    """The first move asks the model, taking the run's input."""
    move = asked(*opened())
    assert (move.n, move.attempt, move.takes, move.delay) == (1, 1, (1,), 0)


def test_an_answer_without_calls_ends_the_run():
    """A whole answer that asks for nothing ends the run."""
    move = after(*one_step(said(1, Text("Hi.")), closed()))
    assert move == Finish(e.RunCompleted(stop_reason="end_turn", usage=USAGE, cost=None))


def test_a_refusal_ends_the_run_as_refused():
    """A refused answer ends the run with the stop reason `refused`."""
    move = after(*one_step(said(1, stop="refused"), closed(1, UNKNOWN_USAGE)))
    assert isinstance(move, Finish)
    assert isinstance(move.end, e.RunCompleted)
    assert move.end.stop_reason == "refused"


def test_a_message_that_came_meanwhile_gets_another_step():
    """A message that joined the run while the model answered is taken by one more step."""
    move = asked(*one_step(received("and this?"), said(1, Text("Hi.")), closed()))
    assert (move.n, move.takes) == (2, (5,))


def test_calls_that_are_not_safe_go_one_by_one():
    """Of several calls the strategy runs the next one alone, unless it and its neighbours may run side by side."""
    calls = (wish("c1", "see", a=1), wish("c2", "see", a=2), wish("c3", "look"), wish("c4", "see", a=4))
    facts = one_step(*called(1, *calls))
    assert due(*facts) == ["c1", "c2"]
    facts += [e.ToolStarted(call="c1"), e.ToolStarted(call="c2"), ended("c2"), ended("c1")]
    assert due(*facts) == ["c3"]
    assert due(*facts, e.ToolStarted(call="c3"), ended("c3")) == ["c4"]


def test_unknown_tool_is_not_concurrency_safe():
    """A call of a tool that the agent does not have goes alone."""
    assert due(*one_step(*called(1, wish("c1", "nothing"), wish("c2", "see")))) == ["c1"]


def test_interrupted_calls_come_before_all_others():
    """After a takeover the calls that the lost worker had started come first."""
    facts = one_step(*called(1, wish("c1", "see"), wish("c2", "look")), e.ToolStarted(call="c1"))
    assert due(*facts, e.RunResumed(epoch=2, cause="restarted")) == ["c1"]


def test_a_call_that_ends_its_process_twice_is_not_made_again():
    """Two processes that end while a call runs end its run, which names it; no stop, outage or bug counts."""
    facts = one_step(*called(1, wish("c1", "see"), wish("c2", "look")), e.ToolStarted(call="c1"))
    causes = ("restarted", "handed_over", "outage", "crashed")
    facts += [e.RunResumed(epoch=n, cause=cause) for n, cause in enumerate(causes, 2)]
    assert due(*facts) == ["c1"]
    assert due(*facts, ended("c1"), e.ToolStarted(call="c2"), e.RunResumed(epoch=6, cause="restarted")) == ["c2"]
    move = after(*facts, e.RunResumed(epoch=6, cause="restarted"))
    assert isinstance(move, Finish)
    assert isinstance(move.end, e.RunFailed)
    assert (move.end.code, "2 times while `see` ran" in move.end.message) == ("lost", True)


def test_a_run_waits_only_when_nothing_else_is_due():
    """Open calls that others finish make the run wait, after all other calls have ended."""
    facts = one_step(*called(1, wish("c1"), wish("c2", a=2)))
    facts += [e.ToolStarted(call="c1"), e.ToolPending(call="c1", on="client")]
    assert due(*facts) == ["c2"]
    facts += [e.ToolStarted(call="c2"), e.ToolPending(call="c2", on="approval")]
    assert after(*facts) == Wait(("approval", "client"))
    assert after(*facts, ended("c1")) == Wait(("approval",))
    assert isinstance(after(*facts, ended("c1"), ended("c2")), Ask)


@for_each(
    "facts",
    [
        opened(),
        one_step(),
        one_step(failed()),
        one_step(*called(1, wish("c1"))),
        one_step(*called(1, wish("c1")), e.ToolStarted(call="c1"), e.ToolPending(call="c1", on="client")),
        one_step(said(1, Text("Hi.")), closed()),
        one_step(*(e.RunResumed(epoch=n, cause="crashed") for n in range(2, 9))),
    ],
)
def test_cancel_comes_before_everything(facts):
    """Once a run was asked to stop its next move is its end, whatever it was about to do."""
    stop = e.RunCancelling(by=ANN, reason="enough")
    assert after(*facts, stop) == Finish(e.RunCancelled(by=ANN, reason="enough"))


def test_third_identical_call_ends_as_doom_loop():
    """The third identical call in a row fails the run before it is run; the second is still run."""
    facts = [*opened()]
    for n in (1, 2):
        call = wish(f"c{n}", a=1)
        facts += [started(n), *called(n, call)]
        assert isinstance(after(*facts), CallTools)
        facts += [e.ToolStarted(call=call.call), ended(call.call)]
    move = after(*facts, started(3), *called(3, wish("c3", a=1)))
    assert isinstance(move, Finish)
    assert isinstance(move.end, e.RunFailed)
    assert move.end.code == "doom_loop"


def test_a_failing_model_is_asked_three_times_more():
    """A transient failure is tried again three times, with growing pauses, then the run fails as `provider_error`."""
    facts, pauses = one_step(failed()), []
    for attempt in (2, 3, 4):
        move = asked(*facts)
        assert (move.n, move.attempt, move.message) == (1, attempt, message_id(RUN, 1))
        pauses.append(move.delay)
        facts += [started(attempt=attempt), failed(attempt=attempt)]
    assert pauses == [backoff(RUN, failures, longer=True) for failures in (1, 2, 3)]
    assert failure(*facts) == ("provider_error", True)


def test_retry_after_is_kept_to():
    """A provider that names a pause is given it; one that asks for more than two minutes is not waited for."""
    assert asked(*one_step(failed(retry_after=7.5))).delay == 7.5
    assert asked(*one_step(failed(retry_after=0.0))).delay == 0
    assert failure(*one_step(failed(retry_after=600.0))) == ("provider_error", True)


def test_a_lasting_failure_is_not_tried_again():
    """A failure that a retry cannot fix fails the run at once, an overflowing context by its own code."""
    assert failure(*one_step(failed(code="invalid", retryable=False))) == ("provider_error", False)
    assert failure(*one_step(failed(code="context_overflow", retryable=False))) == ("context_overflow", False)


def test_a_step_whose_worker_died_is_tried_again_at_once():
    """A step without an end is tried again as the next attempt of the same message, without a pause."""
    move = asked(*one_step(e.RunResumed(epoch=2, cause="restarted")))
    assert (move.n, move.attempt, move.takes, move.delay) == (1, 2, (), 0)


def test_fifth_failed_resume_ends_the_run():
    """Four resumes that got nowhere are followed by another try, the fifth by the end as `lost`."""
    resumes = [e.RunResumed(epoch=n, cause="crashed") for n in range(2, 7)]
    assert isinstance(after(*one_step(*resumes[:4])), Ask)
    assert failure(*one_step(*resumes))[0] == "lost"
    assert isinstance(after(*one_step(*resumes[:4], *called(1, wish("c1")), resumes[4])), CallTools)


def test_a_cut_answer_is_continued_three_times():
    """An answer cut by the token limit is continued with a note, up to three times; a fourth cut ends the run."""
    facts: list[FactBody] = [*opened()]
    for n in (1, 2, 3):
        facts += [started(n, takes=(1,) if n == 1 else ()), said(n, Text("…"), stop="length"), closed(n)]
        move = asked(*facts)
        assert (move.n, move.attempt, move.note) == (n + 1, 1, CONTINUE_NOTE)
    move = after(*facts, started(4), said(4, Text("…"), stop="length"), closed(4))
    assert isinstance(move, Finish)
    assert isinstance(move.end, e.RunCompleted)
    assert move.end.stop_reason == "max_tokens"


@for_each(
    "tools, most, reason",
    [((), 1, "max_tokens"), ((), 2, "max_tokens"), ((LOOK,), 1, "max_tokens"), ((LOOK,), 2, "max_steps")],
)
def test_cut_answer_at_the_last_step_ends_as_max_tokens_unless_tools_were_withheld(tools, most, reason):
    """A cut answer with no step left ends as `max_tokens`; `max_steps` is for an agent whose tools were withheld."""
    facts = [*opened()]
    for n in range(1, most + 1):
        facts += [started(n, takes=(1,) if n == 1 else ()), said(n, Text("…"), stop="length"), closed(n)]
    move = after(*facts, agent=make_agent(*tools, controls=Controls(max_steps=most)))
    assert isinstance(move, Finish)
    assert isinstance(move.end, e.RunCompleted)
    assert move.end.stop_reason == reason


def test_a_paused_answer_is_continued():
    """An answer that the provider itself wants to continue is asked for again without a note."""
    move = asked(*one_step(said(1, Text("…"), stop="continue"), closed()))
    assert (move.n, move.note) == (2, None)


def test_the_last_step_withholds_the_tools():
    """Up to the last step an agent may call its tools; in the last one it may not."""
    agent = make_agent(LOOK, controls=Controls(max_steps=3))
    assert [controls(n, agent).tool_choice for n in (1, 2, 3)] == ["auto", "auto", "none"]
    assert controls(1, make_agent()).tool_choice == "none"


def test_a_run_may_have_its_own_limits():
    """What a run brings takes precedence over what its agent says, and that over the default of 25 steps."""
    assert make_agent(LOOK).max_steps == 25
    assert make_agent(LOOK, controls=Controls(max_steps=7)).max_steps == 7
    assert make_agent(LOOK, controls=Controls(max_steps=7), overrides=Controls(max_steps=2)).max_steps == 2


@for_each(
    "agent, steps, reason",
    [
        (make_agent(LOOK, controls=Controls(max_steps=2)), 2, "max_steps"),
        (make_agent(LOOK, controls=Controls(max_steps=2)), 1, "end_turn"),
        (make_agent(LOOK, controls=Controls(max_steps=1)), 1, "end_turn"),
        (make_agent(controls=Controls(max_steps=2)), 2, "end_turn"),
    ],
)
def test_max_steps_is_said_when_tools_were_withheld(agent, steps, reason):
    """The stop reason is `max_steps` when tools were withheld from an agent that has some and the cap is above 1."""
    facts: list[FactBody] = [*opened()]
    for n in range(1, steps):
        facts += [started(n, takes=(1,)), said(n, Text("…"), stop="continue"), closed(n)]
    move = after(*facts, started(steps, takes=(1,)), said(steps, Text("End.")), closed(steps), agent=agent)
    assert isinstance(move, Finish)
    assert isinstance(move.end, e.RunCompleted)
    assert move.end.stop_reason == reason


def test_after_the_last_step_nothing_is_asked():
    """At the cap a run ends, even with a cut answer or an input that no step took; it is left for the next run."""
    agent = make_agent(controls=Controls(max_steps=1))
    facts = one_step(received("news"), said(1, Text("…"), stop="length"), closed())
    assert isinstance(after(*facts, agent=agent), Finish)
    assert state_after(*facts).inbox.unanswered == (5,)


def test_a_refused_call_is_followed_by_the_same_step_at_once():
    """A step whose calls were refused is asked once more without a pause, with the note that says why."""
    note = e.ContextAdded(source="note", text="Answer now.")
    move = asked(*one_step(failed(code=TOOLS_WITHHELD), note))
    assert (move.n, move.attempt, move.takes, move.delay) == (1, 2, (6,), 0)


def test_a_full_window_is_cut_before_the_next_step():
    """A window past its limit is cut to half before a new step, where a border allows it, but not within a step."""
    agent = make_agent(limits=Limits(max_context_messages=10))
    fresh, again = state_after(*opened()), state_after(*one_step(failed()))
    assert isinstance(react(fresh.with_window(size=9, border=4), agent), Ask)
    for size, border in ((10, 4), (99, 0)):
        move = react(fresh.with_window(size=size, border=border), agent)
        assert isinstance(move, Compact)
        assert (move.kind, move.keep, move.whole) == ("summary", 3, True), "with the summary it is half"
    assert isinstance(react(fresh.with_window(size=0, border=0), agent), Ask)
    assert isinstance(react(again.with_window(size=99, border=4), agent), Ask)
    unlimited = make_agent(limits=Limits(max_context_messages=None))
    assert isinstance(react(fresh.with_window(size=9999, border=4), unlimited), Ask)


def test_controls_are_announced_when_they_change():
    """A step names its controls when they differ from the step before, and is silent otherwise."""
    agent = make_agent(LOOK, controls=Controls(max_steps=3))
    facts: list[FactBody] = [*opened()]
    named = []
    for n in (1, 2, 3):
        state = state_after(*facts)
        (step,) = announce(react(state, agent), state, agent)
        assert isinstance(step, e.StepStarted)
        named.append(step.controls and step.controls["tool_choice"])
        facts += [
            step,
            e.MessageCompleted(message=step.message, role="assistant", parts=(), stop="continue"),
            closed(n),
        ]
    assert named == ["auto", None, "none"]


def asked(*facts: FactBody) -> Ask:
    move = after(*facts)
    assert isinstance(move, Ask)
    return move


def due(*facts: FactBody) -> list[str]:
    move = after(*facts)
    assert isinstance(move, CallTools)
    return [call.call for call in move.calls]


def failure(*facts: FactBody) -> tuple[str, bool]:
    move = after(*facts)
    assert isinstance(move, Finish)
    assert isinstance(move.end, e.RunFailed)
    return move.end.code, move.end.retryable
