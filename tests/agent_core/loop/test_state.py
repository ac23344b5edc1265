"""RunState: what has happened in one run, folded from the facts of its session."""

from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core import events as e
from agent_core.agent.state import TOOLS_WITHHELD, InboxState, RunState, call_key, replay
from agent_core.events import FactBody
from agent_core.messages import Text, Usage
from tests.agent_core.history import (
    ANN,
    RUN,
    called,
    closed,
    ended,
    failed,
    history,
    opened,
    received,
    said,
    started,
    wish,
)


def state_after(*bodies: FactBody) -> RunState:
    return replay(RUN, history(*bodies))


def test_new_run_has_unconsumed_input():
    """A new run has consumed nothing: its input waits for the first step, and no other run has to answer it."""
    state = state_after(*opened())
    assert (state.phase, state.epoch, state.step.n) == ("running", 1, 0)
    assert state.inbox.unconsumed == (1,)
    assert state.inbox.unanswered == ()


def test_step_consumes_only_the_messages_that_it_names():
    """Only the messages that a step names are consumed; the others wait for a later one."""
    state = state_after(*opened(), received("more"), received("still more"), started(takes=(1, 4)))
    assert state.inbox.unconsumed == (5,)
    assert state.inbox.unanswered == (5,)


def test_steered_message_is_unanswered_until_a_step_consumes_it():
    """A message that joins a run is left to the next run if this one never consumes it."""
    before = (*opened(), started(takes=(1,)), received("news"))
    assert state_after(*before).inbox.unanswered == (5,)
    assert state_after(*before, said(1, Text("ok")), closed(), started(2, takes=(5,))).inbox.unanswered == ()


def test_inputs_left_by_another_run_are_unconsumed():
    """A run that adopts messages of an ended run has them to consume."""
    assert state_after(e.RunQueued(inputs=(3, 4))).inbox.unconsumed == (3, 4)


def test_an_imported_history_is_folded_at_once(monkeypatch: pytest.MonkeyPatch):
    """The inbox is made once for a history, however long: once for each message would be quadratic."""
    made: list[tuple[int, ...]] = []
    original = InboxState.with_imported

    def noted(inbox: InboxState, seqs: Sequence[int], *, by_user: Sequence[int]) -> InboxState:
        made.append(tuple(by_user))
        return original(inbox, seqs, by_user=by_user)

    monkeypatch.setattr(InboxState, "with_imported", noted)
    roles: list[Literal["user", "assistant"]] = ["user", "assistant", "user"]
    old = [e.MessageCompleted(message=f"msg_{n}", role=role, parts=(), stop="done") for n, role in enumerate(roles)]
    state = RunState("run_1").preview([*old, e.RunQueued()])
    assert state.inbox.unconsumed == (-4, -3, -2)
    assert made == [(-4, -2)]


def test_imported_messages_wait_for_the_first_step():
    """Messages of an imported history wait for the first step, like the input itself."""
    old = e.MessageCompleted(message="msg_old", role="assistant", parts=(Text("Before."),), stop="done")
    assert state_after(old, *opened()).inbox.unconsumed == (1, 2)


def test_facts_of_other_runs_change_only_the_seq():
    """Facts of another run change nothing of a state but its seq."""
    mine = history(*opened())
    theirs = history(*(("run_2", body) for body in (*opened(), started(takes=(4,)))), first=4)
    before, after = replay(RUN, mine), replay(RUN, [*mine, *theirs])
    assert after == before.at(7)


def test_step_is_open_until_its_message_completes():
    """A step is open from its start to its completed message, over all its attempts."""
    facts = [*opened(), started(takes=(1,)), failed(), started(attempt=2)]
    assert state_after(*facts).step.is_open
    assert state_after(*facts).step.attempt == 2
    assert not state_after(*facts, said(1, Text("Hi."))).step.is_open


def test_failures_are_counted_per_step():
    """Failed attempts add up within a step, and the next step begins at none."""
    facts: list[FactBody] = [*opened(), started(), failed(), started(attempt=2), failed(attempt=2)]
    assert state_after(*facts).step.failures == 2
    facts += [started(attempt=3), *called(1, wish("c1"))]
    assert state_after(*facts).step.failures == 0


def test_withheld_tools_use_up_no_retry():
    """An attempt whose calls were refused uses up none of the retries for a failing provider."""
    state = state_after(*opened(), started(), failed(code=TOOLS_WITHHELD))
    assert state.step.failures == 0
    assert state.step.failure
    assert state.step.failure.code == TOOLS_WITHHELD


