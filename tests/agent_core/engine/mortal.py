"""Workers in processes of their own, with DBOS notified of each run as it begins.

The processes are forked from one that has everything imported, so a life costs a tenth of a second.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, text

from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.engine.dbos import DbosEngine, Pace, segment_name
from agent_core.engine.pool import Segment
from agent_core.store.database import Database
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef
from agent_core.store.postgres import PostgresDatabase
from agent_core.store.postgres_bus import PostgresBus
from agent_core.store.queue import Due
from agent_core.tools.base import CallContext, Elicitation, Tool
from agent_core.tools.functions import tool
from tests.agent_core.crashing import CrashingDatabase, Side
from tests.agent_core.engine.fleet import PATIENCE, soon
from tests.agent_core.test_crash import ANN, FORM, SCENARIOS, Process, Scenario, _parts
from tests.polling import until_async
from tests.postgres import MORTAL

T = TypeVar("T")
PACE = Pace(heartbeat_every=0.1, give_up=2.0, expire_after=3.0, notify_after=0.1)
NOTIFIED = text("SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = :name")
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__, "asyncpg", "dbos"])


def tools(ledger: Path) -> dict[str, Tool]:
    """Return the tools of the scenarios; each execution of a write leaves the session's id in *ledger*."""

    @tool(concurrency_safe=True)
    async def look(what: str) -> str:
        """Look something up."""
        return f"{what} is fine"

    @tool(effect="write")
    async def book(room: str, context: CallContext) -> str:
        """Book a room."""
        with ledger.open("a") as file:
            file.write(f"{context.session}\n")
        return f"{room} is booked"

    @tool(effect="write")
    async def seat(room: str, context: CallContext) -> Elicitation | str:
        """Ask, then book a room."""
        if context.answer is None:
            return Elicitation("Which one?", FORM, state=room)
        with ledger.open("a") as file:
            file.write(f"{context.session}\n")
        return f"{room} is booked"

    return {"look": look, "book": book, "seat": seat}


class Prompt(DbosEngine):
    """A worker that notifies DBOS of a run at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        pool, begin = self.pool, self.pool.begin

        def begin_and_announce(run: RunRef, segment: Segment | None = None) -> None:
            begin(run, segment)
            if run.key in pool.driven:
                self.overflow.announce(run)

        pool.begin = begin_and_announce


class Mortal(Prompt):
    """One that takes no runs of other workers; what it gave up itself, because its beats were late, it takes again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        sweep, take = self.sweep, self.sweep.take

        async def take_own(run: Due, some: asyncio.Semaphore) -> None:
            if run.owner == self.worker:
                await take(run, some)

        sweep.take = take_own


class DeafBus(PostgresBus):
    """One that does not pass on what the others ask for."""

    async def start(self, hub: Hub, wake: Callable[[int], None], interrupt: Callable[[int], object]) -> None:
        await super().start(hub, lambda _: None, interrupt)


class DeadlyDatabase(CrashingDatabase):
    """One whose writes count once it is *armed*."""

    armed = False

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        return await (super() if self.armed else self.inner).write(work, committed)

    async def kill(self, engine: DbosEngine) -> None:
        """Kill this process where a crash is wanted, as soon as DBOS has noted what *engine* drives."""
        await self.crashed.wait()
        for driven in list(engine.pool.driven.values()):
            name = segment_name(driven.run.id, driven.run.epoch)
            noted = partial(_is_noted, name=name)
            await until_async(partial(self.read, noted), timeout=PATIENCE)
        os.kill(os.getpid(), signal.SIGKILL)


def _is_noted(connection: Connection, name: str) -> bool:
    return connection.execute(NOTIFIED, {"name": name}).first() is not None


def heir(url: str, name: str, ledger: Path, line: Pipe) -> None:
    """Be a worker, say so when all is well, and end when the other end of *line* is closed."""

    async def live() -> None:
        database = PostgresDatabase(url, **MORTAL)
        core = _core(database, url, _named(name), ledger, Prompt, PostgresBus(url, database))
        await _started(core)
        asyncio.get_running_loop().add_reader(line.fileno(), os._exit, 0)
        line.send("ready")
        await asyncio.Event().wait()

    _quietly(live)


def mortal(url: str, name: str, address: str, ledger: Path, at: int, side: Side, results: Pipe) -> None:
    """Play a scenario in the session at *address*, and die at write *at*; tell how many there were otherwise."""

    async def live() -> None:
        scenario, inner = _named(name), PostgresDatabase(url, **MORTAL)
        database = DeadlyDatabase(inner, at, side)
        core = _core(database, url, scenario, ledger, Mortal, DeafBus(url, inner))
        engine = await _started(core)
        database.armed = True
        tasks = [asyncio.create_task(each) for each in (database.kill(engine), play(core, scenario, address))]
        async with asyncio.timeout(PATIENCE):
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*(tasks if database.crashed.is_set() else done))
        tasks[0].cancel()
        results.send(database.writes)
        await core.stop(0.1)

    _quietly(live)


async def play(core: Core, scenario: Scenario, address: str) -> str:
    """Send the messages of *scenario* to the session at *address*, see them through, and return the session's id."""
    process = Process(core, CrashingDatabase(core._store.database))
    session = (await core.open_session(agent="a", actor=ANN, address=address)).id
    receipts = [
        await core.receive(session, Inbound(parts=_parts(words), actor=ANN, key=words, digest=b"same"))
        for words in scenario.messages
    ]
    for receipt in receipts:
        while (run := await core.settled(receipt.run, timeout=PATIENCE)).pending:
            await process.finish_calls(run)
    return session


def _core(
    database: Database, url: str, scenario: Scenario, ledger: Path, engine: type[DbosEngine], bus: PostgresBus
) -> Core:
    return Core(
        database,
        providers={"scripted": scenario.model()},
        tools=tools(ledger),
        default_model="scripted",
        engine=partial(engine, database=database, url=url, pace=PACE, end=print),
        bus=bus,
    )


async def _started(core: Core) -> DbosEngine:
    """Start *core*, and return its engine once DBOS is launched."""
    await core.start()
    engine = core._engine
    assert isinstance(engine, DbosEngine)
    await soon(core, lambda: engine.doorbell.is_ready)
    return engine


def _named(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


def _quietly(live: Callable[[], Coroutine[None, None, None]]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(live())
