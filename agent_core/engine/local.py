"""The local engine: tasks in the one process that owns the database."""

import asyncio
from dataclasses import dataclass, field

import structlog

from agent_core.clock import Clock
from agent_core.drive import Interrupt
from agent_core.engine.base import Runs, Segment
from agent_core.errors import LostRun
from agent_core.ids import new_id
from agent_core.store.log import RunRef
from agent_core.store.runs import RUNG

_SWEEP_EVERY = 1.0
_BEAT_EVERY = 10.0
MAX_RUNS = 1_000
_log = structlog.get_logger("parley.engine")


@dataclass(slots=True)
class _Driven:
    run: RunRef
    task: asyncio.Task[None]
    interrupt: Interrupt = field(default_factory=Interrupt)


class LocalEngine:
    """Drives every run of one database in this process; whoever holds the lock on it is the only worker."""

    def __init__(self, runs: Runs, clock: Clock, *, max_runs: int = MAX_RUNS) -> None:
        self.worker = new_id("wrk")
        self._runs, self._clock, self._max_runs = runs, clock, max_runs
        self._driven: dict[int, _Driven] = {}
        self._taking: set[int] = set()
        self._astray: set[int] = set()
        self._rung: set[int] = set()
        self._due = asyncio.Event()
        self._stopping = False

    def has_room(self) -> bool:
        return not self._stopping and len(self._driven) < self._max_runs

    def begin(self, run: RunRef, segment: Segment) -> None:
        if self._stopping:
            return
        interrupt = Interrupt()
        task = asyncio.get_running_loop().create_task(self._drive(run, segment, interrupt))
        self._driven[run.key] = _Driven(run, task, interrupt)

    async def ring(self, run: int, at: int | None = None) -> None:
        if at is not None:
            await self._runs.set_deadline(run, at)
            self._due.set()
        elif run in self._driven:
            self._rung.add(run)  # it may be on its way into a wait: look again when it is there
        else:
            await self._take(run, RUNG)

    def interrupt(self, run: int) -> bool:
        driven = self._driven.get(run)
        if driven is not None:
            driven.interrupt()
        return driven is not None

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep_forever())
            group.create_task(self._beat_forever())

    async def stop(self, grace: float) -> None:
        self._stopping = True
        tasks = [driven.task for driven in self._driven.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)

    async def _drive(self, run: RunRef, segment: Segment, interrupt: Interrupt) -> None:
        try:
            following = await segment(interrupt)
        except LostRun:
            following = None
            self._rung.discard(run.key)
            _log.info("run.lost", run=run.id)
        except Exception:  # noqa: BLE001 - the boundary: a bug of ours must not end the worker; the sweep tries the run again
            following = None
            self._rung.discard(run.key)
            _log.exception("run.crashed", run=run.id)
        finally:
            self._driven.pop(run.key, None)
        if following is not None:
            self.begin(following, self._runs.segment(following))
        if run.key in self._rung:
            self._rung.discard(run.key)
            await self._take(run.key, RUNG)

    async def _sweep_forever(self) -> None:
        while True:
            try:
                looked = self._clock.now()
                await self.sweep()
                self._due.clear()
                await self._pause(looked)
            except Exception:  # noqa: BLE001 - the boundary: a database that fails for a moment must not end the worker
                _log.exception("sweep.failed")
                await self._clock.sleep(_SWEEP_EVERY)

    async def sweep(self) -> None:
        """Take every run that is due and that nobody drives.

        A run of this worker must have been astray at the last look too: it may be on its way from a commit to `begin`.
        """
        due = [(key, owner == self.worker) for key, owner in await self._runs.due() if key not in self._driven]
        known, self._astray = self._astray, {key for key, own in due if own}
        for key, own in due:
            if not self.has_room():
                return
            if key not in self._driven and (key in known or not own):
                await self._take(key, "crashed" if own else "restarted")

    async def _take(self, key: int, cause: str) -> None:
        """Own the run and drive it; two takers at once are one."""
        if key in self._taking:
            return
        self._taking.add(key)
        try:
            run = await self._runs.take(key, cause)
        finally:
            self._taking.discard(key)
        if run is not None and run.key not in self._driven:
            self.begin(run, self._runs.segment(run))

    async def _pause(self, looked: int) -> None:
        """Return after a second, at the next deadline after *looked*, or when a ring sets a new one."""
        deadline = await self._runs.next_deadline(looked)
        pause = _SWEEP_EVERY
        if deadline is not None:
            pause = max(0.01, min(pause, (deadline - self._clock.now()) / 1000))
        waiting = asyncio.ensure_future(self._due.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(pause))
        try:
            await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

    async def _beat_forever(self) -> None:
        while True:
            await self._clock.sleep(_BEAT_EVERY)
            for driven in self._driven.values():
                self._runs.beat(driven.run)
