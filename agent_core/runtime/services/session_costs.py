"""What a session cost: its log replayed against the rules of the prompt caches."""

import asyncio
from collections.abc import Callable

from agent_core.caching.replay import logged_calls
from agent_core.caching.report import SessionBill, session_cost
from agent_core.errors import RateLimited
from agent_core.store.reading.replaying import WholeLog, whole_log
from agent_core.store.store import Store

MAX_WAITING = 4
"""Callers that may wait for the one whose session is replayed."""
RETRY_AFTER = 5
"""Seconds after which one more is worth a try."""


class SessionCosts:
    """Replays sessions, on request; nothing of it is kept.

    *listed* returns the name of a model, `provider:name`, in the model table.
    """

    def __init__(self, store: Store, listed: Callable[[str], str]) -> None:
        self._store, self._listed = store, listed
        self._one = asyncio.Semaphore()
        self._waiting = 0
        self._replay: asyncio.Task[SessionBill] | None = None

    async def of(self, session: str) -> SessionBill:
        """Return what *session* cost; raises `NotFound`, and `RateLimited` while too many wait.

        One is replayed at a time: a long log takes seconds of CPU. A thread cannot be cancelled, so the next one begins
        once it has ended, also if its caller has gone.
        """
        if self._waiting >= MAX_WAITING:
            raise RateLimited("Too many costs are asked for now; ask again.", RETRY_AFTER, limit="session_costs")
        self._waiting += 1
        try:
            await self._one.acquire()
        finally:
            self._waiting -= 1
        self._replay = asyncio.create_task(self._replayed(session))
        self._replay.add_done_callback(lambda _: self._one.release())
        return await asyncio.shield(self._replay)

    async def _replayed(self, session: str) -> SessionBill:
        log = await self._store.read(lambda connection: whole_log(connection, session))
        return await asyncio.to_thread(_replayed, session, log, self._listed)


def _replayed(session: str, log: WholeLog, listed: Callable[[str], str]) -> SessionBill:
    return session_cost(session, logged_calls(log.facts, log.snapshots, log.marker), listed)
