"""The dispatcher: what has a run driven, here or at another process."""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractContextManager, suppress
from typing import Any

import structlog

from agent_core.engine.pool import Engine, Segment
from agent_core.errors import Unavailable
from agent_core.store.changes import Changed, StopResult
from agent_core.store.hub import Bus
from agent_core.store.log import RunRef
from agent_core.store.runs import Cancelled
from agent_core.traces import trace_of

_log = structlog.get_logger("parley.core")


class Dispatcher:
    """Begins, wakes and interrupts runs.

    Correctness never depends on it: a run that is committed and not dispatched is found by the next sweep.
    """

    _engine: Engine

    def __init__(self, bus: Bus | None) -> None:
        self._bus = bus
        self.pending: set[asyncio.Future[object]] = set()
        """Wake-ups that are under way."""

    def connect(self, engine: Engine) -> None:
        """Use *engine*; the runs that it drives dispatch others as they end, so neither it nor this can come first."""
        self._engine = engine

    async def stop(self, grace: float) -> None:
        """Wait up to *grace* seconds for the wake-ups that are under way, then cancel them."""
        if self.pending:
            await asyncio.wait(self.pending, timeout=grace)
        if left := tuple(self.pending):
            for waking in left:
                waking.cancel()
            await asyncio.wait(left)

    @property
    def worker(self) -> str:
        """Return the name of this worker, new at every start."""
        return self._engine.worker

    @property
    def owner(self) -> str | None:
        """Return the name of this worker while it has room for another run."""
        return self._engine.worker if self._engine.pool.has_capacity() else None

    def reserve(self) -> AbstractContextManager[bool]:
        """Keep room for a run that is about to begin here; False when there is none."""
        return self._engine.pool.reserve()

    def begin(self, run: RunRef, segment: Segment) -> None:
        """Drive a run that this worker owns already."""
        self._engine.pool.begin(run, segment)

    def interrupt(self, run: int) -> bool:
        """Interrupt the driver of a run, here or elsewhere, so that it reads the news; return whether it is here."""
        here = self._engine.pool.interrupt(run)
        if not here and self._bus is not None:
            self._bus.interrupt(run)
        return here

    def follow_change(self, done: Changed) -> None:
        """Follow up the cancel that a deleted message led to, if it led to one."""
        if done.cancelled is not None:
            self.follow_up(done.cancelled)

    def follow_up(self, done: Cancelled) -> None:
        """Interrupt a cancelled run's driver, and begin or dispatch the runs that its end made room for."""
        self.dispatch(done.freed)
        if done.started is not None:
            self._engine.pool.begin(done.started)
        if done.running is not None:
            self._interrupt_or_dispatch(done.running.key)

    def follow_stop(self, done: StopResult) -> None:
        """Interrupt the driver of a stopped session, and dispatch the runs of others that may have waited for room."""
        for run in done.freed:
            self.dispatch(run)
        if done.running is not None:
            self._interrupt_or_dispatch(done.running.key)

    def dispatch(self, run: int | None) -> None:
        """Wake a run, if there is one, here if there is capacity, else ask the other processes to.

        Where others wait the sweep chooses.
        """
        if run is None:
            return
        if self._engine.pool.has_capacity():
            self._spawn(self._wake_somewhere(run))
            return
        self._engine.pool.hurry()
        self._wake_elsewhere(run)

    def wake(self, run: int) -> None:
        """Have this worker look at a run, and drive it if it can go on; another process may ask for that."""
        self._spawn(self._wake(run))

    def _spawn(self, wake_up: Coroutine[Any, Any, object]) -> None:
        waking = asyncio.ensure_future(wake_up)
        self.pending.add(waking)
        waking.add_done_callback(self.pending.discard)

    async def _wake_somewhere(self, run: int) -> None:
        """Wake a run here, or elsewhere if the capacity that was here is gone."""
        if not await self._wake(run):
            self._wake_elsewhere(run)

    def _wake_elsewhere(self, run: int) -> None:
        if self._bus is not None:
            self._bus.wake(run)

    def _interrupt_or_dispatch(self, run: int) -> None:
        """Interrupt a cancelled run's driver; the run is looked at too when that is not here, and may be dead."""
        if not self.interrupt(run):
            self.dispatch(run)

    async def _wake(self, run: int) -> bool:
        """Return False if this worker has no capacity for the run."""
        try:
            with suppress(Unavailable):  # the sweep finds the run once the database is back
                return await self._engine.wake(run)
        except Exception as error:  # noqa: BLE001 - the boundary: a bug of ours must be logged; the sweep finds the run
            _log.error("wake.failed", run=run, exception=trace_of(error))
        return True
