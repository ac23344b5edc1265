"""A crash at every append around a compaction: the next process goes on with the window that there would have been."""

import asyncio
from contextlib import suppress

import pytest

from agent_core import Compaction, ContextCompacted, Core, Definition, Fact, Inbound, Limits, Text, text_of
from agent_core.context.window import Window
from agent_core.testing import ScriptedProvider, fail, say, think
from agent_core.testing.script import Answer
from tests.agent_core.crashing import CrashingDatabase, Side
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import Hurried, local
from tests.agent_core.stage import ANN, unmarked
from tests.agent_core.test_compacting import asks_for_summary, size_of
from tests.conftest import Fresh, OpenDatabase
from tests.polling import until

BEFORE, AFTER = ("m0", "m1", "m2"), ("m3", "m4")
ROOM = 4_200
"""Bytes of messages that the model takes: three exchanges, and not the fourth."""


def answers(request) -> Answer:
    if asks_for_summary(request):
        return (say("They talked."),)
    if size_of(request) > ROOM:
        return (fail("context_overflow", retryable=False),)
    return (think("Hm."), say("To ", text_of(request.messages[-1].message.parts)[:2]))


async def process(open_database: OpenDatabase, *, limit: int | None, at: int = 0, side: Side = "before"):
    """Start a process on the database, which dies at write *at* of what it does from now on."""
    database = CrashingDatabase(open_database())
    core = Core(
        database,
        providers={"scripted": ScriptedProvider(answers)},
        tools={},
        default_model="scripted",
        clock=Hurried(),
    )
    await core.start()
    if not (await core.agents.list()).items:
        limits = Limits(max_context_messages=limit)
        await core.agents.create(Definition(name="a", instructions="", limits=limits, compaction=Compaction()))
    database.writes, database._at, database._side = 0, at, side
    return core, database


async def talk(core: Core, texts: tuple[str, ...]) -> None:
    """Send *texts* in the session at its address, and see each through."""
    session = await core.open_session(agent="a", actor=ANN, address="test:1")
    for text in texts:
        said = f"{text} {'x' * 1_100}"
        inbound = Inbound(parts=(Text(said),), actor=ANN, key=text, digest=b"same")
        receipt = await core.receive(session.id, inbound)
        run = await core.settled(receipt.run, timeout=20)
        assert run.status == "completed", run.error


async def live(core: Core, database: CrashingDatabase, texts: tuple[str, ...]) -> bool:
    """Talk until done (True) or dead (False)."""
    work, crash = asyncio.create_task(talk(core, texts)), asyncio.create_task(database.crashed.wait())
    await asyncio.wait((work, crash), return_when=asyncio.FIRST_COMPLETED)
    crash.cancel()
    if not work.done():
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        await core.stop(grace=0.1)
        return False
    await work
    return True


async def outcome(core: Core) -> tuple[list[tuple[bool, bool, str, str]], list[Fact]]:
    """Return the window as the log gives it, which is the one that the process had, and the facts."""
    session = (await core.sessions()).items[0].id
    facts: list[Fact] = []
    async for batch in core.follow(session, until_idle=True):
        facts += [event for event in batch if isinstance(event, Fact)]
    check_log(facts)
    await until(lambda: not local(core).pool.driven)
    grown = shape((await core._cache.get(session)).window)
    core._cache.forget(session)
    assert shape((await core._cache.get(session)).window) == grown
    return grown, facts


def shape(window: Window) -> list[tuple[bool, bool, str, str]]:
    return [
        (entry.border, entry.summary, entry.message.role, unmarked(text_of(entry.message.parts)))
        for entry in window.entries
    ]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("limit", [6, None], ids=["by messages", "on overflow"])
async def test_a_crash_around_a_compaction_changes_no_window(fresh: Fresh, limit: int | None, side: Side):
    """Killed before or after any of its appends, a run that sums up leaves the window that an undisturbed one does."""
    wanted, writes, died, at = None, 1, 0, 0
    while at <= writes:
        with fresh() as open_database:
            core, database = await process(open_database, limit=limit)
            await talk(core, BEFORE)
            await core.stop()
            core, database = await process(open_database, limit=limit, at=at, side=side)
            if not await live(core, database, AFTER):
                died += 1
                core, database = await process(open_database, limit=limit)
                await talk(core, AFTER)
            found, facts = await outcome(core)
            await core.stop()
        if wanted is None:
            wanted, writes = found, database.writes
            assert [fact.body.kind for fact in facts if isinstance(fact.body, ContextCompacted)] == ["summary"]
        assert found == wanted, f"a crash {side} write {at}"
        at += 1
    assert died > 4
