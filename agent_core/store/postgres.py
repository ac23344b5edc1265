"""Postgres: each transaction on a connection of its own for as long as it lasts, awaited on the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from agent_core.errors import Unavailable
from agent_core.store.dsn import for_asyncpg

T = TypeVar("T")
POOL = 10
"""Connections of a process for its transactions; what listens and what beats have one each besides."""
CONNECT_TIMEOUT = 5.0
STATEMENT_TIMEOUT = 30.0
_BEGIN, _LOOK = "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Somebody else was quicker: run the transaction anew. The names are those of the SQL standard's states.
_SERIALIZATION, _DEADLOCK, _UNIQUE = "40001", "40P01", "23505"
_AGAIN = frozenset({_SERIALIZATION, _DEADLOCK, _UNIQUE})
_TRIES = 4


class PostgresDatabase:
    """A Postgres database that other processes use too; at most *pool* transactions at once, the rest wait.

    A transaction that another one was in the way of is run anew, so its work may be called more than once. Whoever
    writes to a session locks its row first: what is read behind that holds until the commit. Raises `Unavailable` when
    the database cannot be reached, or is lost on the way; whether a transaction whose `COMMIT` was lost is there, the
    log tells.
    """

    def __init__(self, url: str, *, pool: int = POOL) -> None:
        self._engine = engine_of(url)
        self._room = asyncio.Semaphore(pool)
        self._free: list[AsyncConnection] = []
        self._writing: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        if self._closed:
            raise RuntimeError("The database is closed.")
        writing = asyncio.create_task(self._write(work, then))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return await asyncio.shield(writing)

    async def read(self, work: Callable[[Connection], T]) -> T:
        if self._closed:
            raise RuntimeError("The database is closed.")
        return await self._within(_LOOK, work)

    async def peek(self, work: Callable[[Connection], T]) -> T:
        return await self.read(work)

    async def close(self) -> None:
        """Finish what was begun, then close every connection."""
        self._closed = True
        if self._writing:
            await asyncio.wait(self._writing)
        while self._free:
            await self._free.pop().close()
        await self._engine.dispose()

    async def _write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None) -> T:
        for left in reversed(range(_TRIES)):
            try:
                result = await self._within(_BEGIN, work)
            except Exception as error:
                if not left or _state_of(error) not in _AGAIN:
                    raise
                continue
            if then is not None:
                then(result)
            return result
        raise AssertionError("The last try returns or raises.")

    async def _within(self, begin: str, work: Callable[[Connection], T]) -> T:
        async with self._room:
            connection = await self._begun(begin)
            raw = _raw(connection)
            try:
                result = await connection.run_sync(work)
                await raw.execute("COMMIT")
                return result
            except Exception as error:
                if raw.is_closed():
                    raise Unavailable("The database was lost on the way; try again in a moment.") from error
                await raw.execute("ROLLBACK")
                raise
            finally:
                await self._give_back(connection)

    async def _begun(self, begin: str) -> AsyncConnection:
        """Return a connection in a transaction; those that were cut since they were used are replaced."""
        while self._free:
            connection = self._free.pop()
            try:
                await _raw(connection).execute(begin)
            except Exception:  # noqa: BLE001 - whatever it is, nothing was done yet: the next one may do better
                await _drop(connection)
            else:
                return connection
        try:
            connection = await self._engine.connect()
            await _raw(connection).execute(begin)
        except Exception as error:
            raise Unavailable("The database cannot be reached; try again in a moment.") from error
        return connection

    async def _give_back(self, connection: AsyncConnection) -> None:
        raw = _raw(connection)
        if raw.is_closed() or raw.is_in_transaction():  # cut, or cancelled in the middle
            await _drop(connection)
        else:
            self._free.append(connection)


def engine_of(url: str) -> AsyncEngine:
    """Return an engine for the Postgres at *url*; whoever connects keeps the connection."""
    return create_async_engine(
        "postgresql+asyncpg://",  # asyncpg reads the address itself: it knows more of it than SQLAlchemy passes on
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",  # transactions are begun and ended by hand
        hide_parameters=True,  # an error is logged, and parameters are what people and models said
        connect_args={"dsn": for_asyncpg(url), "timeout": CONNECT_TIMEOUT, "command_timeout": STATEMENT_TIMEOUT},
    )


def _raw(connection: AsyncConnection) -> Any:
    """Return asyncpg's own connection."""
    held: Any = connection.sync_connection
    return held.connection.driver_connection


async def _drop(connection: AsyncConnection) -> None:
    """Close a connection that may be broken; what it says to that is of no use to anybody."""
    _raw(connection).terminate()
    await connection.invalidate()
    await connection.close()


def _state_of(error: BaseException) -> str | None:
    """Return the SQL state of a failed statement, whoever wrapped the driver's error."""
    at: BaseException | None = error
    while at is not None:
        state = getattr(at, "sqlstate", None)
        if isinstance(state, str):
            return state
        at = at.__cause__ or getattr(at, "orig", None)
    return None