def test_calls_are_those_of_the_newest_step():
    """A state holds the calls of the newest step only, each with its status."""
    facts = [*opened(), started(), *called(1, wish("c1"), wish("c2", x=1)), e.ToolStarted(call="c1")]
    assert [(c.call, c.status) for c in state_after(*facts).waiting.calls] == [("c1", "started"), ("c2", "requested")]
    facts += [ended("c1"), e.ToolPending(call="c2", on="client")]
    state = state_after(*facts)
    assert [(c.status, c.outcome, c.on) for c in state.waiting.calls] == [
        ("completed", "done", None),
        ("pending", None, "client"),
    ]
    assert [c.call for c in state.waiting.open_calls()] == ["c2"]
    assert state_after(*facts, ended("c2"), started(2)).waiting.calls == ()


def test_started_call_keeps_the_epoch_that_started_it():
    """After a takeover a call that the lost worker started differs from one that was only requested."""
    facts = [*opened(), started(), *called(1, wish("c1"), wish("c2", x=1)), e.ToolStarted(call="c1")]
    state = state_after(*facts, e.RunResumed(epoch=2, cause="restarted"))
    assert [(c.call, c.epoch < state.epoch and c.status == "started") for c in state.waiting.calls] == [
        ("c1", True),
        ("c2", False),
    ]


def test_identical_calls_are_counted_over_steps_and_siblings():
    """The same call in a row counts up, over parallel calls and over steps; any other call in between resets it."""
    same, other = wish("c1", a=1, b=[2, {"x": 1, "y": 2}]), wish("c4", a=2)
    swapped = wish("c2", b=[2, {"y": 2, "x": 1}], a=1)
    facts = [*opened(), started(), *called(1, same, swapped)]
    assert [c.repeat for c in state_after(*facts).waiting.calls] == [1, 2]
    facts += [ended("c1"), ended("c2"), started(2), *called(2, wish("c3", a=1, b=[2, {"x": 1, "y": 2}]), other)]
    assert [c.repeat for c in state_after(*facts).waiting.calls] == [3, 1]


def test_failed_resumes_count_up_until_progress():
    """Failed resumes count up until a step or a call completed, or the run waited."""
    resumes = [e.RunResumed(epoch=n, cause="crashed") for n in (2, 3)]
    facts = [*opened(), started(), *resumes]
    assert state_after(*facts).failed_resumes == 2
    assert state_after(*facts, said(1, Text("Hi.")), closed()).failed_resumes == 0
    assert state_after(*facts, *called(1, wish("c1")), *resumes, ended("c1")).failed_resumes == 0
    assert state_after(*facts, e.RunWaiting(on=("client",))).failed_resumes == 0


def test_usage_is_summed_and_the_unknown_stays_unknown():
    """Tokens of all attempts add up; a kind of token that one step did not report is unknown for the whole run."""
    one, two = Usage(10, 5, None, 0, 0, 0), Usage(20, 5, 7, 1, 0, None)
    facts = [*opened(), started(), failed(usage=one), started(attempt=2), said(1, Text("Hi.")), closed(1, two)]
    assert state_after(*facts).usage == Usage(30, 10, None, 1, 0, None)
    assert state_after(*opened()).usage is None


def test_cut_answers_are_counted_in_a_row():
    """Answers cut at the output limit count up; a complete one resets the count."""
    facts: list[FactBody] = [*opened()]
    for n in (1, 2):
        facts += [started(n), said(n, Text("…"), stop="length"), closed(n)]
    assert state_after(*facts).answer.continuations == 2
    assert state_after(*facts, started(3), said(3, Text("."), stop="tools")).answer.continuations == 0


def test_first_cancel_wins():
    """Of several cancels the first names the actor and the reason."""
    first = e.RunCancelling(by=ANN, reason="enough")
    state = state_after(*opened(), first, e.RunCancelling(by=ANN, reason="again"))
    assert state.cancelling == first


def test_preview_numbers_unwritten_facts_from_the_end():
    """In a preview the k-th fact from the end has seq -k, and the state it came from is as it was."""
    state = state_after(*opened(), started(takes=(1,)), said(1), closed())
    note = e.ContextAdded(source="note", text="Mind the gap.")
    assert state.preview([note, received("more"), note]).inbox.unconsumed == (-3, -2, -1)
    assert state.preview([note]).seq == state.seq
    assert state.inbox.unconsumed == ()


@given(st.recursive(st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.text(max_size=3), inner)))
def test_key_order_does_not_change_a_call_key(value):
    """Two calls whose arguments differ in the order of keys alone, at any depth, are the same call."""
    assert call_key("look", {"a": value, "b": 1}) == call_key("look", {"b": 1, "a": _reversed(value)})
    assert call_key("look", {"a": value}) != call_key("see", {"a": value})
    assert call_key("look", {"a": value}) != call_key("look", {"a": [value]})


def _reversed(value):
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return value
