"""Two versions side by side, back and forward again: what a newer one has written to is left to that one, whole."""

import asyncio

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent_core.channels import Context
from agent_core.core import Core
from agent_core.events import MessageCompleted, RunResumed
from agent_core.messages import text_of
from agent_core.store import queue
from agent_core.store.codes import CODES
from agent_core.testing import pause, say
from tests.agent_core.engine.fleet import PATIENCE, Fleet, engine_of, soon, there, worker_process
from tests.agent_core.engine.newer import NEXT
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, idle, log_of, only, open_session, say_and_wait, send, types

BEGUN = "SELECT count(*) FROM event WHERE type = :next"
ANSWERED = "SELECT count(*) FROM run WHERE status = 'completed'"
SET_TYPE = text("UPDATE event SET type = :type WHERE convert_from(data, 'UTF8') LIKE '%tide%'")
NOTE = Context(text="The tide is high.")


async def change(core: Core, kind: int) -> None:
    """Have the context that was added be of another type: one that is not known here, or is again."""
    await core._store.write(lambda connection: connection.execute(SET_TYPE, {"type": kind}))


@pytest.mark.whole
async def test_a_newer_versions_run_waits_for_it(fleet: Fleet):
    """When a newer version is gone, this one leaves its run alone, answers all others, and lets it go on afterwards."""
    web = await fleet.join(lambda _: [], kind="web")
    session, other = await open_session(web), await open_session(web)
    with capture_logs() as lines:
        async with worker_process(fleet.url, newer=True) as first:
            await send(web, session, "one")
            await there(web, BEGUN, 1, next=NEXT)
            await there(web, "SELECT protocol FROM worker WHERE kind = 'worker'", queue.PROTOCOL + 1)
            first.kill()
        old = await fleet.join(lambda _: [say("Old.")], kind="worker")
        await soon(old, lambda: any(line["event"] == "run.needs_newer" for line in lines))
        await send(web, session, "two")
        await say_and_wait(web, other, "Hello")
    assert await old._store.read(queue.newer_runs, 0) == 2
    async with worker_process(fleet.url, newer=True, answer="New."):
        await there(old, ANSWERED, 3)
    assert [line["event"] for line in lines].count("run.needs_newer") == 1
    assert await answers(web, session) == ["New.", "New."]
    assert await answers(web, other) == ["Old."]
    assert only(await log_of(web, session), RunResumed) == [RunResumed(epoch=2, cause="restarted")]


async def answers(core: Core, session: str) -> list[str]:
    """Return what was answered in a session."""
    return [text_of(body.parts) for body in only(await log_of(core, session), MessageCompleted)]


@pytest.mark.parametrize("in_memory", [True, False])
async def test_a_message_waits_for_the_version_that_knows_its_session(fleet: Fleet, *, in_memory: bool):
    """Where a newer version has written, messages are taken in and wait, a cancel works, and no other run begins."""
    core = await fleet.join(lambda _: [say("Hi.")])
    session = await open_session(core)
    await say_and_wait(core, session, "Hello")
    for context in (NOTE, Context(text="And this is known.")):
        await core.add_context(session, [context])
    await change(core, 99)
    if not in_memory:
        core._cache.forget(session)
    runs = [(await send(core, session, word)).run for word in ("one", "two", "three")]
    await core.cancel(runs[0], by=ANN)
    assert [(await core.run(run)).status for run in runs] == ["cancelled", "queued", "queued"]
    await change(core, CODES["context.added"])
    await fleet.join(lambda _: [say("Hi.")])
    async with asyncio.timeout(PATIENCE):
        facts = await idle(core, session)
    check_log(facts)
    assert [(await core.run(run)).status for run in runs] == ["cancelled", "completed", "completed"]


async def test_a_driver_gives_way_to_a_newer_version(fleet: Fleet):
    """A run to whose session a newer version writes is handed to it; what was done by then is kept, not repeated."""
    go = asyncio.Event()
    old = await fleet.join(lambda _: [pause(go), say("Done.")])
    session = await open_session(old)
    run = (await send(old, session, "Hello")).run
    await old.add_context(session, [NOTE])
    await change(old, 99)
    with capture_logs() as lines:
        go.set()
        await there(old, "SELECT owner IS NULL FROM run WHERE status = 'running'", wanted=True)
        await soon(old, lambda: any(line["event"] == "run.needs_newer" for line in lines))
    assert engine_of(old).pool.driven == {}
    assert (types(await log_of(old, session))[-1], (await old.run(run)).status) == ("step.completed", "running")
    await change(old, CODES["context.added"])
    await fleet.join(lambda _: [say("Not again.")])
    async with asyncio.timeout(PATIENCE):
        facts = await idle(old, session)
    check_log(facts)
    assert [text_of(body.parts) for body in only(facts, MessageCompleted)] == ["Done."]
    assert only(facts, RunResumed) == [RunResumed(epoch=2, cause="handed_over")]
