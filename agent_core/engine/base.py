"""The engine port. Correctness never depends on it: the log's epochs decide who drives a run."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
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


class Engine(Protocol):
    """Decides which process drives which run, and wakes runs."""

    @property
    def worker(self) -> str:
        """Return the name of this worker, new at every start."""
        ...

    def has_capacity(self) -> bool:
        """Return whether this worker may begin one more run at once; not while others wait for its capacity."""
        ...

    def hurry(self) -> None:
        """Have the sweep choose soon among the runs that wait, if there is capacity."""
        ...

    def reserve(self, actor: int) -> AbstractContextManager[bool]:
        """Reserve capacity for a run of *actor* that is about to begin here; yields False when there is none."""
        ...

    async def start(self) -> None:
        """Become a worker that may own runs; raises `Unavailable`."""
        ...

    def begin(self, run: RunRef, segment: Segment | None = None) -> None:
        """Drive a run that this worker owns already: by *segment*, else from its log."""
        ...

    async def wake(self, run: int) -> bool:
        """Look at a run that was woken, here or elsewhere, and drive it; idempotent. False: there is no capacity."""
        ...

    def interrupt(self, run: int) -> bool:
        """Interrupt the run if this process drives it, and return whether it does."""
        ...

    async def work(self) -> None:
        """Sweep for due runs until cancelled: immediately, at every deadline, and at least every second."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop driving runs, after at most *grace* seconds; the next worker resumes each from its log."""
        ...
