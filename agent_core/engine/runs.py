"""What an engine drives: runs, a segment at a time."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from agent_core.engine.interrupt import Interrupt
from agent_core.store.log import RunRef
from agent_core.store.work.due import Due

Segment = Callable[[Interrupt], Awaitable[RunRef | None]]


class Runs(Protocol):
    """What an engine needs to know of runs: the core provides it.

    *expire_after* is how many milliseconds without a heartbeat a worker still counts as alive.
    """

    async def due(self, *, expire_after: int, limit: int) -> list[Due]:
        """Return this worker's runs and those that need a driver or a check; at most *limit* queued ones."""
        ...

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> RunRef | None:
        """Make this worker the run's owner, with a new epoch; None when there is nothing to drive.

        *epoch* is the one that the caller saw; if it has changed, another worker took the run, and None is returned.
        """
        ...

    async def give_back(self, run: RunRef) -> None:
        """Leave a run that `take` returned, and that was not begun, to any other worker."""
        ...

    async def leave(self) -> int:
        """Leave what this worker owns to any other worker, or to the next start; return how many runs those were."""
        ...

    def segment(self, run: RunRef) -> Segment:
        """Return the coroutine function that drives *run* until it waits or ends, and returns the next run, if any."""
        ...

    def send_heartbeat(self, run: RunRef) -> None:
        """Send a heartbeat of *run* to its readers."""
        ...

    def wake_elsewhere(self, run: int) -> None:
        """Ask the other processes, if there are any, for one with capacity to drive *run*."""
        ...

    async def tidy(self) -> None:
        """Remove what has expired and is not looked at any more, and from memory what is outdated."""
        ...

    async def next_deadline(self, after: int) -> int | None: ...
