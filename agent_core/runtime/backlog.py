"""Backlog: how many runs are queued over all processes, and when that is too many to accept more."""

import structlog

from agent_core.clock import Clock
from agent_core.errors import RateLimited, Unavailable
from agent_core.store import queue
from agent_core.store.database import Database
from agent_core.store.queue import RETRY_AFTER
from agent_core.traces import trace_of

_COUNT_EVERY = 1.0
_log = structlog.get_logger("parley.limits")


class Backlog:
    """How many runs are queued over all processes: counted every second, plus those queued here since the count."""

    def __init__(self, database: Database, clock: Clock, limit: int | None) -> None:
        """*limit* runs may be queued; None sets no bound, and nothing is counted."""
        self._database, self._clock, self._limit = database, clock, limit
        self.waiting = 0

    def refusal(self) -> RateLimited | None:
        """Return the error for a message that would add to a full backlog, None while there is room."""
        if self._limit is None or self.waiting < self._limit:
            return None
        text = "More runs are queued than this server accepts; send the same again later."
        return RateLimited(text, RETRY_AFTER, limit="backlog")

    def note(self) -> None:
        """Count a run that this process has just queued."""
        self.waiting += 1

    async def watch(self) -> None:
        """Count at once and then every second until cancelled; while the database is away the last count stays."""
        while self._limit is not None:
            try:
                await self.count()
            except Unavailable:
                _log.debug("backlog.not_counted")  # the sweep logs the outage
            except Exception as error:  # noqa: BLE001 - a count that fails must not end the task
                _log.error("backlog.not_counted", exception=trace_of(error))
            await self._clock.sleep(_COUNT_EVERY)

    async def count(self) -> None:
        """Count the queued runs."""
        self.waiting = await self._database.read(queue.count_queued)
