"""Backlog: how many runs are queued over all processes, and when that is too many to take more."""

import structlog

from agent_core.clock import Clock
from agent_core.errors import RateLimited, Unavailable
from agent_core.store.database import Database
from agent_core.store.work import limits
from agent_core.store.work.limits import RETRY_AFTER

_COUNT_EVERY = 1.0
_log = structlog.get_logger("parley.limits")


class Backlog:
    """How many runs wait over all processes: counted once a second, and with it those that were queued here since."""

    def __init__(self, database: Database, clock: Clock, most: int | None) -> None:
        """*most* may wait; None counts nothing and refuses nobody."""
        self._database, self._clock, self._most = database, clock, most
        self.waiting = 0

    @property
    def refusal(self) -> RateLimited | None:
        """What a post that adds to the backlog is told while there is too much of it."""
        if self._most is None or self.waiting < self._most:
            return None
        return RateLimited("More runs wait than this server takes on; send the same again later.", RETRY_AFTER)

    def note(self) -> None:
        """Count in a run that this process has just queued."""
        self.waiting += 1

    async def watch(self) -> None:
        """Count for ever, at once and then every second; while the database is away the last count stays."""
        while self._most is not None:
            try:
                await self.count()
            except Unavailable:
                _log.debug("backlog.not_counted")  # the sweep has told of the outage
            except Exception:  # noqa: BLE001 - the boundary: a count that fails must not be the last
                _log.exception("backlog.not_counted")
            await self._clock.sleep(_COUNT_EVERY)

    async def count(self) -> None:
        """Count no further than one needs to know."""
        most = self._most or 0
        self.waiting = await self._database.read(lambda connection: limits.count_queued(connection, most=most))
