"""The database port and its SQLite form: a transaction is a plain function of a sync `Connection`.

On SQLite one writer thread runs whole transactions: those that wait share a commit, each under its savepoint, and
their results reach the event loop with one wake-up. Reads run beside it, on connections of their own.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

T = TypeVar("T")
_BATCH = 64
_READERS = 2


class Database(Protocol):
    """Run transactions."""

    async def write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        """Run *work* in one transaction and return its result once it is committed.

        *then* is called with the result on the event loop, in commit order, before any awaiting task goes on, and
        also when that task was cancelled meanwhile. An exception of *work* undoes the transaction and is raised.
        """
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run *work*, which only reads, on a consistent view of what was committed before the call."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Job:
    work: Callable[[Connection], Any]
    then: Callable[[Any], None] | None
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class SqliteDatabase:
    """One SQLite file in WAL mode, owned by this process."""

    def __init__(self, path: Path) -> None:
        self._engine = _engine(path)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="parley-read")
        self._writer = threading.Thread(target=self._write_forever, name="parley-write", daemon=True)
        self._writer.start()
        self._closed = False

    async def write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        if self._closed:
            raise RuntimeError("The database is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, then, future))
        return await future

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._loop.run_in_executor(self._readers, self._read, work)

    async def close(self) -> None:
        """Finish what is queued, then close every connection."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._writer.join)
        self._readers.shutdown(wait=True)
        for connection in self._connections:
            connection.close()
        self._engine.dispose()

    def _read(self, work: Callable[[Connection], T]) -> T:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._engine.connect()
            self._connections.append(connection)
        connection.exec_driver_sql("BEGIN")
        try:
            return work(connection)
        finally:
            connection.exec_driver_sql("ROLLBACK")

    def _write_forever(self) -> None:
        with self._engine.connect() as connection:
            while True:
                batch = [self._jobs.get()]
                while len(batch) < _BATCH and not self._jobs.empty():
                    batch.append(self._jobs.get())
                jobs = [job for job in batch if job is not None]
                if jobs:
                    _commit(connection, jobs)
                    self._loop.call_soon_threadsafe(_deliver, jobs)
                if None in batch:
                    return


def _commit(connection: Connection, jobs: list[_Job]) -> None:
    """Run *jobs* in one transaction, each under its own savepoint when there are several."""
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        for job in jobs:
            _run(connection, job, alone=len(jobs) == 1)
        connection.exec_driver_sql("ROLLBACK" if len(jobs) == 1 and jobs[0].error else "COMMIT")
    except BaseException as error:  # noqa: BLE001 - the waiting tasks must hear of it, whatever it is
        if connection.connection.dbapi_connection.in_transaction:  # type: ignore[union-attr]
            connection.exec_driver_sql("ROLLBACK")
        for job in jobs:
            job.error = job.error or error


def _run(connection: Connection, job: _Job, *, alone: bool) -> None:
    if not alone:
        connection.exec_driver_sql("SAVEPOINT job")
    try:
        job.result = job.work(connection)
    except BaseException as error:  # noqa: BLE001 - handed to the task that asked
        job.error = error
        if not alone:
            connection.exec_driver_sql("ROLLBACK TO job")
    if not alone:
        connection.exec_driver_sql("RELEASE job")


def _deliver(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.error is None and job.then is not None:
            try:
                job.then(job.result)
            except Exception as error:  # noqa: BLE001 - the task that asked hears of it; the others must be told of theirs
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
        hide_parameters=True,  # an error is logged, and parameters are what people and models said
        isolation_level="AUTOCOMMIT",  # transactions are begun and ended by hand, see above
        connect_args={"check_same_thread": False, "timeout": 10.0},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "cache_size=-16000"):
            connection.execute(f"PRAGMA {pragma}")

    return engine
