"""A Postgres database."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from agent_core.errors import Unavailable

# asyncpg reads these or passes them on; it takes all others for settings of the server, which then refuses the
# connection. psycopg uses libpq, which knows them all, `channel_binding` for example.
_KNOWN = frozenset((
    *("host", "port", "dbname", "user", "password", "passfile", "service", "target_session_attrs"),
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname"),
    *("application_name", "options"),
))  # fmt: skip


def for_asyncpg(url: str) -> str:
    """Return *url* (`postgres://…`, `postgresql://…`) as `asyncpg.connect` takes it, without libpq's own options."""
    parts = urlsplit(url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name in _KNOWN])
    return f"postgresql://{parts.netloc}{parts.path}{'?' if query else ''}{query}"


T = TypeVar("T")
POOL = 10
"""Connections of a process for its transactions; the listener and the heartbeat have one more each."""
CONNECT_TIMEOUT = 5.0
"""Seconds that a transaction waits for a place in the pool, and then for a first answer on its connection."""
STATEMENT_TIMEOUT = 30.0
LOCK_TIMEOUT = 5.0
"""Seconds that a transaction waits for a lock: far longer than any of ours lasts."""
IDLE_TIMEOUT = 5.0
"""Seconds for which a writing transaction may be idle between two statements before the database ends it.

Otherwise a process that is suspended, or cut off, would keep its locks, and its runs could not be taken over. For
Postgres a process that was suspended while it sent a statement is not idle: from version 17 on it also ends a
transaction that takes twice as long in all.
"""
_HAS_WHOLE = (17,)
_LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Conflicts with another transaction, after which it is retried. The names are those of the SQL standard's states.
_SERIALIZATION, _DEADLOCK, _UNIQUE = "40001", "40P01", "23505"
_AGAIN = frozenset({_SERIALIZATION, _DEADLOCK, _UNIQUE})
_TRIES = 4
# A lock timeout, or a statement cancelled by a timeout or an operator.
_TOO_LONG = frozenset({"55P03", "57014"})
_CALM = 1.0
_VACUUM = 600.0
"""Seconds that a vacuum of what a deleted person left may take."""
"""Seconds without new connections after one that timed out: the next would time out too."""


