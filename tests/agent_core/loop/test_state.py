"""RunState: what has happened in one run, folded from the facts of its session."""

from hypothesis import given
from hypothesis import strategies as st

from agent_core import Text, Usage
from agent_core.domain import events as e
from agent_core.domain.events import FactBody
from agent_core.loop.state import TOOLS_WITHHELD, RunState, call_key, replay
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


def test_a_run_begins_with_its_input_untaken():
    """A fresh run has taken nothing: its input waits for the first step, and nobody else must answer it."""
    state = state_after(*opened())
    assert (state.phase, state.epoch, state.step) == ("running", 1, 0)
    assert state.untaken == (1,)
    assert state.owed == ()


def test_a_step_takes_what_it_names_and_no_more():
    """Only the messages that a step names are taken; the others wait for a later one."""
    state = state_after(*opened(), received("more"), received("still more"), started(takes=(1, 4)))
    assert state.untaken == (5,)
    assert state.owed == (5,)


def test_a_steered_message_is_owed_until_it_is_taken():
    """A message that joins a run is owed an answer, by the next run if this one never takes it."""
    before = (*opened(), started(takes=(1,)), received("news"))
    assert state_after(*before).owed == (5,)
    assert state_after(*before, said(1, Text("ok")), closed(), started(2, takes=(5,))).owed == ()


def test_inputs_left_by_another_run_are_untaken():
    """A run that adopts messages of an ended run has them to take."""
    assert state_after(e.RunQueued(inputs=(3, 4))).untaken == (3, 4)


def test_imported_messages_are_taken_with_the_first_step():
    """Messages of an imported history wait for the first step, like the input itself."""
    old = e.MessageCompleted(message="msg_old", role="assistant", parts=(Text("Before."),), stop="done")
    assert state_after(old, *opened()).untaken == (1, 2)


def test_other_runs_only_move_the_seq():
    """Facts of another run change nothing of a state but how far it has read."""
    mine = history(*opened())
    theirs = history(*(("run_2", body) for body in (*opened(), started(takes=(4,)))), first=4)
    before, after = replay(RUN, mine), replay(RUN, [*mine, *theirs])
    assert after == before.at(7)


def test_a_step_is_open_until_its_message_is_complete():
    """A step is open from its start to its completed message, over all its attempts."""
    facts = [*opened(), started(takes=(1,)), failed(), started(attempt=2)]
    assert state_after(*facts).is_open
    assert state_after(*facts).attempt == 2
    assert not state_after(*facts, said(1, Text("Hi."))).is_open


def test_failures_are_counted_per_step():
    """Failed tries add up within a step, and the next step begins at none."""
    facts: list[FactBody] = [*opened(), started(), failed(), started(attempt=2), failed(attempt=2)]
    assert state_after(*facts).failures == 2
    facts += [started(attempt=3), *called(1, wish("c1"))]
    assert state_after(*facts).failures == 0


def test_a_refused_call_is_no_failure_of_the_provider():
    """A try that was refused its calls uses up none of the retries for a failing provider."""
    state = state_after(*opened(), started(), failed(code=TOOLS_WITHHELD))
    assert state.failures == 0
    assert state.failure
    assert state.failure.code == TOOLS_WITHHELD


def test_calls_belong_to_their_step():
    """A state holds the calls of the newest step only, each with how far it got."""
    facts = [*opened(), started(), *called(1, wish("c1"), wish("c2", x=1)), e.ToolStarted(call="c1")]
    assert [(c.call, c.status) for c in state_after(*facts).calls] == [("c1", "started"), ("c2", "requested")]
    facts += [ended("c1"), e.ToolPending(call="c2", on="client")]
    state = state_after(*facts)
    assert [(c.status, c.outcome, c.on) for c in state.calls] == [
        ("completed", "done", None),
        ("pending", None, "client"),
    ]
    assert [c.call for c in state.open_calls()] == ["c2"]
    assert state_after(*facts, ended("c2"), started(2)).calls == ()


