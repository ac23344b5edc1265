"""What a session cost: its log replayed against the rules of the prompt caches."""

import asyncio
from collections.abc import Callable

from agent_core.caching.replay import logged_calls
from agent_core.caching.report import SessionBill, session_cost
from agent_core.store.reading.replaying import WholeLog, whole_log
from agent_core.store.store import Store


class SessionCosts:
    """Replays sessions, on request; nothing of it is kept.

    *listed* returns the name of a model, `provider:name`, in the model table.
    """

    def __init__(self, store: Store, listed: Callable[[str], str]) -> None:
        self._store, self._listed = store, listed
        self._one = asyncio.Semaphore()

    async def of(self, session: str) -> SessionBill:
        """Return what *session* cost; raises `NotFound`. One is replayed at a time: a long log takes seconds of CPU."""
        async with self._one:
            found = await self._store.read(lambda connection: whole_log(connection, session))
            return await asyncio.to_thread(_replayed, session, found, self._listed)


def _replayed(session: str, found: WholeLog, listed: Callable[[str], str]) -> SessionBill:
    return session_cost(session, logged_calls(found.facts, found.snapshots, found.marker), listed)