class PostgresDatabase:
    """A Postgres database that other processes use too; at most *pool* transactions at once, the rest wait.

    A transaction that conflicts with another is retried, so its work may be called more than once. A transaction that
    writes to a session locks its row first: what is read after that holds until the commit. Raises `Unavailable` when
    the database cannot be reached, times out or the connection is lost; whether a transaction whose `COMMIT` was lost
    was committed, the log shows. No commit waits for the answer to another.
    """

    def __init__(
        self,
        url: str,
        *,
        pool: int = POOL,
        connect_timeout: float = CONNECT_TIMEOUT,
        lock_timeout: float = LOCK_TIMEOUT,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self._engine = engine_of(url, connect_timeout)
        # For this transaction alone, in the same message: between two, a pooler may give the connection to others.
        self._limits = _set(lock_timeout=lock_timeout, idle_in_transaction_session_timeout=idle_timeout)
        self._whole = _set(transaction_timeout=2 * idle_timeout)
        self._places, self._timeout = asyncio.Semaphore(pool), connect_timeout
        self._free: list[_Link] = []
        self._begun: set[asyncio.Task[Any]] = set()
        self._waiting, self._silent_until = 0, 0.0
        self._closed = False

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        return await self._in_place(partial(self._write, work, committed))

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._in_place(partial(self._within, work, writes=False))

    async def peek(self, work: Callable[[Connection], T]) -> T:
        return await self.read(work)

    @property
    def in_use(self) -> int:
        """Return how many transactions have a connection."""
        return len(self._begun)

    @property
    def waiting(self) -> int:
        """Return how many transactions wait for a connection."""
        return self._waiting

    async def scrub(self, tables: Sequence[str]) -> None:
        """Vacuum *tables*: nothing of what was deleted can be read from them; Postgres's own log is not changed."""
        names = ", ".join(f'"{name}"' for name in tables)
        link = await self._connect()
        try:
            await link.raw.execute(f"VACUUM {names}", timeout=_VACUUM)
        except Exception as error:
            raise Unavailable("The database could not be vacuumed; delete again in a moment.") from error
        finally:
            await link.connection.close()

    async def close(self) -> None:
        """Finish the transactions that have begun, then close every connection."""
        self._closed = True
        if self._begun:
            await asyncio.wait(self._begun)
        while self._free:
            await self._free.pop().connection.close()
        await self._engine.dispose()

    async def _in_place(self, transaction: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run *transaction* once there is a place for it in the pool.

        A transaction that has begun is finished, and its connection returned, even if the caller is cancelled.
        """
        await self._take_place()
        task = asyncio.create_task(transaction())
        self._begun.add(task)
        task.add_done_callback(self._leave_place)
        return await asyncio.shield(task)

    async def _take_place(self) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await self._places.acquire()
        except TimeoutError:
            raise Unavailable("The database is too busy; try again in a moment.") from None
        finally:
            self._waiting -= 1
        if self._closed:
            self._places.release()
            raise RuntimeError("The database is closed.")

    def _leave_place(self, task: asyncio.Task[Any]) -> None:
        self._begun.discard(task)
        self._places.release()
        if not task.cancelled():
            task.exception()  # mark the error as retrieved: the caller may be gone

    async def _write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None) -> T:
        for left in reversed(range(_TRIES)):
            try:
                result = await self._within(work, writes=True)
            except Exception as error:
                if not left or _state_of(error) not in _AGAIN:
                    raise
            else:
                if committed is not None:
                    committed(result)
                return result
        raise AssertionError("The last try returns or raises.")

    async def _within(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        link = await self._begin(writes=writes)
        try:
            result = await link.connection.run_sync(work)
            await link.raw.execute("COMMIT")
        except BaseException as error:
            if not await _rolled_back(link):
                await _drop(link)
                raise Unavailable("The database was lost on the way; try again in a moment.") from error
            self._free.append(link)
            if isinstance(error, TimeoutError) or _state_of(error) in _TOO_LONG:
                raise Unavailable("The database took too long; try again in a moment.") from error
            raise
        self._free.append(link)
        return result

    async def _begin(self, *, writes: bool) -> "_Link":
        """Return a connection in a transaction; connections that were lost while idle are replaced."""
        while self._free:
            link = self._free.pop()
            try:
                await self._open(link, writes=writes)
            except Exception as error:  # nothing was executed yet: retry on a new connection
                await self._drop_all(link)
                if isinstance(error, TimeoutError):
                    raise Unavailable("The database does not answer; try again in a moment.") from error
            else:
                return link
        link = await self._connect()
        try:
            await self._open(link, writes=writes)
        except Exception as error:
            await _drop(link)
            raise Unavailable("The database does not answer; try again in a moment.") from error
        return link

    async def _open(self, link: "_Link", *, writes: bool) -> None:
        begin = _LOOK
        if writes:
            has_whole = link.raw.get_server_version() >= _HAS_WHOLE
            begin = f"BEGIN{self._limits}{self._whole if has_whole else ''}"
        await link.raw.execute(begin, timeout=self._timeout)

    async def _connect(self) -> "_Link":
        loop = asyncio.get_running_loop()
        if loop.time() < self._silent_until:
            raise Unavailable("The database does not answer; try again in a moment.")
        try:
            return _Link(connection := await self._engine.connect(), _raw(connection))
        except Exception as error:
            if isinstance(error, TimeoutError):
                self._silent_until = loop.time() + _CALM
            raise Unavailable("The database cannot be reached; try again in a moment.") from error

    async def _drop_all(self, cut: "_Link") -> None:
        """Drop a lost connection and all idle ones: what cut the one has probably cut the others."""
        dropped, self._free = [cut, *self._free], []
        for link in dropped:
            await _drop(link)


class _Link(NamedTuple):
    """A connection and asyncpg's own inside it, which SQLAlchemy no longer returns once the connection is lost."""

    connection: AsyncConnection
    raw: Any


def engine_of(url: str, timeout: float = CONNECT_TIMEOUT) -> AsyncEngine:
    """Return an engine for the Postgres at *url* that connects within *timeout* seconds and pools nothing."""
    return create_async_engine(
        "postgresql+asyncpg://",  # asyncpg parses the address itself, more of it than SQLAlchemy passes on
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",  # transactions are begun and ended by hand
        hide_parameters=True,  # errors are logged, and parameters hold what people and models said
        connect_args={"dsn": for_asyncpg(url), "timeout": timeout, "command_timeout": STATEMENT_TIMEOUT},
    )


def _set(**limits: float) -> str:
    return "".join(f"; SET LOCAL {name} = {int(1000 * seconds)}" for name, seconds in limits.items())


def _raw(connection: AsyncConnection) -> Any:
    """Return asyncpg's own connection."""
    held: Any = connection.sync_connection
    return held.connection.driver_connection


async def _rolled_back(link: _Link) -> bool:
    """Roll back a transaction that failed, and return whether its connection can be used again."""
    if link.raw.is_closed():
        return False
    try:
        await link.raw.execute("ROLLBACK", timeout=CONNECT_TIMEOUT)
    except Exception:  # noqa: BLE001 - cut, or it does not answer
        return False
    return True


async def _drop(link: _Link) -> None:
    """Close a connection that may be broken, sending nothing to the server."""
    link.raw.terminate()
    await link.connection.invalidate()
    await link.connection.close()


def _state_of(error: BaseException) -> str | None:
    """Return the SQL state of a failed statement; errors of our own that wrap one have none."""
    state = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    return state if isinstance(state, str) else None
