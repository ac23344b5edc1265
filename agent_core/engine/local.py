"""The local engine: a pool and a sweep in the one process that owns the database."""

import asyncio
from contextlib import suppress

from agent_core.clock import Clock
from agent_core.engine.membership import SoleWorker
from agent_core.engine.pool import MAX_RUNS, Pool
from agent_core.engine.runs import Runs
from agent_core.engine.sweep import Sweep
from agent_core.errors import Unavailable
from agent_core.ids import new_id


class LocalEngine:
    """Drives every run of one database in this process, which holds the lock on it and is the only worker."""

    def __init__(self, runs: Runs, clock: Clock, *, max_runs: int = MAX_RUNS) -> None:
        self.worker, self._runs, self._clock, membership = new_id("wrk"), runs, clock, SoleWorker()
        self.pool = Pool(runs, membership, max_runs=max_runs)
        self.sweep = Sweep(runs, clock, self.pool, membership, worker=self.worker, overflow=None)

    async def start(self) -> None:
        """There is no other worker to announce this one to."""

    async def wake(self, run: int) -> bool:
        if run not in self.pool.driven and not self.pool.has_capacity():
            self.pool.hurry()
            return False
        await self.pool.wake(run)
        return True

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sweep.work())
            group.create_task(self.pool.send_heartbeats(self._clock))

    async def stop(self, grace: float) -> None:
        """End what is driven and leave it to the next start, which does not count this stop against a run."""
        if self.pool.is_closed:
            return
        self.pool.close()
        await self.pool.drop(grace)
        with suppress(TimeoutError, Unavailable, RuntimeError):  # it is away, or closed already
            async with asyncio.timeout(grace):
                await self._runs.leave()
