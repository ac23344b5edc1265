"""Ringing: having somebody look at a run, here or at another process."""

import asyncio
from contextlib import suppress

import structlog

from agent_core.engine.base import Engine
from agent_core.errors import Unavailable
from agent_core.runtime.segments import Segments
from agent_core.store.bus import Bus
from agent_core.store.work.runs import Cancelled

_log = structlog.get_logger("parley.core")


class Ringing:
    """Reaches whoever drives a run, or should."""

    def __init__(self, engine: Engine, bus: Bus | None, segments: Segments) -> None:
        self._engine, self._bus, self._segments = engine, bus, segments
        self.going: set[asyncio.Future[None]] = set()

    async def follow_up(self, done: Cancelled) -> None:
        """Have a cancelled run's driver stop, and the run begin that it made room for."""
        if done.running is not None and not self.interrupt(done.running.key):
            await self._engine.ring(done.running.key)
        if done.started is not None:
            self._engine.begin(done.started, self._segments.segment(done.started))

    def interrupt(self, run: int) -> bool:
        """Have a run's driver, here or elsewhere, stop and read the news; tell whether it is here."""
        here = self._engine.interrupt(run)
        if not here and self._bus is not None:
            self._bus.interrupt(run)
        return here

    def freed(self, run: int) -> None:
        """Have a run looked at that waited for room, for another's end, or for somebody outside."""
        if self._engine.has_room():
            self.rung(run)
        else:
            self._segments.call(run)

    def rung(self, run: int) -> None:
        """Look at a run that another process asks for."""
        ringing = asyncio.ensure_future(self._heard(run))
        self.going.add(ringing)
        ringing.add_done_callback(self.going.discard)

    async def _heard(self, run: int) -> None:
        try:
            with suppress(Unavailable):  # the sweep finds the run once the database is back
                await self._engine.hear(run)
        except Exception:  # noqa: BLE001 - the boundary: a bug of ours must not go unheard; the sweep finds the run
            _log.exception("ring.failed", run=run)
