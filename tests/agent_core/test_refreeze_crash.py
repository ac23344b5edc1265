"""A crash around a refreeze: before and after each commit of the message, log and rows name the same prompt."""

import asyncio
from contextlib import suppress

import pytest

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.events import SnapshotFrozen, StepStarted
from agent_core.messages import Text
from agent_core.store import sessions
from agent_core.testing import FakeClock, ScriptedProvider, say, think
from tests.agent_core.crashing import CrashingDatabase, Side
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, Hurried, idle, log_of, open_session, say_and_wait
from tests.conftest import OpenDatabase
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole

WANTED = Inbound(parts=(Text("two"),), actor=ANN, key="k", digest=b"d")


def begun(database: CrashingDatabase, clock: FakeClock | None) -> Core:
    provider = ScriptedProvider(lambda _: (think("Hm."), say("Yes.")))
    return Core(
        database, providers={"scripted": provider}, tools={}, default_model="scripted", clock=clock or Hurried()
    )


async def rested(open_database: OpenDatabase) -> str:
    """Return a session that was answered once, and whose agent was edited since and wants no pause."""
    core = begun(CrashingDatabase(open_database()), FakeClock())
    await core.start()
    await core.agents.create(Definition(name="assistant", instructions="Be brief.", idle_refreeze_s=0))
    session = await open_session(core)
    await say_and_wait(core, session, "one")
    await core.agents.update("assistant", {"instructions": "Be long."})
    await core.stop()
    return session


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
async def test_a_crash_leaves_one_prompt(open_database: OpenDatabase, at: int, side: Side):
    """Whichever commit of the message is the last, the next process asks with the prompt that the log froze."""
    session = await rested(open_database)
    database = CrashingDatabase(open_database())
    core = begun(database, None)
    await core.start()
    database._at, database._side = database.writes + at, side
    sending = asyncio.create_task(core.receive(session, WANTED))
    await asyncio.wait_for(database.crashed.wait(), PATIENCE)
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    await core.stop(grace=0.1)
    core = begun(CrashingDatabase(open_database()), None)
    await core.start()
    await core.receive(session, WANTED)
    await idle(core, session)
    facts = await log_of(core, session)
    check_log(facts)
    frozen = [fact.body for fact in facts if isinstance(fact.body, SnapshotFrozen)]
    assert [each.reason for each in frozen] == ["opened", "idle"]
    held = await core._store.read(sessions.find, session)
    assert (held.agent_version, held.snapshot, held.prefix) == (2, frozen[1].hash, frozen[1].hash)
    steps = {fact.run: fact.body.snapshot for fact in facts if isinstance(fact.body, StepStarted)}
    assert list(steps.values()) == [each.hash for each in frozen]
    await core.stop()
