"""Figures: what is open over all processes, as one look at the database tells it."""

import asyncio

from agent_core.agents import Limits
from agent_core.store import queue
from agent_core.testing import FakeClock, ScriptedProvider, pause, say
from tests.agent_core.scenes import open_session, send
from tests.conftest import MakeCore


async def test_what_is_open_is_counted(make_core: MakeCore, backend: str):
    """Open runs count by status; the oldest that nothing of its session holds back tells how long one waits."""
    go, clock = asyncio.Event(), FakeClock()
    provider = ScriptedProvider(lambda _: [pause(go), say("Hi.")])
    core = await make_core(provider, clock=clock, definition={"limits": Limits(max_runs=1)})
    session = await open_session(core)
    await send(core, session, "Hello")
    await send(core, session, "Hello again")
    clock.advance(0.5)
    found = await core.health.figures()
    assert (found.runs, found.waits, found.workers) == ({"running": 1, "queued": 1}, 0.0, {})
    await send(core, await open_session(core), "Hello")
    clock.advance(0.4)
    found = await core.health.figures()
    assert (found.runs, found.waits) == ({"running": 1, "queued": 2}, 0.4)
    if backend == "postgres":
        named = queue.Worker(id="wrk_1", host="here", pid=1, kind="web")
        await core._store.write(queue.heartbeat, named, room=1, running=0)
        assert (await core.health.figures()).workers == {"web": 1}
