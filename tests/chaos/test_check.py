"""The checks of a chaos run detect each kind of fault: every case is a valid log with one thing wrong."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from tests.cases import for_each
from tests.chaos.check import faults, listed
from tests.chaos.goals import Goals, Stop, stop_times
from tests.chaos.plan import Question, chance
from tests.chaos.records import Fact, HeldRun
from tests.chaos.takeover import Loss, Takeover, orphans, takeovers
from tests.chaos.talk import Receipt, Talk
from tests.chaos.tools import Execution

ASKED = Question("t0", 0, ("note",), 2)
RUN = "run_1"
ANSWER = "t0 #0 [noted it] w0 w1 "


def log() -> list[Fact]:
    """Return the whole log of a talk of one message, whose run was taken over once."""
    said = {"role": "assistant", "stop": "done"}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("message.received", {"message": "msg_0"}),
        ("run.queued", {}),
        ("run.started", {"epoch": 1}),
        ("step.started", {"message": "msg_1", "attempt": 1, "takes": [1]}),
        ("message.completed", {"message": "msg_1", "parts": [{"type": "text", "text": "t0 #0 step 0 "}], **said}),
        ("step.completed", {}),
        ("tool.requested", {"call": "call_1", "name": "note"}),
        ("tool.started", {"call": "call_1"}),
        ("tool.completed", {"call": "call_1", "outcome": "done", "parts": [{"type": "text", "text": "noted it"}]}),
        ("run.resumed", {"epoch": 2}),
        ("step.started", {"message": "msg_2", "attempt": 1, "takes": []}),
        ("message.completed", {"message": "msg_2", "parts": [{"type": "text", "text": ANSWER}], **said}),
        ("run.completed", {}),
    ]
    return [Fact(seq, kind, RUN, float(seq), data) for seq, (kind, data) in enumerate(bodies, 1)]


def stopped_log() -> list[Fact]:
    """Return the whole log of a talk whose run was stopped while a message had joined it, which opened the next run."""
    answer = [{"type": "text", "text": "t0 #1 w0 "}]
    bodies: list[tuple[str, str, dict[str, Any]]] = [
        ("message.received", RUN, {"message": "msg_0"}),
        ("run.queued", RUN, {}),
        ("run.started", RUN, {"epoch": 1}),
        ("step.started", RUN, {"message": "msg_1", "attempt": 1, "takes": [1]}),
        ("tool.requested", RUN, {"call": "call_1", "name": "note"}),
        ("message.received", RUN, {"message": "msg_6"}),
        ("run.cancelling", RUN, {}),
        ("tool.completed", RUN, {"call": "call_1", "outcome": "cancelled", "parts": []}),
        ("run.cancelled", RUN, {}),
        ("run.queued", "run_2", {"inputs": [6]}),
        ("run.started", "run_2", {"epoch": 1}),
        ("step.started", "run_2", {"message": "msg_2", "attempt": 1, "takes": [6]}),
        ("message.completed", "run_2", {"message": "msg_2", "parts": answer, "role": "assistant"}),
        ("run.completed", "run_2", {}),
    ]
    return [Fact(seq, kind, run, float(seq), data) for seq, (kind, run, data) in enumerate(bodies, 1)]


def found(facts: list[Fact], executions: list[Execution] | None = None, stop: str = "completed", **shown: str) -> str:
    """Return what the checks find in *facts*; the reader saw all of the log as it should be, or *shown*."""
    texts = {"msg_1": "t0 #0 step 0 ", "msg_2": ANSWER, **shown}
    made = [Execution("note", "call_1", 1, 8.0)] if executions is None else executions
    return _found(facts, [Receipt(ASKED, RUN, "msg_0", 1)], {RUN: stop}, log(), texts, made)


def found_stopped(facts: list[Fact]) -> str:
    """Return what the checks find in the log of a run that was stopped."""
    joined = Receipt(Question("t0", 1, (), 1), RUN, "msg_6", 6, steered=True)
    receipts = [Receipt(ASKED, RUN, "msg_0", 1), joined]
    return _found(facts, receipts, {RUN: "running"}, stopped_log(), {"msg_2": "t0 #1 w0 "}, [])


def _found(
    facts: list[Fact],
    receipts: list[Receipt],
    statuses: dict[str, str],
    read: list[Fact],
    texts: dict[str, str],
    executions: list[Execution],
) -> str:
    seen = _Seen([SimpleNamespace(seq=fact.seq) for fact in read], texts)
    stops = {run: Stop(status, 7.0) for run, status in statuses.items()}
    talk = SimpleNamespace(fault=None, receipts=receipts, stops=stops, seen=seen)
    return "\n".join(faults(cast("Talk", talk), facts, executions))


class _Seen:
    def __init__(self, frames: list[Any], texts: dict[str, str]) -> None:
        self._frames, self.seq = frames, len(frames)
        self.messages = {name: SimpleNamespace(text=text, done=True) for name, text in texts.items()}

    def __iter__(self):
        return iter(self._frames)


Log = Callable[[], list[Fact]]


def changed(at: int, kind: str | None = None, log: Log = log, **data: Any) -> Log:
    """Return a log whose fact *at* has other data, or is of another *kind*."""

    def facts() -> list[Fact]:
        found = {fact.seq: fact for fact in log()}
        found[at] = replace(found[at], type=kind or found[at].type, data={**found[at].data, **data})
        return list(found.values())

    return facts


def without(at: int) -> Log:
    """Return a log that lacks the fact *at*, its seqs closed up."""
    return lambda: [replace(fact, seq=n) for n, fact in enumerate((f for f in log() if f.seq != at), 1)]


def followed_by(*more: Fact) -> Log:
    """Return a log with *more* facts appended."""
    return lambda: [*log(), *more]


def test_nothing_is_found_where_nothing_is_wrong():
    """A log as it should be passes all checks; so does one of a run that was stopped, and what had joined it."""
    assert not found(log())
    assert not found_stopped(stopped_log())


@for_each(
    "facts, words",
    [
        (lambda: [fact for fact in log() if fact.seq != 6], "gaps"),
        (without(1), "messages in the log"),
        (followed_by(Fact(14, "message.received", RUN, 14.0, {"message": "msg_9"})), "messages in the log"),
        (without(13), "runs ended as"),
        (followed_by(Fact(14, "run.completed", RUN, 14.0, {})), "after the end of its run"),
        (followed_by(Fact(14, "run.started", "run_2", 14.0, {"epoch": 1})), "runs began as"),
        (changed(10, epoch=1), "does not rise"),
        (changed(9, outcome="failed"), "ended as ['failed']"),
        (without(9), "ended as []"),
        (changed(9, parts=[{"type": "text", "text": "unknown"}]), "was to be answered by"),
        (changed(12, parts=[{"type": "text", "text": "t0 #0 [noted it] w0 "}]), "was to be answered by"),
        (changed(13, "run.cancelled"), "was not stopped"),
        (changed(4, takes=[]), "was taken by []"),
        (changed(11, takes=[1]), "was taken by ['run_1', 'run_1']"),
    ],
)
def test_what_is_wrong_in_a_log_is_found(facts: Log, words: str):
    """Each fault of a log is reported by a line that names it."""
    assert words in found(facts())


@for_each(
    "facts, words",
    [
        (changed(9, "run.completed", stopped_log), "run_1 was stopped"),
        (changed(14, "run.cancelled", stopped_log), "was not stopped"),
        (changed(7, "note", stopped_log), "was running when it was stopped, and the stop had no effect"),
        (changed(8, log=stopped_log, outcome="failed"), "ended as ['failed']"),
        (changed(12, log=stopped_log, takes=[]), "was taken by []"),
        (changed(12, log=stopped_log, takes=[1, 6]), "was taken by ['run_1', 'run_2']"),
        (changed(4, log=stopped_log, takes=[1, 6]), "was taken by ['run_1', 'run_2']"),
        (changed(13, log=stopped_log, parts=[]), "was to be answered by 't0 #1 w0'"),
    ],
)
def test_what_is_wrong_after_a_stop_is_found(facts: Log, words: str):
    """A lost stop, and a message that joined a run and is answered by none or by two, are reported."""
    assert words in found_stopped(facts())


def test_a_stop_without_effect_is_found():
    """A stop that was accepted and left no fact is reported."""
    assert "the stop had no effect" in found(log(), stop="running")


def test_two_runs_at_once_are_found():
    """A run that begins before the one before it has ended is found."""
    facts = log()
    facts.insert(5, Fact(6, "run.started", "run_2", 6.0, {"epoch": 1}))
    assert "is at work" in found([replace(fact, seq=n) for n, fact in enumerate(facts, 1)])


def test_a_write_that_was_executed_twice_is_found():
    """Two executions of one call are found, by whichever processes; so is a result of none."""
    twice = [Execution("note", "call_1", pid, 8.0) for pid in (1, 2)]
    assert "executed 2 times" in found(log(), twice)
    assert "executed 0 times" in found(log(), [])


def test_an_answer_that_a_reader_saw_differently_is_found():
    """A reader whose text differs from the log's is found, and so is a server that lists a different message."""
    assert "the reader shows msg_2" in found(log(), msg_2="t0 #0 w0")
    items = [{"id": "msg_1", "role": "assistant", "parts": []}]
    assert "the server lists" in "\n".join(listed(items, log()))


