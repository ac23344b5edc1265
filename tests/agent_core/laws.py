"""What every log must keep to, whatever happened: the checks that tests run over the facts of a session."""

from collections.abc import Sequence

from agent_core.events import (
    Fact,
    MessageCompleted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunResumed,
    RunStarted,
    StepCompleted,
    StepStarted,
    ToolCompleted,
    ToolPending,
    ToolRequested,
    ToolStarted,
)
from agent_core.messages import Text
from agent_core.runtime.calls import ANSWERED

TERMINAL = (RunCompleted, RunFailed, RunCancelled)


def check_log(facts: Sequence[Fact]) -> None:
    """Raise `AssertionError` when the facts of a whole session break a rule of the contract."""
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1)), "gaps in seq"
    runs = dict.fromkeys(fact.run for fact in facts if fact.run)
    for run in runs:
        _check_run(run, [fact for fact in facts if fact.run == run])


def _check_run(run: str, facts: Sequence[Fact]) -> None:
    bodies = [fact.body for fact in facts]
    ends = [place for place, body in enumerate(bodies) if isinstance(body, TERMINAL)]
    assert len(ends) <= 1, f"{run} ended {len(ends)} times"
    if ends:
        assert ends[0] == len(bodies) - 1, f"{run}: {bodies[ends[0] + 1 :]} after its end"
    epochs = [body.epoch for body in bodies if isinstance(body, (RunStarted, RunResumed))]
    assert epochs == sorted(set(epochs)), f"{run}: epochs {epochs}"
    assert sum(isinstance(body, RunQueued) for body in bodies) == 1
    _check_steps(run, bodies, ended=bool(ends))
    _check_calls(run, bodies, ended=bool(ends))


def _check_steps(run: str, bodies: Sequence[object], *, ended: bool) -> None:
    tries: dict[int, list[StepStarted]] = {}
    for body in bodies:
        if isinstance(body, StepStarted):
            tries.setdefault(body.n, []).append(body)
    assert list(tries) == list(range(1, len(tries) + 1)), f"{run}: steps {list(tries)}"
    for n, started in tries.items():
        assert [body.attempt for body in started] == list(range(1, len(started) + 1)), f"{run}: tries of step {n}"
        assert len({body.message for body in started}) == 1, f"{run}: step {n} has several messages"
    open_messages = {started[0].message for started in tries.values()}
    completed = [
        body.message for body in bodies if isinstance(body, MessageCompleted) and body.message in open_messages
    ]
    assert len(completed) == len(set(completed)), f"{run}: a message was completed twice"
    closed = [body.n for body in bodies if isinstance(body, StepCompleted)]
    assert len(closed) == len(set(closed)), f"{run}: a step was completed twice"
    if ended:
        assert set(completed) == open_messages, f"{run}: a message stays open"


def _check_calls(run: str, bodies: Sequence[object], *, ended: bool) -> None:
    requested, started, completed, pending = set[str](), set[str](), set[str](), set[str]()
    for body in bodies:
        if isinstance(body, ToolRequested):
            assert body.call not in requested, f"{run}: {body.call} requested twice"
            requested.add(body.call)
        elif isinstance(body, ToolStarted):
            assert body.call in requested - started, f"{run}: {body.call} started out of place"
            started.add(body.call)
        elif isinstance(body, ToolPending):
            assert body.call in requested - completed, f"{run}: {body.call} waits out of place"
            pending |= {body.call} if body.on == "client" else set()
            started.discard(body.call)  # one that asked people for something is started again with their answer
        elif isinstance(body, ToolCompleted):
            assert body.call in requested - completed, f"{run}: {body.call} completed out of place"
            announced = body.call in started | pending or body.parts == (Text(ANSWERED),)
            assert body.outcome != "done" or announced, f"{run}: {body.call} done but never announced"
            completed.add(body.call)
    if ended:
        assert completed == requested, f"{run}: calls stay open"
