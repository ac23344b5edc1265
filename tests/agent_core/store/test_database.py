"""The SQLite database: whole transactions by one writer, shared commits, and callbacks in commit order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from agent_core.store.database import SqliteDatabase
from tests.agent_core.scenes import SAFETY


@pytest.fixture
async def database(database_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(database_path)
    yield database
    await database.close()


class WriterHold:
    """Holds the writer thread, so that whatever is asked meanwhile shares the next commit."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._entered, self._open = asyncio.Event(), threading.Event()
        self._loop = asyncio.get_running_loop()
        self._job = asyncio.create_task(database.write(self._hold))

    def _hold(self, _connection: Connection) -> None:
        self._loop.call_soon_threadsafe(self._entered.set)
        assert self._open.wait(SAFETY)

    async def closed(self) -> None:
        await self._entered.wait()

    async def open(self) -> None:
        self._open.set()
        await self._job


def insert(name: str) -> Callable[[Connection], str]:
    """Return a transaction that adds a row and returns its name."""

    def work(connection: Connection) -> str:
        connection.exec_driver_sql("INSERT INTO project (name) VALUES (?)", (name,))
        return name

    return work


def fail_after(name: str) -> Callable[[Connection], str]:
    def work(connection: Connection) -> str:
        insert(name)(connection)
        raise LookupError(name)

    return work


async def names(database: SqliteDatabase) -> list[str]:
    return await database.read(
        lambda connection: list(
            connection.exec_driver_sql("SELECT name FROM project WHERE name <> 'default' ORDER BY key").scalars()
        )
    )


def commits(database: SqliteDatabase) -> list[str]:
    """Return a list that grows with each statement that ends a transaction of the writer."""
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        if statement == "COMMIT" or statement.startswith("ROLLBACK TO"):
            seen.append(statement)

    event.listen(database._engine, "before_cursor_execute", note)
    return seen


async def test_waiting_transactions_share_a_commit(database: SqliteDatabase):
    """Transactions that wait while the writer is busy are committed together, in the order in which they came."""
    ended, gate = commits(database), WriterHold(database)
    await gate.closed()
    writes = [asyncio.create_task(database.write(insert(f"p{n}"))) for n in range(10)]
    await asyncio.sleep(0)
    await gate.open()
    assert await asyncio.gather(*writes) == [f"p{n}" for n in range(10)]
    assert ended == ["COMMIT", "COMMIT"]
    assert await names(database) == [f"p{n}" for n in range(10)]


async def test_a_failing_transaction_undoes_only_itself(database: SqliteDatabase):
    """In a shared commit an error rolls back its own transaction only, and reaches only its caller."""
    ended, gate = commits(database), WriterHold(database)
    await gate.closed()
    jobs = [insert("first"), fail_after("second"), insert("third"), insert("first"), insert("fourth")]
    calls: list[str] = []
    writes = [asyncio.create_task(database.write(job, calls.append)) for job in [*jobs[:3], jobs[4]]]
    twice = asyncio.create_task(database.write(jobs[3]))
    await asyncio.sleep(0)
    await gate.open()
    results = await asyncio.gather(*writes, return_exceptions=True)
    with pytest.raises(Exception, match="UNIQUE"):
        await twice
    assert [results[0], *results[2:]] == ["first", "third", "fourth"]
    assert isinstance(results[1], LookupError)
    assert calls == ["first", "third", "fourth"]
    assert await names(database) == ["first", "third", "fourth"]
    assert ended == ["COMMIT", "ROLLBACK TO job", "ROLLBACK TO job", "COMMIT"]


async def test_a_failing_transaction_alone_leaves_nothing(database: SqliteDatabase):
    """An error in a transaction of its own undoes it, and the next one is not affected."""
    with pytest.raises(LookupError, match="lonely"):
        await database.write(fail_after("lonely"))
    await database.write(insert("next"))
    assert await names(database) == ["next"]


async def test_callbacks_run_in_commit_order(database: SqliteDatabase):
    """`then` is called in commit order, before any waiting task resumes, even if its own task was cancelled."""
    gate, calls = WriterHold(database), list[str]()
    await gate.closed()

    async def write(name: str) -> None:
        await database.write(insert(name), lambda done: calls.append(f"then {done}"))
        calls.append(f"task {name}")

    tasks = [asyncio.create_task(write(name)) for name in ("a", "b", "c")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    with suppress(asyncio.CancelledError):
        await tasks[1]
    await gate.open()
    async with asyncio.timeout(SAFETY):
        await asyncio.gather(tasks[0], tasks[2])
    assert calls == ["then a", "then b", "then c", "task a", "task c"]
    assert await names(database) == ["a", "b", "c"]


async def test_a_callback_that_raises_delays_no_other(database: SqliteDatabase):
    """A `then` that raises fails its own caller; the other transactions of the commit are delivered."""
    gate = WriterHold(database)
    await gate.closed()

    def broken(_done: str) -> None:
        raise ArithmeticError("broken")

    writes = [
        asyncio.create_task(database.write(insert("a"), broken)),
        asyncio.create_task(database.write(insert("b"))),
    ]
    await asyncio.sleep(0)
    await gate.open()
    async with asyncio.timeout(SAFETY):
        results = await asyncio.gather(*writes, return_exceptions=True)
    assert isinstance(results[0], ArithmeticError)
    assert results[1] == "b"
    assert await names(database) == ["a", "b"]


async def test_a_read_sees_what_was_committed_before_it(database: SqliteDatabase):
    """A read sees one moment: everything committed before it began, and nothing that came while it ran."""
    await database.write(insert("before"))
    loop, between, done = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def look(connection: Connection) -> tuple[list[str], list[str]]:
        query = "SELECT name FROM project WHERE name <> 'default'"
        first = list(connection.exec_driver_sql(query).scalars())
        loop.call_soon_threadsafe(between.set)
        assert done.wait(SAFETY)
        return first, list(connection.exec_driver_sql(query).scalars())

    reading = asyncio.create_task(database.read(look))
    await between.wait()
    await database.write(insert("meanwhile"))
    done.set()
    assert await reading == (["before"], ["before"])
    assert await names(database) == ["before", "meanwhile"]


async def test_a_reader_cannot_write(database: SqliteDatabase):
    """Changes made in a read are rolled back: only the writer's transactions persist."""
    await database.read(insert("sneaked in"))
    assert await names(database) == []


async def test_closing_finishes_what_was_asked(database_path: Path, database: SqliteDatabase):
    """Closing waits for the transactions that were asked before it; a later one is refused."""
    closing = SqliteDatabase(database_path)
    write = asyncio.create_task(closing.write(insert("last")))
    await asyncio.sleep(0)
    await closing.close()
    assert await write == "last"
    with pytest.raises(RuntimeError, match="closed"):
        await closing.write(insert("late"))
    assert await names(database) == ["last"]
