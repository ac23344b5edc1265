"""The engine on Postgres: any number of processes, each driving what it has room for, and reaping those that expire."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from agent_core.clock import Clock
from agent_core.engine.doorbell import Doorbell, segment_name
from agent_core.engine.liveness import Liveness, Load, Pace, end_process, this_process
from agent_core.engine.pool import MAX_RUNS, Pool
from agent_core.engine.reaper import Reaper
from agent_core.engine.runs import Runs
from agent_core.engine.sweep import Sweep
from agent_core.errors import Unavailable
from agent_core.ids import new_id
from agent_core.loop.state import RESTARTED
from agent_core.store.database import Database
from agent_core.store.log import RunRef
from agent_core.store.work.due import Due
from agent_core.store.work.workers import Kind

_HERD = 0.05
_LET_GO = 2.0
_SHUT = 5.0
_MAX_ENQUEUED = 20
_ROOM_EVERY = 1.0
_log = structlog.get_logger("parley.engine")


class DbosEngine:
    """One of the workers of a Postgres: the runs that it starts are its own, until it expires or is stopped.

    The row of every process in `worker` says that it lives. A worker that finds a run without a living driver takes it;
    the session's lock and the epoch decide between two. DBOS is notified of the runs that last, see
    `docs/decisions/0014`.
    """

    def __init__(
        self,
        runs: Runs,
        clock: Clock,
        *,
        database: Database,
        url: str,
        kind: Kind = "both",
        max_runs: int = MAX_RUNS,
        pace: Pace | None = None,
        end: Callable[[str], None] = end_process,
    ) -> None:
        """*url* is what the user wrote; *end* ends a process that stood still.

        A process of the kind `web` drives nothing, and does not launch DBOS.
        """
        self.worker = new_id("wrk")
        self._runs, self._clock, self._drives, pace = runs, clock, kind != "web", pace or Pace()
        self._launches_dbos = self._drives and pace.notify_after is not None
        self.database = database
        self.liveness = Liveness(
            url,
            this_process(self.worker, kind),
            self._load,
            pace=pace,
            lost=self._give_up,
            end=end if self._drives else None,
        )
        self.doorbell = Doorbell(url, self.worker, max_runs=max_runs, ensure=self._ensure)
        self.pool = Pool(runs, self.liveness, max_runs=max_runs if self._drives else 0)
        self.overflow = DbosQueue(self.doorbell, self.pool, after=pace.notify_after)
        self.sweep = Sweep(runs, clock, self.pool, self.liveness, worker=self.worker, overflow=self.overflow)
        self._reaper = Reaper(database, self.liveness, self.doorbell, pace)

    async def start(self) -> None:
        """Write the first heartbeat: before it no other process knows whose a run is."""
        await self.liveness.start()
        if self._launches_dbos:
            self.doorbell.start()

    async def wake(self, run: int) -> bool:
        """Take the run if there is capacity, the later the more there is to do: every other process is notified too."""
        if run not in self.pool.driven and self.pool.has_capacity():
            await asyncio.sleep(_HERD * (self.pool.load + random.random() / 10))  # noqa: S311 - no secret
        if run not in self.pool.driven and not self.pool.has_capacity():
            self.pool.hurry()
            return False
        await self.pool.wake(run)
        return True

    async def work(self) -> None:
        if not self._drives:
            await self.sweep.only_tidy()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sweep.work())
            group.create_task(self.pool.send_heartbeats(self._clock))
            group.create_task(self._reaper.work())

    async def stop(self, grace: float) -> None:
        """Wait up to *grace* seconds for what is driven, and hand the rest to the other workers."""
        self.pool.close()
        if self.liveness.is_well:
            await self.pool.wait(grace)
        await self.pool.drop(_LET_GO)
        await asyncio.gather(self._leave(), self.doorbell.stop(_SHUT))

    async def _leave(self) -> None:
        """End the heartbeats, and hand over what is left."""
        await self.liveness.stop()
        try:
            released = await self._runs.leave()
        except Unavailable:
            _log.warning("worker.left", runs="found by the others once its heartbeats are missed")
        else:
            _log.info("worker.left", runs=released)

    def _load(self) -> Load:
        return Load(room=self.pool.capacity, running=len(self.pool.driven))

    def _give_up(self) -> None:
        """Give all runs up: this worker will soon have expired, unless the database is away for all."""
        self.pool.give_up()

    async def _ensure(self, key: int) -> None:
        """Have a run driven that DBOS asks for, and return when this process has done with it.

        Driven here: wait for its end. Driven by another living worker: leave it. Else: take it.
        """
        pool = self.pool
        while key not in pool.driven and not pool.has_capacity() and not pool.is_closed:
            with suppress(TimeoutError):  # the worker may be well again without the end of a run
                async with asyncio.timeout(_ROOM_EVERY):
                    await pool.freed()
        if key not in pool.driven and not pool.is_closed:
            try:
                await pool.take(key, RESTARTED)
            except Unavailable:
                return  # the sweep finds it when the database is back
        driven = pool.driven.get(key)
        if driven is not None:
            await asyncio.wait((driven.task,))


class DbosQueue:
    """Notifies DBOS of what has been driven here for *after* seconds, and of what there is no room for."""

    def __init__(self, doorbell: Doorbell, pool: Pool, *, after: float | None) -> None:
        """*after* is None where DBOS is not launched."""
        self._doorbell, self._pool, self._after = doorbell, pool, after
        self._announced: set[str] = set()
        self._enqueued: set[str] = set()

    @property
    def capacity(self) -> int:
        return _MAX_ENQUEUED if self._doorbell.is_ready else 0

    def offer(self, runs: Sequence[Due]) -> None:
        if self._after is None:
            return
        begun = time.monotonic() - self._after
        for driven in self._pool.driven.values():
            if driven.since <= begun:
                self.announce(driven.run)
        self._announced &= {segment_name(each.run.id, each.run.epoch) for each in self._pool.driven.values()}
        waiting = {segment_name(run.id, run.epoch): run.key for run in runs[:_MAX_ENQUEUED]}
        for name in waiting.keys() - self._enqueued:
            self._doorbell.notify(name, waiting[name], queued=True)
        self._enqueued = set(waiting)

    def announce(self, run: RunRef) -> None:
        """Notify DBOS of a run that is driven here, once."""
        name = segment_name(run.id, run.epoch)
        if name not in self._announced and self._doorbell.notify(name, run.key):
            self._announced.add(name)
