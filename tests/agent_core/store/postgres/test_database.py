"""The Postgres database: transactions that get in each other's way, connections that are cut, a server that is away."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from sqlalchemy import Connection, select, text, update
from sqlalchemy.util import await_only

from agent_core.errors import Unavailable
from agent_core.store import catalog
from agent_core.store.catalog import PROJECT
from agent_core.store.postgres import PostgresDatabase
from tests.agent_core.scenes import SAFETY
from tests.agent_core.store.beside import held, opened, waits
from tests.polling import until
from tests.postgres import PostgresServer, postgres_server


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """A database with the project in it."""
    async with opened(postgres_url) as database:
        await database.write(catalog.ensure_project)
        yield database


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    async with opened(postgres_url) as database:
        yield database


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop: the run's server is there for all."""
    with postgres_server() as server:
        yield server


def rename(name: str):
    """Return work that calls the project *name*, and returns what it was called before."""

    def work(connection: Connection) -> str:
        before = connection.execute(select(PROJECT.c.name).with_for_update()).scalar_one()
        connection.execute(update(PROJECT).values(name=name))
        return before

    return work


def name_of(connection: Connection) -> str:
    return connection.execute(select(PROJECT.c.name)).scalar_one()


def cut(url: str) -> int:
    """Cut every connection to the database at *url*, as a failing network or an operator does, and count them."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    with psycopg.connect(url, autocommit=True) as connection:
        return len(connection.execute(f"{query} AND pid <> pg_backend_pid()").fetchall())


async def test_an_exception_undoes_its_transaction(database: PostgresDatabase):
    """What a failing transaction wrote is gone, its error is raised as it is, and its connection is good for more."""

    def fail(connection: Connection) -> None:
        rename("wrong")(connection)
        raise ValueError("no")

    for _ in range(20):
        with pytest.raises(ValueError, match="no"):
            await database.write(fail)
    assert await database.read(name_of) == "default"


async def test_a_read_is_one_consistent_view(database: PostgresDatabase, other: PostgresDatabase):
    """Two statements of a read see the same, although another transaction commits between them."""
    between = asyncio.Event()

    def look(connection: Connection) -> tuple[str, str]:
        first = name_of(connection)
        between.set()
        await_only(other.write(rename("changed")))
        return first, name_of(connection)

    assert await database.read(look) == ("default", "default")
    assert between.is_set()
    assert await database.read(name_of) == "changed"


async def test_a_read_cannot_write(database: PostgresDatabase):
    """Work that was given to be read only is refused when it writes."""
    with pytest.raises(Exception, match="read-only transaction"):
        await database.read(rename("sly"))
    assert await database.read(name_of) == "default"


async def test_transactions_that_wait_for_each_other_both_come_through(
    database: PostgresDatabase, other: PostgresDatabase
):
    """Of two transactions that lock two rows crosswise one is rolled back and retried; both are committed."""
    await database.write(lambda connection: connection.execute(PROJECT.insert().values(key=2, name="second")).rowcount)
    both, tries = asyncio.Barrier(2), 0

    def cross(first: int, second: int):
        def work(connection: Connection) -> None:
            nonlocal tries
            tries += 1
            for key in (first, second):
                connection.execute(update(PROJECT).where(PROJECT.c.key == key).values(name=f"{first} was here: {key}"))
                if key == first and tries <= 2:
                    await_only(both.wait())

        return work

    async with asyncio.timeout(SAFETY):
        await asyncio.gather(database.write(cross(1, 2)), other.write(cross(2, 1)))
    assert tries >= 3  # the one that tries again may be the one to be rolled back once more
    names = await database.read(lambda connection: connection.execute(select(PROJECT.c.name)).scalars().all())
    assert len({name.partition(" ")[0] for name in names}) == 1, "the last transaction wrote both"


async def test_connections_that_were_cut_are_replaced(database: PostgresDatabase, postgres_url: str):
    """After every idle connection was cut, the next transactions get new ones, without an error."""
    await asyncio.gather(*(database.read(lambda connection: connection.execute(text("SELECT pg_sleep(0.05)")).all())
                           for _ in range(5)))  # fmt: skip
    assert await asyncio.to_thread(cut, postgres_url) >= 5
    assert await asyncio.gather(*(database.read(name_of) for _ in range(5))) == ["default"] * 5
    assert await database.write(rename("after")) == "default"


async def test_a_transaction_whose_connection_is_cut_is_unavailable(database: PostgresDatabase, postgres_url: str):
    """A transaction that loses the database fails and writes nothing; the next one reconnects."""

    def lose(connection: Connection) -> None:
        rename("lost")(connection)
        await_only(asyncio.to_thread(cut, postgres_url))
        name_of(connection)

    with pytest.raises(Unavailable):
        await database.write(lose)
    with pytest.raises(Unavailable):
        await database.write(lambda connection: (rename("lost")(connection), cut(postgres_url)))
    assert await database.read(name_of) == "default"


@pytest.mark.whole
@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_a_server_that_is_away_is_unavailable_until_it_is_back(own_server: PostgresServer, how: str):
    """While there is no server reads and writes fail clearly; when it is back they work, on the same object."""
    async with opened(own_server.create()) as database:
        await database.write(catalog.ensure_project)
        assert await database.write(rename("kept")) == "default"
        with own_server.away("immediate" if how == "immediate" else "fast"):
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await database.read(name_of)
                with pytest.raises(Unavailable):
                    await database.write(rename("unknown"))
        assert await database.read(name_of) == "kept"
        assert await database.write(rename("back")) == "kept"


async def test_a_cancelled_caller_leaves_a_whole_transaction(database: PostgresDatabase, other: PostgresDatabase):
    """Cancelling the caller of a transaction that waits for a lock breaks nothing: it commits, and calls `then`."""
    written: list[str] = []
    async with held(other, rename("first")):
        caller = asyncio.create_task(database.write(rename("second"), written.append))
        await waits(other)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert written == []
    await until(lambda: bool(written))  # its caller was cancelled
    assert written == ["first"]
    assert await database.read(name_of) == "second"
    assert await database.write(rename("third")) == "second"


async def test_no_more_connections_are_opened_than_the_pool_has(postgres_url: str):
    """A hundred transactions at once come through on as many connections as they may have."""
    database = PostgresDatabase(postgres_url, pool=3, connect_timeout=SAFETY)
    mine = text("SELECT pg_backend_pid()")
    seen = await asyncio.gather(
        *(database.read(lambda connection: connection.execute(mine).scalar_one()) for _ in range(100))
    )
    assert len(set(seen)) == 3
    await database.close()


async def test_an_idle_transaction_keeps_no_lock(database: PostgresDatabase, postgres_url: str):
    """An idle transaction is ended by the database and rolled back; the one that waited for its lock continues."""
    async with opened(postgres_url, idle_timeout=1.5) as stopped:
        with pytest.raises(Unavailable):
            async with held(stopped, rename("first")):
                assert await database.write(rename("second")) == "default"
        assert await stopped.read(name_of) == "second"


async def test_a_cancelled_statement_keeps_no_lock(database: PostgresDatabase, postgres_url: str):
    """A transaction that takes too long in all is ended too: its process was stopped while it sent a statement."""
    long = text("SELECT pg_sleep(60)")
    async with opened(postgres_url, idle_timeout=0.2) as stopped:
        with pytest.raises(Unavailable):
            await stopped.write(lambda connection: (rename("first")(connection), connection.execute(long)))
        assert await database.write(rename("second")) == "default"


async def test_closing_finishes_what_was_begun(database: PostgresDatabase, other: PostgresDatabase):
    """What was asked before the end is done at the end, and nothing is taken after it."""
    async with held(other, rename("first")):
        last = asyncio.create_task(database.write(rename("last")))
        await waits(other)
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="closed"):
            await database.write(rename("late"))
        with pytest.raises(RuntimeError, match="closed"):
            await database.read(name_of)
        assert not closing.done()
    await closing
    assert await last == "first"
    assert await other.read(name_of) == "last"
