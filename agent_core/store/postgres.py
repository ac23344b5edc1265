"""Postgres: each transaction on a connection of its own for as long as it lasts, awaited on the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

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
IDLE_TIMEOUT = 5.0
"""Seconds for which a transaction may stand still between two statements; the database ends it then.

A process that was stopped, or cut off, would keep its locks otherwise, and nobody could take over what it drove.
"""
_LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
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

    def __init__(self, url: str, *, pool: int = POOL, idle_timeout: float = IDLE_TIMEOUT) -> None:
        self._engine = engine_of(url)
        # For this transaction alone, in the same breath: a pooler may give the connection to others in between.
        self._begin_write = f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {int(1000 * idle_timeout)}"
        self._pool, self._room = pool, asyncio.Semaphore(pool)
        self._free: list[_Link] = []
        self._begun: set[asyncio.Task[Any]] = set()
        self._newest_commit: asyncio.Future[None] | None = None
        self._closed = False

    async def write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        return await self._to_its_end(self._write(work, then))

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._to_its_end(self._within(_LOOK, work, self._end))

    async def peek(self, work: Callable[[Connection], T]) -> T:
        return await self.read(work)

    @property
    def in_use(self) -> int:
        """How many transactions have a connection."""
        return min(len(self._begun), self._pool)

    @property
    def waiting(self) -> int:
        """How many transactions wait for one."""
        return len(self._begun) - self.in_use

    async def close(self) -> None:
        """Finish what was begun, then close every connection."""
        self._closed = True
        if self._begun:
            await asyncio.wait(self._begun)
        while self._free:
            await self._free.pop().connection.close()
        await self._engine.dispose()

    async def _to_its_end(self, transaction: Coroutine[Any, Any, T]) -> T:
        """Run *transaction*: it comes to its end, and its connection back, though the caller be cancelled meanwhile."""
        if self._closed:
            transaction.close()
            raise RuntimeError("The database is closed.")
        task = asyncio.create_task(transaction)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return await asyncio.shield(task)

    async def _write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None) -> T:
        for left in reversed(range(_TRIES)):
            try:
                return await self._within(self._begin_write, work, partial(self._commit, then))
            except Exception as error:
                if not left or _state_of(error) not in _AGAIN:
                    raise
        raise AssertionError("The last try returns or raises.")

    async def _within(
        self, begin: str, work: Callable[[Connection], T], end: Callable[["_Link", T], Awaitable[None]]
    ) -> T:
        async with self._room:
            link = await self._begin(begin)
            try:
                result = await link.connection.run_sync(work)
                await end(link, result)
            except BaseException as error:
                if await _rolled_back(link):
                    self._free.append(link)
                    raise
                await _drop(link)
                raise Unavailable("The database was lost on the way; try again in a moment.") from error
            self._free.append(link)
            return result

    async def _end(self, link: "_Link", _result: object) -> None:
        await link.raw.execute("COMMIT")

    async def _commit(self, then: Callable[[T], None] | None, link: "_Link", result: T) -> None:
        """Commit, and tell of it behind every commit that was asked for before.

        Whoever waited for a lock of ours was let on before we hear of our commit, and their answer may overtake ours.
        """
        before, told = self._newest_commit, asyncio.get_running_loop().create_future()
        self._newest_commit = told
        try:
            await link.raw.execute("COMMIT")
            if before is not None:
                await asyncio.wait((before,))
            if then is not None:
                then(result)
        finally:
            told.set_result(None)

    async def _begin(self, begin: str) -> "_Link":
        """Return a connection in a transaction; those that were cut since they were used are replaced."""
        while self._free:
            link = self._free.pop()
            try:
                await link.raw.execute(begin, timeout=CONNECT_TIMEOUT)
            except Exception:  # noqa: BLE001 - whatever it is, nothing was done yet: a new one may do better
                await self._drop_all(link)
            else:
                return link
        try:
            link = _Link(connection := await self._engine.connect(), _raw(connection))
        except Exception as error:
            raise Unavailable("The database cannot be reached; try again in a moment.") from error
        try:
            await link.raw.execute(begin)
        except Exception as error:
            await _drop(link)
            raise Unavailable("The database does not answer; try again in a moment.") from error
        return link

    async def _drop_all(self, cut: "_Link") -> None:
        """Drop a connection that was cut, and all that nobody uses now: what cut the one has hardly left the others."""
        dropped, self._free = [cut, *self._free], []
        for link in dropped:
            await _drop(link)


class _Link(NamedTuple):
    """A connection, and asyncpg's own that is within: SQLAlchemy gives that one away no more once it was cut."""

    connection: AsyncConnection
    raw: Any


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


async def _rolled_back(link: _Link) -> bool:
    """End a transaction that failed, and tell whether its connection is good for another."""
    if link.raw.is_closed():
        return False
    try:
        await link.raw.execute("ROLLBACK", timeout=CONNECT_TIMEOUT)
    except Exception:  # noqa: BLE001 - cut, or it does not answer
        return False
    return True


async def _drop(link: _Link) -> None:
    """Close a connection that may be broken, without a word to the server."""
    link.raw.terminate()
    await link.connection.invalidate()
    await link.connection.close()


def _state_of(error: BaseException) -> str | None:
    """Return the SQL state of a failed statement; what our own code made of it is a decision, not a failure."""
    state = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    return state if isinstance(state, str) else None
