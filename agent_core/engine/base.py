"""The engine port. Correctness never depends on it: the log's epochs decide who drives a run."""

from typing import Protocol

from agent_core.engine.pool import Pool


class Engine(Protocol):
    """Decides which process drives which run, and wakes runs."""

    @property
    def worker(self) -> str:
        """Return the name of this worker, new at every start."""
        ...

    @property
    def pool(self) -> Pool:
        """Return the runs that this process drives."""
        ...

    async def start(self) -> None:
        """Become a worker that may own runs; raises `Unavailable`."""
        ...

    async def wake(self, run: int) -> bool:
        """Look at a run that was woken, here or elsewhere, and drive it; idempotent. False: there is no capacity."""
        ...

    async def work(self) -> None:
        """Sweep for due runs until cancelled: immediately, at every deadline, and at least every second."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop driving runs, after at most *grace* seconds; the next worker resumes each from its log."""
        ...
