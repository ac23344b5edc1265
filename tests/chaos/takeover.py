"""How long a run stood still: from the end of the process that drove it to the next one that did."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.records import ENDS, Fact, HeldRun

PROGRESS = {"step.completed", "tool.completed"}


@dataclass(frozen=True, slots=True)
class Loss:
    """A process ended at the time *at* and held these runs."""

    at: float
    member: str
    held: tuple[HeldRun, ...]


@dataclass(frozen=True, slots=True)
class Takeover:
    """A run that another process resumed after so many *seconds*; *stalled* resumes before it made no progress."""

    run: str
    seconds: float
    stalled: int


def takeovers(losses: Sequence[Loss], facts: Sequence[Fact]) -> Iterator[Takeover]:
    """Give the takeovers in the log *facts* of one session."""
    for loss in losses:
        for held in loss.held:
            own = [fact for fact in facts if fact.run == held.run]
            resumed = [fact for fact in own if fact.type == "run.resumed" and fact.data["epoch"] > held.epoch]
            if resumed:
                yield Takeover(held.run, resumed[0].time - loss.at, _stalled(own, resumed[0]))


def orphans(losses: Sequence[Loss], facts: Sequence[Fact]) -> Iterator[str]:
    """Yield the runs that were not resumed and did not end, with the process that held them last; of all logs."""
    for loss in losses:
        yield from (f"{held.run} of {loss.member} was never taken over" for held in loss.held if not _next(held, facts))


def finished(loss: Loss, facts: Sequence[Fact]) -> int:
    """Count the runs of *loss* that were ended by the epoch that held them."""
    ends = (_next(held, facts) for held in loss.held)
    return sum(end is not None and end.type != "run.resumed" for end in ends)


def _next(held: HeldRun, facts: Sequence[Fact]) -> Fact | None:
    """Return what became of a run that was *held*: its end, or its resume by another."""
    for fact in facts:
        if fact.run != held.run:
            continue
        if fact.type in ENDS or (fact.type == "run.resumed" and fact.data["epoch"] > held.epoch):
            return fact
    return None


def _stalled(own: Sequence[Fact], resumed: Fact) -> int:
    """Count the resumes of the run since its last progress: the backoff before a resume grows with it."""
    stalled = 0
    for fact in own:
        if fact.seq >= resumed.seq:
            break
        stalled = 0 if fact.type in PROGRESS else stalled + (fact.type == "run.resumed")
    return stalled
