"""The local engine: tasks in the one process that owns the database."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from agent_core.clock import Clock
from agent_core.engine.base import Runs, Segment
from agent_core.engine.interrupt import Interrupt
from agent_core.errors import LostRun, NewerRun, Unavailable
from agent_core.ids import new_id
from agent_core.loop.state import OUTAGE
from agent_core.store.log import RunRef
from agent_core.store.work.due import Due
from agent_core.store.work.runs import RESTARTED, RUNG

_SWEEP_EVERY = 1.0
_BEAT_EVERY = 10.0
_SOON = 0.05
_AT_ONCE = 8
"""Runs that a sweep takes side by side: fewer than a process has connections."""
MAX_RUNS = 1_000
_log = structlog.get_logger("parley.engine")


@dataclass(slots=True)
class Driven:
    """A run in the hands of this process."""

    run: RunRef
    task: asyncio.Task[None]
    interrupt: Interrupt
    since: float = field(default_factory=time.monotonic)
    told: bool = False


class LocalEngine:
    """Drives every run of one database in this process; whoever holds the lock on it is the only worker."""

    def __init__(self, runs: Runs, clock: Clock, *, max_runs: int = MAX_RUNS) -> None:
        self.worker = new_id("wrk")
        self._runs, self._clock, self._max_runs = runs, clock, max_runs
        self._driven: dict[int, Driven] = {}
        self._coming = 0
        self._taking: set[int] = set()
        self._astray: set[int] = set()
        self._cut: set[int] = set()
        self._rung: set[int] = set()
        self._newer: dict[int, int] = {}
        self._due = asyncio.Event()
        self._waking: asyncio.TimerHandle | None = None
        self._stopping = False

    @property
    def room(self) -> int:
        """How many more runs this worker may drive."""
        if self._stopping:
            return 0
        return max(0, self._max_runs - len(self._driven) - len(self._taking) - self._coming)

    def has_room(self) -> bool:
        return self.room > 0

    @contextmanager
    def place(self) -> Generator[bool]:
        kept = self.has_room()
        self._coming += kept
        try:
            yield kept
        finally:
            self._coming -= kept

    async def start(self) -> None:
        """Nobody else works here."""

    def begin(self, run: RunRef, segment: Segment) -> None:
        known = self._driven.get(run.key)
        if self._stopping or (known is not None and known.run.epoch >= run.epoch):
            return
        interrupt = Interrupt()
        task = asyncio.get_running_loop().create_task(self._drive(run, segment, interrupt))
        self._driven[run.key] = Driven(run, task, interrupt)

    async def ring(self, run: int, at: int | None = None) -> None:
        if at is not None:
            await self._runs.set_deadline(run, at)
            self._due.set()
        elif run in self._driven:
            self._rung.add(run)  # it may be on its way into a wait: look again when it is there
        else:
            await self._take(run, "crashed" if run in self._astray else RUNG)

    async def hear(self, run: int) -> None:
        await self.ring(run)

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
        await self._drop(grace)

    async def _drop(self, grace: float) -> None:
        """Cancel what is driven; wait for its ends, but no longer than *grace* seconds."""
        if tasks := self._cancel_driven():
            await asyncio.wait(tasks, timeout=grace)

    def _cancel_driven(self) -> list[asyncio.Task[None]]:
        """Have every driver cancelled once it has begun, and return their tasks.

        A task that is cancelled before its first step never enters its `try`: its run would count as driven for ever.
        """
        loop, tasks = asyncio.get_running_loop(), [driven.task for driven in self._driven.values()]
        for task in tasks:
            loop.call_soon(task.cancel)  # the first step of each is in the queue already
        return tasks

    async def _drive(self, run: RunRef, segment: Segment, interrupt: Interrupt) -> None:
        following = None
        try:
            following = await segment(interrupt)
        except LostRun:
            self._rung.discard(run.key)
            _log.info("run.lost", run=run.id)
        except Unavailable:
            self._cut.add(run.key)
            self._astray.add(run.key)
            _log.debug("run.cut", run=run.id)
        except Exception:  # noqa: BLE001 - the boundary: a bug of ours must not end the worker; the sweep tries the run again
            self._rung.discard(run.key)
            self._astray.add(run.key)
            _log.exception("run.crashed", run=run.id)
        finally:
            was_full = not self.has_room()
            if (own := self._driven.get(run.key)) is not None and own.run.epoch == run.epoch:
                del self._driven[run.key]
        if following is not None:
            self.begin(following, self._runs.segment(following))
        elif was_full:
            self._make_room_known()
        if run.key in self._rung:
            self._rung.discard(run.key)
            try:
                await self._take(run.key, RUNG)
            except Exception as error:  # noqa: BLE001 - the boundary: the sweep finds the run, as it does without a ring
                self._failed(error)

    async def _sweep_forever(self) -> None:
        while True:
            try:
                looked = self._clock.now()
                self._due.clear()
                await self.sweep()
                await self._pause(looked)
            except Exception as error:  # noqa: BLE001 - the boundary: a database that fails for a moment must not end the worker
                self._failed(error)
                await self._clock.sleep(_SWEEP_EVERY)

    def _failed(self, error: Exception) -> None:
        """Leave a word of a sweep that failed."""
        _log.error("sweep.failed", exc_info=error)

    def _make_room_known(self) -> None:
        """Look soon whether somebody waits for the room that there is: once for all the runs that end meanwhile."""
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(_SOON, self._wake)

    def _wake(self) -> None:
        self._waking = None
        self._due.set()

    async def sweep(self) -> list[Due]:
        """Take every run that is due and that nobody drives; return those that there was no room for.

        A run of this worker must have been astray at the last look too: it may be on its way from a commit to `begin`.
        One that a newer version has written to is left to that one, until somebody gives it another epoch.
        """
        astray, cut = frozenset(self._astray), frozenset(self._cut)
        found = await self._runs.due(patience=self._patience, most=self._most)
        # What this process lost during the query is in neither: the query may have read the time before.
        for run in found:
            driven = self._driven.get(run.key)
            if driven is not None and run.has_news and not driven.interrupt.called:
                driven.interrupt()
        self._cut -= cut - {run.key for run in found}  # taken since, or over when the answer got lost
        self._newer = {run.key: run.epoch for run in found if self._newer.get(run.key) == run.epoch}
        free = [run for run in found if run.key not in self._driven and run.key not in self._newer]
        own = {run.key for run in free if run.owner == self.worker}
        known, self._astray = self._astray, own | (self._astray - astray)
        wanted = [run for run in free if run.owner != self.worker or run.key in known]
        room = self.room
        some = asyncio.Semaphore(_AT_ONCE)
        taking = (self._take_found(run, some) for run in wanted[:room])
        for error in await asyncio.gather(*taking, return_exceptions=True):
            if isinstance(error, Exception):  # one that cannot be taken keeps nobody from the others
                self._failed(error)
        return wanted[room:]

    @property
    def _most(self) -> int:
        """How many of the queued runs are looked at."""
        return self.room and self.room + len(self._newer)

    async def _take_found(self, run: Due, some: asyncio.Semaphore) -> None:
        """Take the run as one of *some* at once: one that somebody has locked holds up no more than its own place."""
        cause = "crashed" if run.owner == self.worker else RESTARTED
        async with some:
            await self._take(run.key, OUTAGE if run.key in self._cut else cause, run.epoch)

    @property
    def _patience(self) -> int:
        """Milliseconds after which a worker that does not beat is dead; here any other is."""
        return 0

    async def _take(self, key: int, cause: str, epoch: int | None = None) -> None:
        """Own the run and drive it, if it still has the *epoch* with which it was found; two takers at once are one."""
        if key in self._taking or key in self._driven:
            return
        self._taking.add(key)
        try:
            run = await self._runs.take(key, cause, patience=self._patience, epoch=epoch)
        except NewerRun as error:
            if epoch is not None:  # found by a sweep, which is not to try the same again each second
                self._newer[key] = epoch
                _log.warning("run.needs_newer", told=str(error))
            return
        finally:
            self._taking.discard(key)
        self._cut.discard(key)
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
            await asyncio.wait((waiting, sleeping))

    async def _beat_forever(self) -> None:
        while True:
            await self._clock.sleep(_BEAT_EVERY)
            for driven in self._driven.values():
                if not driven.interrupt.leaving:
                    self._runs.beat(driven.run)