def test_a_takeover_is_timed_from_the_loss():
    """A takeover is the time from the end of the one owner to the resume by the next."""
    losses = [Loss(7.5, "worker1", (HeldRun(RUN, 1),)), Loss(11.0, "worker2", (HeldRun(RUN, 2),))]
    assert list(takeovers(losses, log())) == [Takeover(RUN, 2.5, 0)]


def test_a_run_without_a_takeover_is_found():
    """The runs of a process that ended must be resumed or end; others are reported with its name."""
    loss = Loss(7.5, "worker1", (HeldRun(RUN, 1), HeldRun("run_9", 1)))
    assert list(orphans([loss], log())) == ["run_9 of worker1 was never taken over"]


def test_takeovers_that_are_too_slow_are_found():
    """Too many slow takeovers miss the goal, unless the wait was required; so does a run without any takeover."""
    quick, slow = Takeover(RUN, 9.0, 0), Takeover(RUN, 16.0, 1)
    assert list(Goals().missed([quick] * 99, [0.2])) == []
    assert list(Goals().missed([quick] * 9 + [slow], [0.2])) != []
    assert list(Goals().missed([quick, replace(slow, stalled=2)], [0.2])) == []
    assert list(Goals().missed([replace(slow, stalled=2)], [0.2])) == ["there were no takeovers"]


def test_a_stop_is_timed_from_its_answer():
    """A stop is timed from its response to the end of the run, if the run had a driver and the database was up."""
    stops = {RUN: Stop("running", 7.5)}
    assert list(stop_times(stops, stopped_log())) == [1.5]
    assert list(stop_times(stops, stopped_log(), away=[(2.0, 7.2)])) == []
    assert list(stop_times(stops, stopped_log(), away=[(2.0, 6.5), (9.5, 11.0)])) == [1.5]
    assert list(stop_times({RUN: Stop("cancelled", 7.5)}, stopped_log())) == []
    assert list(stop_times(stops, changed(8, "run.resumed", stopped_log, epoch=2)())) == []
    assert list(stop_times(stops, log())) == []
    assert list(Goals().missed([Takeover(RUN, 9.0, 0)], [1.5])) != []


def test_question_round_trips_through_its_text():
    """A question is parsed from its message text unchanged, and one seed always draws the same question."""
    for n in range(50):
        asked = Question.draw("t1", n, chance(1, n))
        assert Question.read(asked.text) == asked
        assert asked == Question.draw("t1", n, chance(1, n))
