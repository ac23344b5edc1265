"""A database: what the store needs of one, statements that are compiled once, and SQLite's."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, runtime_checkable

from sqlalchemy import ColumnElement, Connection, Engine, Select, create_engine, event, literal_column
from sqlalchemy.engine import Row, result_tuple
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.pool import NullPool
from sqlalchemy.sql import ClauseElement

from agent_core.errors import NotFound, Unavailable
from agent_core.objects import Page

T = TypeVar("T")


def required(rows: Any, kind: str, name: str) -> Any:
    """Return the first of *rows*; raises `NotFound` when there is none, for the *kind* of thing called *name*."""
    row = rows.first()
    if row is None:
        raise NotFound(kind, name)
    return row


def page_of(
    connection: Connection,
    query: Select[*tuple[Any, ...]],
    key: ColumnElement[int],
    make: Callable[[Any], T],
    *,
    limit: int,
    after: int | None,
    is_newest_first: bool = False,
) -> Page[T]:
    """Return up to *limit* of the rows of *query*, as *make* returns each, by their *key*, from beyond *after* on."""
    query = query.order_by(key.desc() if is_newest_first else key).limit(limit + 1)
    if after is not None:
        query = query.where(key < after if is_newest_first else key > after)
    rows = connection.execute(query).all()
    return Page(tuple(map(make, rows[:limit])), str(rows[limit - 1].key) if len(rows) > limit else None)


class Database(Protocol):
    """Run transactions."""

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        """Run *work* in one transaction and return its result once it is committed.

        *committed* is called with the result on the event loop, before any awaiting task continues, and also when that
        task was cancelled meanwhile: what is published there is published once per commit. On SQLite, with one writer,
        the calls come in the order of the commits; elsewhere one may overtake another, which readers repair by seq.
        An exception of *work* rolls the transaction back and is raised.
        """
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run *work*, which only reads, on a consistent view of what was committed before the call."""
        ...

    async def peek(self, work: Callable[[Connection], T]) -> T:
        """Like `read`, for *work* that reads a few rows by key; on the event loop's thread where that is faster."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Pooled(Protocol):
    """A database that counts its running transactions and those that wait for a connection."""

    @property
    def in_use(self) -> int: ...
    @property
    def waiting(self) -> int: ...


@runtime_checkable
class Scrubbing(Protocol):
    """A database that can remove what was deleted from its files."""

    async def scrub(self, tables: Sequence[str]) -> None:
        """Leave nothing in the files of what was deleted or changed in *tables*; writers wait meanwhile."""
        ...


def literal(value: str | int) -> ColumnElement[Any]:
    """Return *value*, a constant, as an SQL literal: a partial index serves only conditions without binds."""
    if isinstance(value, int):
        return literal_column(str(value))
    assert value.replace("_", "").isalpha()
    return literal_column(f"'{value}'")


def literals(*values: str | int) -> list[ColumnElement[Any]]:
    """Return each of *values* as an SQL literal."""
    return [literal(value) for value in values]


class Rows(list[Row[Any]]):
    """The rows that a statement returned, as named tuples, with the accessors of SQLAlchemy's results."""

    def all(self) -> "Rows":
        return self

    def first(self) -> Row[Any] | None:
        """Return the first row, or None."""
        return self[0] if self else None

    def one(self) -> Row[Any]:
        """Return the only row."""
        (row,) = self
        return row

    def scalar(self) -> Any:
        """Return the first row's first field, or None."""
        return self[0][0] if self else None

    def scalar_one(self) -> Any:
        """Return the only row's first field."""
        return self.one()[0]


