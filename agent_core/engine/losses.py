"""Losses: the runs of this worker that it does not drive."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_core.loop.state import CRASHED, OUTAGE


class LossSnapshot(NamedTuple):
    """The losses when a query began."""

    lost: frozenset[int]
    cut: frozenset[int]


@dataclass(slots=True)
class Losses:
    """Keys of runs: *lost* ones had no driver when last looked at; *cut* ones lost theirs to an outage."""

    lost: set[int] = field(default_factory=set[int])
    cut: set[int] = field(default_factory=set[int])

    def cause_of(self, run: int) -> str | None:
        """Return why *run* lost its driver: only a crash counts against it. None if it did not lose it."""
        if run in self.cut:
            return OUTAGE
        return CRASHED if run in self.lost else None

    def snapshot(self) -> LossSnapshot:
        """Return the losses of now, for `update` after a query."""
        return LossSnapshot(frozenset(self.lost), frozenset(self.cut))

    def update(self, before: LossSnapshot, *, due: Collection[int], own: Collection[int]) -> frozenset[int]:
        """Note what a query found that began with *before*; return what was lost until now.

        *own* are those of *due* that belong to this worker and have no driver. What was lost during the query stays:
        the query may have read the moment before.
        """
        earlier = frozenset(self.lost)
        self.cut -= before.cut - set(due)  # taken since, or over when the answer got lost
        self.lost = {*own, *(self.lost - before.lost)}
        return earlier
