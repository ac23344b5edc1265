"""How long the window of a long conversation takes that is not in memory: its facts read, folded and encoded."""

import asyncio
import shutil
import time
from pathlib import Path
from statistics import median

from agent_core.agents import DEFAULT_CONTEXT_MESSAGES, Definition
from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.store.database import SqliteDatabase
from agent_core.testing import ScriptedProvider
from tests.bench.history import History
from tests.bench.table import Goal, Row

# Issue 26 sets what must be; the aim is ours.
ASSEMBLED = Goal(must=20, aim=10, of="value")


async def rows(*, rounds: int, asks: int, messages: int, folder: Path, template: Path) -> list[Row]:
    """Assemble the window of *messages* stored messages, *asks* times a round, against a conversation that fits in it.

    The databases are copies of *template* in *folder*.
    """
    database = folder / "assembled.db"
    await asyncio.to_thread(shutil.copy, template, database)
    core = Core(
        SqliteDatabase(database),
        providers={"scripted": ScriptedProvider((), record=False)},
        tools={},
        default_model="scripted",
    )
    await core.start()
    try:
        await core.agents.create(Definition(name="assistant", instructions="Be brief."))
        few = min(messages, DEFAULT_CONTEXT_MESSAGES)
        long, short = await _session(core, messages), await _session(core, few)
        found: list[float] = []
        base: list[float] = []
        for _ in range(rounds):
            base.append(await _assembling(core, short, asks))
            found.append(await _assembling(core, long, asks))
    finally:
        await core.stop()
    title = f"window of a conversation of {messages:,} messages, read and assembled, p50"
    return [Row(title, "ms", found, base, f"one of {few:,} messages", ASSEMBLED)]


async def _session(core: Core, messages: int) -> str:
    """Return a new session with so many *messages*, of which the default limit leaves the newest in the window."""
    session = (await core.open_session(agent="assistant", actor=Actor("ann", "user"))).id
    await History(core).build(session, messages, DEFAULT_CONTEXT_MESSAGES)
    return session


async def _assembling(core: Core, session: str, asks: int) -> float:
    """Return the median seconds until the request JSON of the window is there, of a session that is not in memory."""
    found: list[float] = []
    for _ in range(asks):
        core._cache.forget(session)
        begin = time.perf_counter()
        window = (await core._cache.get(session)).window
        size = sum(len(entry.wire) for entry in window.entries)
        found.append(time.perf_counter() - begin)
        assert size, "The window is empty."
    return median(found)
