"""Liveness: this process's heartbeats, from a dedicated thread, and a watchdog that ends a stalled process."""

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agent_core.errors import Unavailable
from agent_core.store.postgres.database import engine_of
from agent_core.store.work import workers
from agent_core.store.work.workers import Kind, Worker

_log = structlog.get_logger("parley.liveness")
_DRIFT = 2.0
"""Seconds by which the database's clock may drift from ours between two beats; beyond that someone has set it."""
_STOP = 2.0
# A clock that keeps running while the machine sleeps, where there is one.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: the heartbeat interval; without one, when a worker stops its runs, and when others consider it expired.

    All processes of a database use the same values. A worker ends its runs before others may take them.
    *notify_after* is how long a run lasts before DBOS is notified of it; None does without DBOS.
    """

    heartbeat_every: float = 2.0
    give_up: float = 7.0
    expire_after: float = 10.0
    notify_after: float | None = 1.0

    @property
    def answer(self) -> float:
        """How long a beat waits for the database's answer before it is retried."""
        return self.give_up / 2

    @property
    def settle(self) -> float:
        """How long after an outage every live worker has sent a heartbeat: one attempt that times out, and one more."""
        return self.answer + self.heartbeat_every


@dataclass(frozen=True, slots=True)
class Load:
    """The load that a process reports with its heartbeats: *room* for more runs, and how many are *running*."""

    room: int
    running: int


def this_process(name: str, kind: Kind) -> Worker:
    """Return what other processes see of this one."""
    return Worker(id=name, host=socket.gethostname()[:200], pid=os.getpid(), kind=kind)


def end_process(reason: str) -> None:
    """End this process at once, without cleanup: others may have taken over its runs already."""
    _log.critical("worker.ends_itself", reason=reason)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


class Liveness:
    """Sends heartbeats for one process until stopped; create it in the event loop, which it watches too."""

    def __init__(
        self,
        url: str,
        worker: Worker,
        load: Callable[[], Load],
        *,
        pace: Pace,
        lost: Callable[[], None],
        end: Callable[[str], None] | None,
    ) -> None:
        """*lost* is called on the event loop when beats fail for too long; *end* when the process was stalled."""
        self._url, self._worker, self._load, self._pace, self._lost, self._end = url, worker, load, pace, lost, end
        self._home = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._first: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._beaten = self._answered = _now()
        self._good_since: float | None = None
        self._probation = pace.settle
        self._offset: tuple[float, float] | None = None
        self._away = False

    @property
    def is_well(self) -> bool:
        """Return whether other workers consider this process alive."""
        return self._good_since is not None and _now() - self._beaten < self._pace.give_up

    @property
    def may_judge(self) -> bool:
        """Return whether heartbeats have succeeded for so long that a worker without any has expired.

        A new process waits until all live workers have sent a heartbeat, in case an outage has just ended.
        After an outage that it saw it waits `Pace.expire_after` seconds: not all workers reconnect at the same moment.
        """
        since = self._good_since
        return self.is_well and since is not None and _now() - since >= self._probation

    @property
    def expire_after(self) -> int:
        """Return after how many milliseconds without a heartbeat another worker has expired."""
        return int(self._pace.expire_after * 1000) if self.may_judge else workers.FOREVER

    def reports(self, error: Exception) -> bool:
        """Return whether the outage that caused *error* has lines of its own in the log."""
        return isinstance(error, Unavailable)

    async def start(self) -> None:
        """Return once the first beat is in the database; raises `Unavailable`."""
        # The thread logs with this worker's context variables.
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="parley-liveness", daemon=True)
        self._thread.start()
        await asyncio.wrap_future(self._first)

    async def stop(self) -> None:
        """Return when no beat will follow."""
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _STOP)
        self._good_since = None

    def _run(self) -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat_forever())
            if self._end is not None:
                group.create_task(self._watch_forever(self._end))

    async def _beat_forever(self) -> None:
        engine, connection = engine_of(self._url), None
        try:
            while True:
                began = _now()
                try:
                    async with asyncio.timeout(self._pace.answer if self._first.done() else self._pace.give_up):
                        connection = connection or await engine.connect()
                        there = await self._beat(connection)
                except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, the next beat may go well
                    connection = await _dropped(connection)
                    self._failed(error)
                else:
                    self._went_well(began, there - _now(), there - began)
                await asyncio.sleep(max(0.1, self._pace.heartbeat_every - (_now() - began)))
        finally:
            await _dropped(connection)
            await engine.dispose()

    async def _beat(self, connection: AsyncConnection) -> float:
        """Send a heartbeat, and return the time of the database, in seconds."""
        load = self._load()
        beat = partial(workers.heartbeat, worker=self._worker, room=load.room, running=load.running)
        return await connection.run_sync(beat) / 1000

    def _went_well(self, began: float, least: float, limit: float) -> None:
        """Record a heartbeat; after an outage or a change of the database's clock, none expires for a while.

        That clock is ahead of ours by *least* to *limit* seconds: the longer the answer took, the less is known.
        """
        before, self._offset = self._offset, (least, limit)
        was_set = before is not None and max(least - before[1], before[0] - limit) > _DRIFT
        if was_set:
            _log.warning("database.clock_set")
        if self._good_since is None:
            self._good_since = began
        elif was_set or _now() - self._beaten >= self._pace.give_up:
            self._good_since, self._probation = began, self._pace.expire_after
        self._beaten = began
        if not self._first.done():
            self._first.set_result(None)
        if self._away:
            self._away = False
            _log.info("database.back")

    def _failed(self, error: Exception) -> None:
        if not self._first.done():
            self._first.set_exception(Unavailable("The database cannot be reached; try again in a moment."))
            return
        if not self._away:
            self._away = True
            _log.warning("database.away", error=type(error).__name__)

    async def _watch_forever(self, end: Callable[[str], None]) -> None:
        """Watch for stalls of this thread or the event loop, and for heartbeats that fail for too long."""
        tick, was_well = self._pace.give_up / 7, False
        while True:
            looked = _now()
            self._home.call_soon_threadsafe(self._answer)
            await asyncio.sleep(tick)
            gap, silence = _now() - looked - tick, _now() - self._answered
            if gap > self._pace.give_up:
                end(f"It stood still for {gap:.0f} s.")
            elif silence > self._pace.give_up:
                end(f"Its event loop did not answer for {silence:.0f} s.")
            if was_well and not self.is_well:
                self._home.call_soon_threadsafe(self._lost)
            was_well = self.is_well

    def _answer(self) -> None:
        self._answered = _now()


async def _dropped(connection: AsyncConnection | None) -> None:
    """Close a connection that may be broken."""
    if connection is not None:
        with suppress(Exception):  # errors of a broken connection do not matter any more
            await connection.invalidate()
        with suppress(Exception):
            await connection.close()


def _now() -> float:
    return time.clock_gettime(_CLOCK)
