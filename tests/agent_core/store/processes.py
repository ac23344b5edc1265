"""Cores on one Postgres with a bus each, as several processes have them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

from sqlalchemy import text

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.providers.base import Provider
from agent_core.store.postgres import PostgresDatabase
from agent_core.store.postgres_bus import PostgresBus
from agent_core.testing import ScriptedProvider
from agent_core.tools.base import Tool
from tests.polling import until_async
from tests.postgres import PATIENT

# Of this database: the server has those of the tests beside this one too.
_NAMED = "FROM pg_stat_activity WHERE application_name = :name AND datname = current_database()"


class OnLooker:
    """The engine of a process that serves and drives nothing, and its pool; it remembers what it was asked."""

    worker = "onlooker"

    def __init__(self, *_: Any) -> None:
        self.woken: asyncio.Queue[int] = asyncio.Queue()
        self.interrupted: asyncio.Queue[int] = asyncio.Queue()
        self.pool = self

    def has_capacity(self) -> bool:
        return False

    def hurry(self) -> None: ...

    def reserve(self) -> AbstractContextManager[bool]:
        return nullcontext(False)

    async def start(self) -> None: ...

    def begin(self, *_: Any) -> None:
        raise AssertionError("It owns no run.")

    async def wake(self, run: int) -> None:
        self.woken.put_nowait(run)

    def interrupt(self, run: int) -> bool:
        self.interrupted.put_nowait(run)
        return False

    async def work(self) -> None:
        await asyncio.Future()

    async def stop(self, grace: float) -> None: ...


class Processes:
    """Starts cores on the Postgres at *url*; what drives and what looks on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.cores: list[Core] = []

    async def driver(self, provider: Provider | None = None, *, tools: tuple[Tool, ...] = (), **options: Any) -> Core:
        """Start a process that drives what it is asked; the agent `assistant` is there."""
        database = PostgresDatabase(self._url, **PATIENT)
        provider = provider or ScriptedProvider([])
        core = Core(
            database,
            providers={provider.name: provider},
            tools={tool.spec.name: tool for tool in tools},
            default_model=provider.name,
            bus=PostgresBus(self._url, database),
            **options,
        )
        self.cores.append(core)
        await core.start()
        core._segments.pressure.stop()  # that the machine is busy with tests is no subject of theirs
        if not (await core.agents.list()).items:
            names = tuple(tool.spec.name for tool in tools)
            await core.agents.create(Definition(name="assistant", instructions="Be brief.", tools=names))
        return core

    async def onlooker(self) -> Core:
        """Start a process that only serves."""
        return await self.driver(engine=OnLooker)

    async def stop(self, core: Core) -> None:
        """Stop one of them before the others."""
        self.cores.remove(core)
        await core.stop(grace=1.0)


@asynccontextmanager
async def processes(url: str) -> AsyncIterator[Processes]:
    """Give what starts cores, and stop them at the end."""
    made = Processes(url)
    try:
        yield made
    finally:
        for core in list(made.cores):
            await made.stop(core)


def engine(core: Core) -> OnLooker:
    """Return what an onlooker was asked."""
    assert isinstance(core._engine, OnLooker)
    return core._engine


def bus(core: Core) -> PostgresBus:
    assert isinstance(core._bus, PostgresBus)
    return core._bus


async def rows(core: Core) -> int:
    """Count the live rows."""
    return await core._store.read(lambda connection: connection.execute(text("SELECT count(*) FROM live")).scalar_one())


async def connected(core: Core, name: str, n: int) -> None:
    """Return once there are *n* connections of that name."""
    statement = text(f"SELECT count(*) {_NAMED}")

    async def holds() -> bool:
        return await core._store.read(lambda x: x.execute(statement, {"name": name}).scalar_one()) == n

    await until_async(holds)


async def cut(core: Core, name: str) -> int:
    """Cut the connections of that name, and tell how many there were, once they are gone."""
    statement = text(f"SELECT count(pg_terminate_backend(pid, 20000)) {_NAMED}")
    return await core._store.write(lambda connection: connection.execute(statement, {"name": name}).scalar_one())


async def rows_are(core: Core, wanted: Callable[[int], bool]) -> None:
    """Return once the number of live rows is one that is *wanted*."""

    async def holds() -> bool:
        return wanted(await rows(core))

    await until_async(holds)
