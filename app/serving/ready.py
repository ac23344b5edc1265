"""Whether this process can do its work now: the answer of `/readyz`, with the reason when it cannot."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sqlalchemy import Connection, Row, text

from agent_core import Core, Database, Unavailable
from app.serving.readers import Readers
from app.storage import newest, revision_of

TIMEOUT = 5
"""Seconds for the database to answer."""
WARNING_AGE = 30
LATE = 7_000
"""Milliseconds without a heartbeat after which a process is not ready: the others take over its runs soon after."""
_HEARTBEAT = text(
    "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) - beat_at AS age FROM worker "
    "WHERE id = :worker"
)
Look = Callable[[], Awaitable[str | None]]


class Ready:
    """Checks what a process depends on; *readers* are closed when it is asked to stop, *look* checks the database."""

    def __init__(self, core: Core, readers: Readers, look: Look | None = None) -> None:
        self._core, self._readers = core, readers
        self._look = look or self._ping
        self._warning: str | None = None
        self._warned_until = 0.0

    async def fault(self) -> str | None:
        """Return why requests cannot be served now, None when they can."""
        if self._readers.closed:
            return "The server is stopping."
        if not self._core.is_working:
            return "The engine has stopped; start the server again."
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._look()
        except TimeoutError:
            return f"The database did not answer within {TIMEOUT} seconds."
        except Unavailable as error:
            return str(error)

    async def warning(self) -> str | None:
        """Return what is not as it should be although requests are served, None if nothing is.

        It names no agent: anyone may ask. All agents are looked at, so once in `WARNING_AGE` seconds, whatever comes of
        it; meanwhile the last answer stands.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._warned_until:
            self._warned_until = now + WARNING_AGE  # before the first await: others do not look beside this one
            with suppress(Unavailable, TimeoutError):  # the database was there just now: then the last answer stands
                async with asyncio.timeout(TIMEOUT):
                    count = len(await self._core.agents.unavailable())
                text = f"Agents without a model that can be asked: {count}. `parley doctor` names them."
                self._warning = text if count else None
        return self._warning

    async def _ping(self) -> None:
        await self._core.health.ping()


class Starting:
    """The readiness of a process that is starting."""

    async def fault(self) -> str:
        return "The process is starting."

    async def warning(self) -> None:
        return None


def look_at(database: Database, worker: str) -> Look:
    """Return the check of a Postgres that several processes share: *worker* is this one's name in it."""
    wanted = newest()

    def work(connection: Connection) -> tuple[str | None, Row[tuple[int]] | None]:
        return revision_of(connection), connection.execute(_HEARTBEAT, {"worker": worker}).first()

    async def look() -> str | None:
        revision, heartbeat = await database.read(work)
        if revision is None or revision < wanted:
            return f"The database is at revision {revision or 'none'}, not {wanted}; run `parley migrate`."
        if heartbeat is None:
            return "This process is not registered as alive; its heartbeats do not arrive."
        if heartbeat.age > LATE:
            return f"The last heartbeat of this process arrived {heartbeat.age // 1000} seconds ago."
        return None

    return look
