"""The reaper: removes the workers that have expired, and what DBOS keeps of the past."""

import asyncio
import time

import structlog

from agent_core.engine.doorbell import Doorbell
from agent_core.engine.liveness import Liveness, Pace
from agent_core.errors import Unavailable
from agent_core.store.database import Database
from agent_core.store.work import workers
from agent_core.traces import trace_of

_PRUNE_EVERY = 600.0
_TIMEOUT = 30.0
_log = structlog.get_logger("parley.engine")


class Reaper:
    """Looks after each heartbeat's time whether another worker has expired."""

    def __init__(self, database: Database, liveness: Liveness, doorbell: Doorbell, pace: Pace) -> None:
        self._database, self._liveness, self._doorbell, self._pace = database, liveness, doorbell, pace

    async def work(self) -> None:
        """Reap and prune until cancelled."""
        pruned = time.monotonic()
        while True:
            await asyncio.sleep(self._pace.heartbeat_every)
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await self._reap()
                    if self._doorbell.is_ready and time.monotonic() - pruned > _PRUNE_EVERY:
                        pruned = time.monotonic()
                        await self._doorbell.prune()
            except (Unavailable, TimeoutError) as error:
                _log.debug("reaper.failed", error=str(error))
            except Exception as error:  # noqa: BLE001 - the boundary: the next look may go well
                _log.error("reaper.failed", exception=trace_of(error))

    async def _reap(self) -> None:
        if not self._liveness.may_judge:
            return
        expire_after = self._liveness.expire_after
        expired = await self._database.read(lambda connection: workers.expired(connection, expire_after))
        if expired and self._doorbell.is_ready:
            await self._doorbell.reap(expire_after)
        elif expired:
            await self._database.write(lambda connection: workers.reap(connection, expired, expire_after))
            _log.info("workers.expired", workers=expired)
