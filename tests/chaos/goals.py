"""The goals of a storm in seconds: how soon expired workers are taken over, and how soon a stop takes effect."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles

from tests.chaos.records import Fact
from tests.chaos.takeover import Takeover

OVER = {"completed", "failed", "cancelled"}
STALLED = 1
"""Resumes without progress before a takeover up to which it counts: after more of them the next one is delayed by rule,
a second and then longer, so that a run that kills its workers does not take all of them down."""


@dataclass(frozen=True, slots=True)
class Goals:
    """Seconds that the 99th of a hundred takeovers after SIGKILL, and of a hundred stops, stay under.

    A takeover lasts from the kill to the resume by another process, of runs not resumed without progress more
    than once. A stop lasts from the answer to its request to the end of the run, of runs that continued to be
    driven where they were: not of those whose process was gone, and not while the database was.
    """

    takeover: float = 15.0
    stop: float = 1.0

    def missed(self, takeovers: Sequence[Takeover], stops: Sequence[float]) -> Iterator[str]:
        """Give a line for each goal that was missed, or that nothing was there to be held to."""
        counted = [each.seconds for each in takeovers if each.stalled <= STALLED]
        for what, goal, seconds in (("takeovers", self.takeover, counted), ("stops", self.stop, stops)):
            if not seconds:
                yield f"there were no {what}"
            elif p99(seconds) >= goal:
                yield f"p99 of {len(seconds)} {what} is {p99(seconds):.2f} s, not under {goal:g} s"


@dataclass(frozen=True, slots=True)
class Stop:
    """A run was stopped, which was answered at the time *at* with the *status* that it had then."""

    status: str
    at: float


def stop_times(
    stops: Mapping[str, Stop], facts: Sequence[Fact], away: Sequence[tuple[float, float]] = ()
) -> Iterator[float]:
    """Give how long each of *stops* took, see `Goals`; the database was *away* from the one time to the other."""
    for run, stop in stops.items():
        since = _since(facts, run)
        end = next((fact for fact in since if fact.type == "run.cancelled"), None)
        if end is None or stop.status in OVER:
            continue
        moved = any(fact.type == "run.resumed" for fact in since)
        if not moved and not any(gone <= end.time and since[0].time <= back for gone, back in away):
            yield max(0.0, end.time - stop.at)


def p99(seconds: Sequence[float]) -> float:
    """Return what one of a hundred is longer than."""
    return quantiles(seconds, n=100, method="inclusive")[98] if len(seconds) > 1 else seconds[0]


def _since(facts: Sequence[Fact], run: str) -> list[Fact]:
    """Return the facts of *run* from the one on that it is to stop."""
    own = [fact for fact in facts if fact.run == run]
    return own[next((n for n, fact in enumerate(own) if fact.type == "run.cancelling"), len(own)) :]
