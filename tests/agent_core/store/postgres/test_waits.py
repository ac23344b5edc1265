"""The Postgres database: transactions do not wait for the answer to another, and none waits for long."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import Connection, text

from agent_core.errors import Unavailable
from agent_core.events import Fact
from agent_core.store.postgres import PostgresDatabase
from agent_core.testing import ScriptedProvider, say
from tests.agent_core.scenes import SAFETY, log_of, open_session, say_and_wait
from tests.agent_core.store.beside import held, opened, waits
from tests.agent_core.store.reading.reader import joined
from tests.conftest import MakeCore
from tests.polling import until

STALLING = (
    "CREATE TABLE slow (n int)",
    """
    CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'
    """,
    """
    CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION stall()
    """,
)
"""A table whose rows are committed only while the advisory lock 1 is free: until then COMMIT gets no answer."""


def execute(*statements: str):
    """Return work that executes *statements* and returns the first value of the last, if it has any."""

    def work(connection: Connection) -> object:
        for statement in statements:
            result = connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None

    return work


ONE = execute("SELECT 1")


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[str, list[asyncio.StreamWriter]]]:
    """Give the URL of a server that takes connections and says nothing, and what it took."""
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: taken.append(writer), "127.0.0.1", 0)
    try:
        yield f"postgresql://ann@127.0.0.1:{server.sockets[0].getsockname()[1]}/unknown?sslmode=disable", taken
    finally:
        server.close()
        for writer in taken:
            writer.close()


async def test_a_commit_without_an_answer_holds_up_no_other(new_postgres_url: str):
    """While one commit waits for its answer, all others are written, notified and read."""
    written: list[object] = []
    async with opened(new_postgres_url) as database, opened(new_postgres_url) as other:
        await database.write(execute(*STALLING))
        async with held(other, execute("SELECT pg_advisory_xact_lock(1)")):
            stalled = asyncio.create_task(
                database.write(execute("INSERT INTO slow VALUES (0) RETURNING n"), written.append)
            )
            await waits(other)
            async with asyncio.timeout(SAFETY):
                await asyncio.gather(*(database.write(execute(f"SELECT {n}"), written.append) for n in range(1, 31)))
                assert await database.read(ONE) == 1
            assert sorted(written) == list(range(1, 31))  # type: ignore[type-var]
            assert not stalled.done()
        assert await stalled == 0
        assert written[-1] == 0


async def test_news_of_commits_may_overtake_each_other(make_core: MakeCore):
    """A reader passes facts on in their order, each once, although it is notified of a commit before an earlier one."""
    core = await make_core(ScriptedProvider(lambda _: (say("Hi."),)))
    publish, commits = core._store.hub.publish, []

    def overtake(facts: Iterable[Fact]) -> None:
        commits.append(list(facts))
        if len(commits) == 2:
            publish(commits[1])
            publish(commits[0])
        elif len(commits) > 2:
            publish(commits[-1])

    session = await open_session(core)
    reading, task = await joined(core, session)
    core._store.hub.publish = overtake  # type: ignore[method-assign]
    for words in ("one", "two"):
        await say_and_wait(core, session, words)
    facts = await log_of(core, session)
    await until(lambda: [fact.seq for fact in reading.facts[-1:]] == [len(facts)])
    task.cancel()
    assert len(commits) > 2
    assert [(f.seq, f.type, f.raw) for f in reading.facts] == [(f.seq, f.type, f.raw) for f in facts]


async def test_waiting_for_a_connection_times_out(postgres_url: str):
    """A read that gets no connection in time fails, and the one that has it continues."""
    database = PostgresDatabase(postgres_url, pool=1, connect_timeout=SAFETY)
    async with held(database, ONE):
        database._timeout = 0.2
        answers = await asyncio.gather(*(database.read(ONE) for _ in range(5)), return_exceptions=True)
        database._timeout = SAFETY
        assert {type(answer) for answer in answers} == {Unavailable}
        assert (database.in_use, database.waiting) == (1, 0)
    assert await database.read(ONE) == 1
    await database.close()


async def test_a_cancelled_transaction_is_not_begun(postgres_url: str):
    """A caller that is cancelled while it waits for a connection leaves the queue."""
    begun: list[int] = []
    async with opened(postgres_url) as database:
        holding = [held(database, ONE) for _ in range(10)]
        for each in holding:
            await each.__aenter__()
        caller = asyncio.create_task(database.read(lambda _: begun.append(1)))
        await asyncio.sleep(0)
        assert database.waiting == 1
        caller.cancel()
        await asyncio.wait((caller,))
        assert (database.in_use, database.waiting) == (10, 0)
        for each in holding:
            await each.__aexit__(None, None, None)
    assert begun == []


async def test_a_server_that_says_nothing_is_asked_by_few(monkeypatch: pytest.MonkeyPatch):
    """However many want something of a server that hangs, they fail together, and few of them have tried it."""
    monkeypatch.setattr("agent_core.store.postgres._CALM", SAFETY)
    async with silent_server() as (url, taken):
        database = PostgresDatabase(url, pool=2, connect_timeout=0.3)
        answers = await asyncio.gather(*(database.read(ONE) for _ in range(20)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {Unavailable}
        with pytest.raises(Unavailable):
            await database.read(ONE)
        assert len(taken) == 2
        await database.close()


async def test_a_row_that_another_keeps_locked_is_unavailable(postgres_url: str):
    """A lock that is kept elsewhere fails the one transaction that wants it, and its connection stays usable."""
    lock = execute("SELECT key FROM project FOR UPDATE")
    database = PostgresDatabase(postgres_url, pool=1, lock_timeout=0.1)
    async with opened(postgres_url) as other:
        await other.write(execute("INSERT INTO project (key, name) VALUES (1, 'first')"))
        async with held(other, lock):
            with pytest.raises(Unavailable):
                await database.write(lock)
            assert await database.read(ONE) == 1
        assert await database.write(lock) == 1
    await database.close()


async def test_a_statement_that_takes_too_long_is_unavailable(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    """A statement that is not answered in time fails clearly, and its connection stays usable."""
    monkeypatch.setattr("agent_core.store.postgres.STATEMENT_TIMEOUT", 1.0)
    async with opened(postgres_url) as database:
        with pytest.raises(Unavailable):
            await database.read(execute("SELECT pg_sleep(60)"))
        assert await database.read(ONE) == 1


async def test_a_failure_without_a_caller_is_not_reported_as_unhandled(postgres_url: str):
    """The failure of a transaction whose caller was cancelled reaches no exception handler."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    lock = execute("SELECT pg_advisory_xact_lock(1)")
    async with opened(postgres_url) as database, opened(postgres_url) as other:
        async with held(other, lock):
            caller = asyncio.create_task(database.read(execute("SELECT pg_advisory_xact_lock(1)", "SELECT 1 / 0")))
            await waits(other)
            caller.cancel()
            await asyncio.wait((caller,))
            assert database.in_use == 1
        await database.read(ONE)
    gc.collect()
    assert complaints == []