def test_a_started_call_remembers_the_epoch_that_started_it():
    """After a takeover a call that the lost worker started can be told from one that was only requested."""
    facts = [*opened(), started(), *called(1, wish("c1"), wish("c2", x=1)), e.ToolStarted(call="c1")]
    state = state_after(*facts, e.RunResumed(epoch=2, cause="restarted"))
    assert [(c.call, c.epoch < state.epoch and c.status == "started") for c in state.calls] == [
        ("c1", True),
        ("c2", False),
    ]


def test_identical_calls_are_counted_over_steps_and_siblings():
    """The same call in a row counts up, over parallel calls and over steps; any other call in between resets it."""
    same, other = wish("c1", a=1, b=[2, {"x": 1, "y": 2}]), wish("c4", a=2)
    swapped = wish("c2", b=[2, {"y": 2, "x": 1}], a=1)
    facts = [*opened(), started(), *called(1, same, swapped)]
    assert [c.repeat for c in state_after(*facts).calls] == [1, 2]
    facts += [ended("c1"), ended("c2"), started(2), *called(2, wish("c3", a=1, b=[2, {"x": 1, "y": 2}]), other)]
    assert [c.repeat for c in state_after(*facts).calls] == [3, 1]


def test_resumes_in_vain_are_counted_until_something_was_achieved():
    """Resumes count up until a step or a call was completed, or the run waited for somebody."""
    resumes = [e.RunResumed(epoch=n, cause="crashed") for n in (2, 3)]
    facts = [*opened(), started(), *resumes]
    assert state_after(*facts).vain == 2
    assert state_after(*facts, said(1, Text("Hi.")), closed()).vain == 0
    assert state_after(*facts, *called(1, wish("c1")), *resumes, ended("c1")).vain == 0
    assert state_after(*facts, e.RunWaiting(on=("client",))).vain == 0


def test_usage_is_summed_and_the_unknown_stays_unknown():
    """Tokens of all tries add up; a kind of token that one step did not report is unknown for the whole run."""
    one, two = Usage(10, 5, None, 0, 0, 0), Usage(20, 5, 7, 1, 0, None)
    facts = [*opened(), started(), failed(usage=one), started(attempt=2), said(1, Text("Hi.")), closed(1, two)]
    assert state_after(*facts).usage == Usage(30, 10, None, 1, 0, None)
    assert state_after(*opened()).usage is None


def test_cut_answers_are_counted_in_a_row():
    """Answers cut by the token limit count up; a whole one ends the row."""
    facts: list[FactBody] = [*opened()]
    for n in (1, 2):
        facts += [started(n), said(n, Text("…"), stop="length"), closed(n)]
    assert state_after(*facts).continuations == 2
    assert state_after(*facts, started(3), said(3, Text("."), stop="tools")).continuations == 0


def test_the_first_cancel_counts():
    """Of several cancels the first says who stopped the run and why."""
    first = e.RunCancelling(by=ANN, reason="enough")
    state = state_after(*opened(), first, e.RunCancelling(by=ANN, reason="again"))
    assert state.cancelling == first


def test_a_preview_numbers_what_is_not_yet_written_from_the_end():
    """In a preview the k-th fact from the end has seq -k, and the state it came from is as it was."""
    state = state_after(*opened(), started(takes=(1,)), said(1), closed())
    note = e.ContextAdded(source="note", text="Mind the gap.")
    assert state.preview([note, received("more"), note]).untaken == (-3, -2, -1)
    assert state.preview([note]).seq == state.seq
    assert state.untaken == ()


@given(st.recursive(st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.text(max_size=3), inner)))
def test_the_order_of_keys_makes_no_other_call(value):
    """Two calls whose arguments differ in the order of keys alone, at any depth, are the same call."""
    assert call_key("look", {"a": value, "b": 1}) == call_key("look", {"b": 1, "a": _reversed(value)})
    assert call_key("look", {"a": value}) != call_key("see", {"a": value})
    assert call_key("look", {"a": value}) != call_key("look", {"a": [value]})


def _reversed(value):
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return value
