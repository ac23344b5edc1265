"""Several processes of one Postgres, for tests: cores side by side in this process, and processes of their own."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import text

from agent_core.agents import Definition
from agent_core.clock import Clock, SystemClock
from agent_core.core import Core
from agent_core.engine.dbos import DbosEngine, Pace
from agent_core.store.postgres import PostgresDatabase
from agent_core.store.postgres_bus import PostgresBus
from agent_core.store.queue import Kind
from agent_core.testing import ScriptedProvider
from agent_core.testing.scripted import Script
from agent_core.tools.base import Tool
from tests.forked import Awaited, start
from tests.polling import PATIENCE, until_async
from tests.postgres import MORTAL, ROOT

PACE = Pace(heartbeat_every=0.2, give_up=4.0, expire_after=5.0, notify_after=None)
"""Quicker than outside, and without DBOS, which a process can hold only once."""
NOTIFIED = Pace(heartbeat_every=0.2, give_up=4.0, expire_after=5.0, notify_after=0.1)


@dataclass
class Fleet:
    """The processes of the database at *url*."""

    url: str
    cores: list[Core] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    async def join(
        self,
        script: Script,
        *,
        kind: Kind = "both",
        pace: Pace = PACE,
        clock: Clock | None = None,
        max_runs: int = 100,
        tools: Sequence[Tool] = (),
        with_bus: bool = True,
    ) -> Core:
        """Start a core beside the others; one without a bus loses its notifications, in and out."""
        database = PostgresDatabase(self.url, **MORTAL)
        end = self.ends.append
        core = Core(
            database,
            providers={"scripted": ScriptedProvider(script)},
            tools={tool.spec.name: tool for tool in tools},
            default_model="scripted",
            clock=clock or SystemClock(),
            engine=partial(
                DbosEngine, database=database, url=self.url, kind=kind, max_runs=max_runs, pace=pace, end=end
            ),
            bus=PostgresBus(self.url, database) if with_bus else None,
        )
        self.cores.append(core)
        await core.start()
        core._segments.pressure.stop()  # that the machine is busy with tests is no subject of theirs
        if not (await core.agents.list()).items:
            names = tuple(tool.spec.name for tool in tools)
            await core.agents.create(Definition(name="assistant", instructions="Be brief.", tools=names))
        return core

    async def leave(self, core: Core, grace: float = 0.1) -> None:
        """Stop one core as a deploy does."""
        self.cores.remove(core)
        await core.stop(grace)

    async def stop(self) -> None:
        await asyncio.gather(*(core.stop(0.1) for core in self.cores))


@asynccontextmanager
async def worker_process(url: str, *, newer: bool = False, **options: Any) -> AsyncIterator[Awaited | Process]:
    """Run a worker in a process of its own, see `worker.py` and `newer.py`, until it ends or the test does."""
    module, words = f"tests.agent_core.engine.{'newer' if newer else 'worker'}", (url, json.dumps(options))
    if newer:  # one that has imported nothing of this version
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *words, stdout=PIPE, stderr=STDOUT, env=os.environ
        )
    else:
        process = await start(module, *words, cwd=ROOT, env=os.environ)
    try:
        await line_of(process, "ready")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: Awaited | Process, wanted: str) -> str:
    """Return the next line of the process's output that holds *wanted*."""
    assert process.stdout is not None
    seen: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while raw := await process.stdout.readline():
            seen.append(raw.decode())
            if wanted in seen[-1]:
                return seen[-1]
    raise AssertionError(f"It ended without `{wanted}`: {''.join(seen)}")


async def soon(core: Core, condition: Callable[[], bool]) -> None:
    """Return once *condition* holds, which a thread brings about: it is looked at after each answer of the database."""

    async def holds() -> bool:
        await core.health.ping()
        return condition()

    await until_async(holds, timeout=PATIENCE)


async def there(core: Core, query: str, wanted: Any, **values: Any) -> None:
    """Return once *query* gives *wanted*, which another process brings about."""
    statement = text(query)

    async def holds() -> bool:
        return await core._store.read(lambda connection: connection.execute(statement, values).scalar()) == wanted

    await until_async(holds, timeout=PATIENCE)


def engine_of(core: Core) -> DbosEngine:
    """Return what drives the core's runs, to look inside."""
    assert isinstance(core._engine, DbosEngine)
    return core._engine