class Statement:
    """A Core statement that is compiled at its first use per driver and run without SQLAlchemy's result machinery.

    Values are bound by name (`bindparam`); values that the statement itself holds are added. Neither values nor
    rows are converted: columns hold what the driver gives. *postgresql* is its form for that database, if it differs.
    """

    def __init__(self, statement: ClauseElement, *, postgresql: ClauseElement | None = None) -> None:
        self._statement, self._postgresql = statement, postgresql
        self._compiled: dict[str, tuple[str, tuple[str, ...] | None, dict[str, Any]]] = {}
        self._row: Callable[[Any], Row[Any]] | None = None

    def run(self, connection: Connection, **values: Any) -> Rows:
        """Run once with *values* by name."""
        sql, order, fixed = self._sql(connection)
        bound = {**fixed, **values} if fixed else values
        parameters: Any = tuple([bound[name] for name in order]) if order is not None else bound
        cursor = _cursor(connection, sql, parameters, many=False)
        cursor.execute(sql, parameters)
        if not cursor.description:
            return Rows()
        if self._row is None:
            self._row = result_tuple([column[0] for column in cursor.description])
        return Rows(map(self._row, cursor.fetchall()))

    def run_many(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        """Run once per row; *rows* may not be empty."""
        sql, order, fixed = self._sql(connection)
        bound = [{**fixed, **row} for row in rows] if fixed else rows
        parameters: Any = [tuple([row[name] for name in order]) for row in bound] if order is not None else bound
        _cursor(connection, sql, parameters, many=True).executemany(sql, parameters)

    def _sql(self, connection: Connection) -> tuple[str, tuple[str, ...] | None, dict[str, Any]]:
        """Return the SQL, the order of its values (None when they go by name), and the values that it holds itself."""
        dialect = connection.dialect
        if dialect.driver not in self._compiled:
            own = self._postgresql if dialect.name == "postgresql" else None
            compiled: Any = (self._statement if own is None else own).compile(dialect=dialect)
            order = tuple(compiled.positiontup) if compiled.positional else None
            fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
            self._compiled[dialect.driver] = (str(compiled), order, fixed)
        return self._compiled[dialect.driver]


def execute_raw(connection: Connection, sql: str) -> None:
    """Run *sql*, which takes and returns nothing, without what SQLAlchemy adds: more than a `BEGIN` takes."""
    _cursor(connection, sql, (), many=False).execute(sql)


def _cursor(connection: Connection, sql: str, parameters: Any, *, many: bool) -> DBAPICursor:
    """Return a cursor for *sql*, after notifying the listeners to this connection's statements."""
    cursor = connection.connection.cursor()
    for notify in connection.dispatch.before_cursor_execute:
        notify(connection, cursor, sql, parameters, None, many)
    return cursor


_BATCH = 64
_READERS = 2
_TRIES = 5
"""Attempts at emptying the log, each as long as a lock is waited for."""


@dataclass(slots=True)
class _Job:
    work: Callable[[Connection], Any]
    committed: Callable[[Any], None] | None
    future: "asyncio.Future[Any]"
    is_outside: bool = False
    result: Any = None
    error: BaseException | None = None
    context: Context = field(default_factory=copy_context)
    """The caller's: a task that *committed* starts logs with the caller's variables."""


class SqliteDatabase:
    """One SQLite file in WAL mode, owned by this process."""

    def __init__(self, path: Path) -> None:
        self._engine = _engine(path)
        self._writes: SimpleQueue[_Job | None] = SimpleQueue()
        self._reads: SimpleQueue[_Job | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._threads = [threading.Thread(target=self._write_forever, name="parley-write", daemon=True)]
        self._threads += [
            threading.Thread(target=self._read_forever, name=f"parley-read-{n}", daemon=True) for n in range(_READERS)
        ]
        for thread in self._threads:
            thread.start()
        self._closed = False
        self._near: Connection | None = None

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        if self._closed:
            raise RuntimeError("The database is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._writes.put(_Job(work, committed, future))
        return await future

    async def read(self, work: Callable[[Connection], T]) -> T:
        if self._closed:
            raise RuntimeError("The database is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._reads.put(_Job(work, None, future))
        return await future

    async def peek(self, work: Callable[[Connection], T]) -> T:
        """Read on the event loop itself: about 50 microseconds, a fifth of a round trip to a reader's thread."""
        if self._closed:
            raise RuntimeError("The database is closed.")
        self._near = self._near or self._engine.connect()
        return _within(self._near, work)

    async def scrub(self, tables: Sequence[str]) -> None:  # noqa: ARG002 - the whole file is rewritten
        """Rewrite the file without free pages and empty the log beside it, on the writer's thread."""
        if self._closed:
            raise RuntimeError("The database is closed.")
        future: asyncio.Future[None] = self._loop.create_future()
        self._writes.put(_Job(_scrub, None, future, is_outside=True))
        await future

    async def close(self) -> None:
        """Finish what is queued, then close every connection."""
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        for _ in range(_READERS):
            self._reads.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        if self._near is not None:
            self._near.close()
        self._engine.dispose()

    def _read_forever(self) -> None:
        with self._engine.connect() as connection:
            while (job := self._reads.get()) is not None:
                _look(connection, job)
                self._loop.call_soon_threadsafe(_deliver, [job])

    def _write_forever(self) -> None:
        with self._engine.connect() as connection:
            while True:
                batch = [self._writes.get()]
                while len(batch) < _BATCH and not self._writes.empty():
                    batch.append(self._writes.get())
                jobs = [job for job in batch if job is not None]
                if inside := [job for job in jobs if not job.is_outside]:
                    _commit(connection, inside)
                for job in jobs:
                    if job.is_outside:
                        _run(connection, job, alone=True)
                if jobs:
                    self._loop.call_soon_threadsafe(_deliver, jobs)
                if None in batch:
                    return


def _look(connection: Connection, job: _Job) -> None:
    try:
        job.result = _within(connection, job.work)
    except BaseException as error:  # noqa: BLE001 - handed to the task that asked
        job.error = error


def _within(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Run *work* in a transaction and roll it back."""
    execute_raw(connection, "BEGIN")
    try:
        return work(connection)
    finally:
        execute_raw(connection, "ROLLBACK")


def _commit(connection: Connection, jobs: list[_Job]) -> None:
    """Run *jobs* in one transaction, each under its own savepoint when there are several."""
    try:
        execute_raw(connection, "BEGIN IMMEDIATE")
        for job in jobs:
            _run(connection, job, alone=len(jobs) == 1)
        execute_raw(connection, "ROLLBACK" if len(jobs) == 1 and jobs[0].error else "COMMIT")
    except BaseException as error:  # noqa: BLE001 - raised in the waiting tasks, whatever it is
        if connection.connection.dbapi_connection.in_transaction:  # type: ignore[union-attr]
            execute_raw(connection, "ROLLBACK")
        for job in jobs:
            job.error = job.error or error


def _run(connection: Connection, job: _Job, *, alone: bool) -> None:
    if not alone:
        execute_raw(connection, "SAVEPOINT job")
    try:
        job.result = job.work(connection)
    except BaseException as error:  # noqa: BLE001 - handed to the task that asked
        job.error = error
        if not alone:
            execute_raw(connection, "ROLLBACK TO job")
    if not alone:
        execute_raw(connection, "RELEASE job")


def _scrub(connection: Connection) -> None:
    """Rewrite the file, and empty the write-ahead log; a reader in a long transaction delays the latter."""
    execute_raw(connection, "VACUUM")
    for _ in range(_TRIES):
        busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        if not busy:
            return
    raise Unavailable("The database is too busy to empty its write-ahead log; delete again in a moment.")


def _deliver(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.error is None and job.committed is not None:
            try:
                job.context.run(job.committed, job.result)
            except Exception as error:  # noqa: BLE001 - raised in the task that asked; the others get their results
                job.error = error
        if job.future.cancelled():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _engine(path: Path) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=NullPool,
        hide_parameters=True,  # errors are logged, and parameters hold what people and models said
        isolation_level="AUTOCOMMIT",  # transactions are begun and ended by hand, see above
        connect_args={"check_same_thread": False, "timeout": 10.0},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            "cache_size=-16000",
            "secure_delete=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine
