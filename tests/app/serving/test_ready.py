"""`/readyz`: whether a process can do its work now, and why not."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy import text

from agent_core.core import Core
from agent_core.errors import Unavailable
from agent_core.store.postgres import PostgresDatabase
from app.compose import create_watch
from app.serving.readers import Look, Readers, Ready, Starting, look_at
from app.storage import connected, newest
from tests.polling import PATIENCE, until
from tests.postgres import PATIENT, PostgresServer, postgres_server

ALIVE = text(
    "INSERT INTO worker (id, host, pid, kind, protocol, room, running, started_at, beat_at) "
    "SELECT 'wrk_me', 'here', 1, 'both', 1, 1, 0, 0, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
)


@pytest.fixture
async def look(new_postgres_url: str) -> AsyncIterator[Look]:
    """The check of a process that has just sent a heartbeat."""
    with connected(new_postgres_url) as connection:
        connection.execute(ALIVE)
    database = PostgresDatabase(new_postgres_url, **PATIENT)
    yield look_at(database, "wrk_me")
    await database.close()


async def change(url: str, statement: str) -> None:
    def run() -> None:
        with connected(url) as connection:
            connection.execute(text(statement))

    await asyncio.to_thread(run)


async def test_a_process_that_lives_on_its_own_revision_is_ready(look: Look, new_postgres_url: str):
    """Its heartbeats are in the database, whose revision is its own or newer."""
    assert await look() is None
    await change(new_postgres_url, "UPDATE alembic_version SET version_num = '9999'")
    assert await look() is None


async def test_an_older_database_is_not_enough(look: Look, new_postgres_url: str):
    """At an older revision a process is not ready, and the reason names the command to run."""
    await change(new_postgres_url, "UPDATE alembic_version SET version_num = '0001'")
    assert await look() == f"The database is at revision 0001, not {newest()}; run `parley migrate`."
    await change(new_postgres_url, "DROP TABLE alembic_version")
    assert "revision none" in (await look() or "")


async def test_a_process_whose_heartbeats_do_not_arrive_is_not_ready(look: Look, new_postgres_url: str):
    """With late or missing heartbeats it is not ready: the others take over its runs."""
    await change(new_postgres_url, "UPDATE worker SET beat_at = beat_at - 60000")
    assert re.search(r"arrived \d\d+ seconds ago", await look() or "")
    await change(new_postgres_url, "DELETE FROM worker")
    assert "heartbeats do not arrive" in (await look() or "")


@pytest.mark.whole
async def test_without_its_database_a_process_is_not_ready(core: Core):
    """While the database is away the answer says so, and once it is back the process is ready again."""
    with postgres_server() as server, server.database() as url:
        with connected(url) as connection:
            connection.execute(ALIVE)
        database = PostgresDatabase(url, **PATIENT)
        ready = Ready(core, Readers(), look_at(database, "wrk_me"))
        assert await ready.fault() is None
        await away(server, ready)
        await change(url, "UPDATE worker SET beat_at = beat_at + 60000")
        assert await ready.fault() is None
        await database.close()


async def away(server: PostgresServer, ready: Ready) -> None:
    await asyncio.to_thread(server.stop, "immediate")
    try:
        assert "database" in (await ready.fault() or "")
    finally:
        await asyncio.to_thread(server.start)


async def test_a_worker_is_watched_from_its_start_to_its_end(core: Core):
    """Where nothing else is served `/healthz` and `/readyz` answer: not yet, ready, without a database, stopping."""
    readers, faults = Readers(), list[str | None]()

    async def look() -> str | None:
        if faults:
            raise Unavailable("The database cannot be reached.")
        return None

    app = create_watch(Starting())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:

        async def readiness() -> tuple[int, str]:
            found = await client.get("/readyz")
            return found.status_code, found.json().get("detail", "ok")

        assert await readiness() == (503, "The process is starting.")
        app.state.ready = Ready(core, readers, look)
        assert await readiness() == (200, "ok")
        faults.append("away")
        assert await readiness() == (503, "The database cannot be reached.")
        readers.close()
        assert await readiness() == (503, "The server is stopping.")
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/v1/agents")).status_code == 401


async def test_a_core_whose_engine_has_stopped_is_not_ready(core: Core):
    """When the work on the runs has ended the server says so until it is started again."""
    ready = Ready(core, Readers())
    assert await ready.fault() is None
    await core.stop()
    assert "The engine has stopped" in (await ready.fault() or "")


async def test_agents_are_looked_at_by_one_request_at_a_time(core: Core, monkeypatch: pytest.MonkeyPatch):
    """However many ask, the agents are looked at once; the others get the last answer."""
    hold, looks = asyncio.Event(), list[str]()

    async def unavailable() -> list[tuple[str, str]]:
        looks.append("began")
        await hold.wait()
        return [("far", "no key")]

    monkeypatch.setattr(core.agents, "unavailable", unavailable)
    ready = Ready(core, Readers())
    first = asyncio.create_task(ready.warning())
    await until(lambda: bool(looks))
    async with asyncio.timeout(PATIENCE):
        assert await asyncio.gather(*(ready.warning() for _ in range(20))) == [None] * 20
    hold.set()
    assert await first
    assert await ready.warning() == await first
    assert looks == ["began"]


@pytest.mark.parametrize("error", [Unavailable("The database is too busy."), TimeoutError()])
async def test_a_look_that_failed_is_not_repeated_at_once(
    core: Core, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    """While the database is slow the agents are not looked at with every request."""
    looks = list[str]()

    async def unavailable() -> list[tuple[str, str]]:
        looks.append("began")
        raise error

    monkeypatch.setattr(core.agents, "unavailable", unavailable)
    ready = Ready(core, Readers())
    assert [await ready.warning() for _ in range(3)] == [None] * 3
    assert looks == ["began"]
