"""A database that does not answer: no worker is ended or expired for it, and every run continues afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent_core.events import MessageCompleted, RunResumed, RunStarted
from agent_core.messages import text_of
from agent_core.testing import FakeClock, pause, say
from tests.agent_core.engine.fleet import PACE, PATIENCE, Fleet, engine_of, soon, there
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import idle, log_of, only, open_session, send, types

STALE = """
    INSERT INTO worker (id, host, pid, kind, protocol, room, running, started_at, beat_at)
    VALUES ('wrk_gone', 'there', 1, 'worker', 1, 0, 0, 1, 1)
"""


@asynccontextmanager
async def silent(url: str) -> AsyncIterator[None]:
    """Stop all heartbeats for a while: the database accepts requests and does not answer."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("LOCK TABLE worker IN ACCESS EXCLUSIVE MODE")
        yield
        await connection.rollback()


@pytest.mark.whole
async def test_a_run_goes_on_after_an_outage(fleet: Fleet):
    """A worker that cannot beat lives, lets go of its run and takes it up again, which is not held against the run."""
    go = asyncio.Event()
    core = await fleet.join([(say("Half"), pause(asyncio.Event())), (pause(go), say("Whole."))])
    session = await open_session(core)
    await send(core, session, "Hello")
    engine = engine_of(core)
    with capture_logs() as lines:
        async with silent(fleet.url):
            await soon(core, lambda: not engine.liveness.is_well)
            assert not engine.pool.has_capacity()
            await soon(core, lambda: not engine.pool.driven)
        await soon(core, lambda: bool(engine.pool.driven))
        go.set()
        async with asyncio.timeout(PATIENCE):
            facts = await idle(core, session)
    check_log(facts)
    assert only(facts, RunResumed) == [RunResumed(epoch=2, cause="outage")]
    with_dbos = [line["event"] for line in lines if line["event"].startswith("database.")]
    assert with_dbos == ["database.away", "database.back"]
    assert fleet.ends == []


@pytest.mark.whole
async def test_no_worker_is_expired_right_after_an_outage(fleet: Fleet):
    """A worker without heartbeats of its own expires no other until its own have succeeded for that long."""
    core = await fleet.join(lambda _: [say("Hi.")])
    liveness = engine_of(core).liveness
    await soon(core, lambda: liveness.may_judge)
    async with silent(fleet.url):
        await soon(core, lambda: not liveness.is_well)
    await core._store.write(lambda connection: connection.execute(text(STALE)))
    await soon(core, lambda: liveness.is_well)
    assert not liveness.may_judge
    await there(core, "SELECT id FROM worker WHERE id = 'wrk_gone'", "wrk_gone")
    await soon(core, lambda: liveness.may_judge)
    await there(core, "SELECT id FROM worker WHERE id = 'wrk_gone'", None)


@pytest.mark.whole
async def test_a_young_worker_takes_over(fleet: Fleet):
    """A worker that has just started takes over the run of an expired one, before its own heartbeats are that old."""
    first = await fleet.join(lambda _: [say("Half"), pause(asyncio.Event())])
    session = await open_session(first)
    await send(first, session, "Hello")
    await engine_of(first).liveness.stop()
    await first._store.write(lambda connection: connection.execute(text("UPDATE worker SET beat_at = 1")))
    young = await fleet.join(lambda _: [say("Whole.")], pace=replace(PACE, expire_after=3600.0))
    async with asyncio.timeout(PATIENCE):
        facts = await idle(young, session)
    check_log(facts)
    assert [text_of(body.parts) for body in only(facts, MessageCompleted)] == ["Whole."]
    await there(young, "SELECT id FROM worker WHERE beat_at = 1", None)


async def test_a_message_during_an_outage_is_answered_afterwards(fleet: Fleet):
    """A worker that is not well starts nothing: what comes in waits, and is started when all is well again."""
    core = await fleet.join(lambda _: [say("Hi.")])
    session = await open_session(core)
    async with silent(fleet.url):
        await soon(core, lambda: not engine_of(core).liveness.is_well)
        await send(core, session, "Hello")
        assert types(await log_of(core, session))[-1] == "run.queued"
    async with asyncio.timeout(PATIENCE):
        facts = await idle(core, session)
    check_log(facts)
    assert [body.epoch for body in only(facts, RunStarted)] == [1]


@pytest.mark.whole
async def test_a_loop_that_does_not_answer_is_noticed(fleet: Fleet):
    """A process whose event loop is blocked for too long is to end itself; one whose database is silent is not."""
    core = await fleet.join(lambda _: [say("Hi.")], clock=FakeClock())
    liveness = engine_of(core).liveness
    async with silent(fleet.url):
        await soon(core, lambda: not liveness.is_well)
    assert fleet.ends == []
    liveness._answer = lambda: None  # the loop is asked, and says nothing
    await soon(core, lambda: bool(fleet.ends))
    assert "did not answer" in fleet.ends[0]
