"""The engine of one process, and the sweep for runs that no one drives."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from agent_core.agent.state import CRASHED, OUTAGE, RESTARTED
from agent_core.clock import Clock
from agent_core.engine.pool import MAX_RUNS, Membership, Pool, Runs, SoleWorker, report
from agent_core.errors import Unavailable
from agent_core.ids import new_id
from agent_core.store.queue import Due

_EVERY = 1.0
_SOON = 0.05
_TIDY_EVERY = 600_000
"""Milliseconds between two removals of what has expired."""
_AT_ONCE = 8
"""Runs that a sweep takes side by side: fewer than a process has connections."""
_log = structlog.get_logger("parley.engine")


class Overflow(Protocol):
    """Where runs go for which there is no room here."""

    @property
    def capacity(self) -> int:
        """Return how many queued runs it can take."""
        ...

    def offer(self, runs: Sequence[Due]) -> None:
        """Note the runs for which the last sweep had no room, oldest first."""
        ...


class Sweep:
    """Takes what is due into *pool*: at once, at every deadline, and at least every second."""

    def __init__(
        self, runs: Runs, clock: Clock, pool: Pool, membership: Membership, *, worker: str, overflow: Overflow | None
    ) -> None:
        self._runs, self._clock, self._pool, self._membership = runs, clock, pool, membership
        self._worker, self._overflow = worker, overflow
        self._newer: dict[int, int] = {}
        self._due = asyncio.Event()
        self._tidied = clock.now()

    @property
    def is_due(self) -> bool:
        """Return whether the next look begins without a pause."""
        return self._due.is_set()

    def look_soon(self) -> None:
        """Look as soon as the current look is over."""
        self._due.set()

    async def work(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_forever())
            group.create_task(self._follow_room())

    async def only_tidy(self) -> None:
        """Tidy until cancelled and take no run: for a process that drives nothing."""
        while True:
            await self._clock.sleep(_TIDY_EVERY / 1000)
            try:
                await self._runs.tidy()
            except Exception as error:  # noqa: BLE001 - the boundary, as below
                report(error, self._membership)

    async def _look_forever(self) -> None:
        while True:
            try:
                looked = self._clock.now()
                self._due.clear()
                await self.look()
                await self._pause(looked)
            except Exception as error:  # noqa: BLE001 - the boundary: a database that fails for a moment must not end the worker
                report(error, self._membership)
                await self._clock.sleep(_EVERY)

    async def _follow_room(self) -> None:
        """Look soon after the pool has room again: once for all the runs that end meanwhile."""
        while True:
            await self._pool.freed()
            await asyncio.sleep(_SOON)
            self.look_soon()

    async def look(self) -> None:
        """Take every run that is due and has no driver; offer those without room here to the overflow.

        A run of this worker must have been lost at the last look too: it may be on its way from a commit to `begin`.
        One that a newer version has written to is left to that one, until it has another epoch.
        """
        if not self._membership.is_well:
            return  # the database is away: nothing can be taken, and all that was here is given up
        pool, before, looked_for = self._pool, self._pool.losses.snapshot(), self._pool.capacity
        due = await self._runs.due(expire_after=self._membership.expire_after, limit=self._limit)
        for run in due:
            driven = pool.driven.get(run.key)
            if driven is not None and run.has_news and not driven.interrupt.called:
                driven.interrupt()
        self._newer = {run.key: run.epoch for run in due if self._newer.get(run.key) == run.epoch}
        free = [run for run in due if run.key not in pool.driven and run.key not in self._newer]
        own = {run.key for run in free if run.owner == self._worker}
        lost = pool.losses.update(before, due={run.key for run in due}, own=own)
        wanted = [run for run in free if (run.owner != self._worker or run.key in lost) and not self._is_paused(run)]
        # Of what was beyond the room at the query nothing is known.
        chosen, left = pool.choose(wanted, min(looked_for, pool.capacity))
        await self._take(chosen)
        if self._overflow is not None:
            self._overflow.offer(left)
        if (now := self._clock.now()) - self._tidied >= _TIDY_EVERY:
            self._tidied = now
            await self._runs.tidy()

    def _is_paused(self, run: Due) -> bool:
        """Return whether a run that crashed here is to wait before it is resumed; it takes no room meanwhile."""
        crashed_here = run.status == "running" and run.owner == self._worker and run.key not in self._pool.losses.cut
        return crashed_here and run.due_at is not None and run.due_at > self._clock.now()

    @property
    def _limit(self) -> int:
        """How many of the queued runs are looked at."""
        room = self._pool.capacity
        limit = room and room + len(self._newer) + 1  # one more shows that others wait
        return limit if self._overflow is None else max(limit, self._overflow.capacity)

    async def _take(self, runs: Sequence[Due]) -> None:
        """Take *runs*, some at once: one whose session is locked elsewhere delays no other."""
        some = asyncio.Semaphore(_AT_ONCE)
        for error in await asyncio.gather(*(self.take(run, some) for run in runs), return_exceptions=True):
            if isinstance(error, Exception):
                report(error, self._membership)

    async def take(self, run: Due, some: asyncio.Semaphore) -> None:
        """Take a run that was found, as one of *some* at once."""
        cause = CRASHED if run.owner == self._worker else RESTARTED
        async with some:
            refused = await self._pool.take(run.key, OUTAGE if run.key in self._pool.losses.cut else cause, run.epoch)
        if refused is not None:  # the next looks leave it
            self._newer[run.key] = run.epoch
            _log.warning("run.needs_newer", reason=str(refused))

    async def _pause(self, looked: int) -> None:
        """Return after a second, at the next deadline after *looked*, or when a new one is set."""
        deadline = await self._runs.next_deadline(looked)
        pause = _EVERY
        if deadline is not None:
            pause = max(0.01, min(pause, (deadline - self._clock.now()) / 1000))
        waiting = asyncio.ensure_future(self._due.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(pause))
        try:
            await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()
            await asyncio.wait((waiting, sleeping))


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
