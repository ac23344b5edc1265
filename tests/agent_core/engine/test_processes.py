"""Workers in processes of their own: what one leaves by dying, another goes on with."""

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_core.core import Core
from agent_core.events import MessageCompleted, RunFailed, RunResumed
from agent_core.messages import text_of
from agent_core.testing import say
from tests.agent_core.engine.fleet import PATIENCE, Fleet, line_of, there, worker_process
from tests.agent_core.engine.worker import fatal
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import idle, log_of, only, open_session, send, types
from tests.forked import Awaited

pytestmark = pytest.mark.processes

NOTIFIED = "SELECT status FROM dbos.workflow_status WHERE workflow_uuid = :name"


async def web(fleet: Fleet) -> Core:
    """Start a process that takes messages in and drives nothing."""
    return await fleet.join(lambda _: [say("Not here.")], kind="web")


async def started(core: Core, session: str) -> None:
    """Return once the session's run has begun its first step."""
    async with asyncio.timeout(PATIENCE):
        async for batch in core.follow(session):
            if any(event.type == "step.started" for event in batch):
                return


async def answers(core: Core, session: str) -> list[str]:
    """Return what was answered, once nothing is open."""
    async with asyncio.timeout(PATIENCE):
        facts = await idle(core, session)
    check_log(facts)
    return [text_of(body.parts) for body in only(facts, MessageCompleted)]


async def test_a_killed_worker_is_taken_over(fleet: Fleet):
    """A run whose worker is killed goes on at another, with the next epoch, and the runs queued after it follow."""
    core = await web(fleet)
    session = await open_session(core)
    async with worker_process(fleet.url) as first:
        await send(core, session, "one")
        await started(core, session)
        await send(core, session, "two")
        async with worker_process(fleet.url, answer="Whole."):
            first.kill()
            assert await answers(core, session) == ["Whole.", "Whole."]
    facts = await log_of(core, session)
    assert only(facts, RunResumed) == [RunResumed(epoch=2, cause="restarted")]


@pytest.mark.whole
async def test_a_tool_that_ends_its_process_does_so_twice(fleet: Fleet):
    """The third worker does not make the call again: the run fails and names the tool, and the worker lives on."""
    core = await fleet.join(lambda _: [], kind="web", tools=[fatal])
    session = await open_session(core)
    await send(core, session, "one")
    for _ in range(2):
        async with worker_process(fleet.url, fatal=True) as worker, asyncio.timeout(PATIENCE):
            assert await worker.wait() == 7
    async with worker_process(fleet.url, answer="Alive."):
        await answers(core, session)
        await send(core, session, "two")
        assert (await answers(core, session))[-1] == "Alive."
    facts = await log_of(core, session)
    assert [body.cause for body in only(facts, RunResumed)] == ["restarted"] * 2
    (failed,) = only(facts, RunFailed)
    assert "2 times while `fatal` ran" in failed.message


@pytest.mark.whole
async def test_dbos_hands_a_dead_workers_segments_on(fleet: Fleet):
    """DBOS's workflow of a dead worker's run goes through its queue to another worker, and ends well."""
    core = await web(fleet)
    session = await open_session(core)
    async with worker_process(fleet.url, with_dbos=True) as first:
        await send(core, session, "one")
        await started(core, session)
        name = f"{(await core.runs()).items[0].id}:1"
        await there(core, NOTIFIED, "PENDING", name=name)
        async with worker_process(fleet.url, with_dbos=True, answer="Whole."):
            first.kill()
            assert await answers(core, session) == ["Whole."]
            await there(core, NOTIFIED, "SUCCESS", name=name)


@asynccontextmanager
async def driving(fleet: Fleet) -> AsyncIterator[tuple[Core, str, Awaited | Process]]:
    """Give a process that drives nothing, a session, and the worker that has begun a run of it; another is there."""
    core = await web(fleet)
    session = await open_session(core)
    async with worker_process(fleet.url) as first:
        await send(core, session, "one")
        await started(core, session)
        async with worker_process(fleet.url, answer="Whole."):
            yield core, session, first


@pytest.mark.whole
async def test_a_worker_that_stood_still_ends_itself(fleet: Fleet):
    """A worker that was stopped, and whose run went on elsewhere, ends itself as soon as it goes on."""
    async with driving(fleet) as (core, session, first):
        first.send_signal(signal.SIGSTOP)
        assert await answers(core, session) == ["Whole."]
        seen = types(await log_of(core, session))
        first.send_signal(signal.SIGCONT)
        assert "stood still" in await line_of(first, "worker.ends_itself")
        async with asyncio.timeout(PATIENCE):
            assert await first.wait() == 1
    assert types(await log_of(core, session)) == seen


async def test_a_stopped_worker_hands_its_runs_over(fleet: Fleet):
    """What does not end within the grace goes on at another worker at once, and is not counted against the run."""
    async with driving(fleet) as (core, session, first):
        first.send_signal(signal.SIGTERM)
        assert await answers(core, session) == ["Whole."]
        async with asyncio.timeout(PATIENCE):
            assert await first.wait() == 0
    facts = await log_of(core, session)
    assert only(facts, RunResumed) == [RunResumed(epoch=2, cause="handed_over")]
