"""Workers beside each other: one with capacity takes a run, only one does, and a cancel reaches it."""

import asyncio

from sqlalchemy import text

from agent_core.core import Core
from agent_core.events import MessageCompleted, RunCancelled, RunResumed, RunStarted
from agent_core.messages import text_of
from agent_core.store.codes import CODES
from agent_core.testing import FakeClock, ScriptedProvider, pause, say
from tests.agent_core.engine.fleet import PATIENCE, Fleet, engine_of
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, idle, log_of, only, open_session, ref_of, send, types
from tests.polling import until


def provider_of(core: Core) -> ScriptedProvider:
    provider = core._providers["scripted"]
    assert isinstance(provider, ScriptedProvider)
    return provider


async def asked(core: Core, n: int = 1) -> None:
    """Return once the core's model was asked *n* times."""
    async with asyncio.timeout(PATIENCE):
        await provider_of(core).asked(n)


async def test_a_ring_reaches_a_worker_with_room(fleet: Fleet):
    """A message to a process that drives nothing is answered by a worker, before any sweep."""
    web = await fleet.join(lambda _: [say("Not here.")], kind="web")
    worker = await fleet.join(lambda _: [say("Hi.")], kind="worker", clock=FakeClock())
    session = await open_session(web)
    await send(web, session, "Hello")
    async with asyncio.timeout(PATIENCE):
        facts = await idle(web, session)
    check_log(facts)
    assert (provider_of(web).calls, provider_of(worker).calls) == (0, 1)


async def test_one_of_many_takes_a_run(fleet: Fleet):
    """However many workers wake a run, it is started once, and no session is answered out of order."""
    web = await fleet.join(lambda _: [], kind="web")
    for _ in range(3):
        await fleet.join(lambda _: [say("Hi.")], kind="worker")
    sessions = [await open_session(web) for _ in range(8)]
    for word in ("one", "two"):
        await asyncio.gather(*(send(web, session, word) for session in sessions))
    for session in sessions:
        async with asyncio.timeout(PATIENCE):
            facts = await idle(web, session)
        check_log(facts)
        assert [body.epoch for body in only(facts, RunStarted)] == [1, 1]
        assert only(facts, RunResumed) == []


async def test_a_worker_drives_no_more_than_it_has_room_for(fleet: Fleet):
    """A worker drives as many runs as it may; each message is answered."""
    go = asyncio.Event()
    core = await fleet.join(lambda _: [pause(go), say("Hi.")], max_runs=2)
    sessions = [await open_session(core) for _ in range(6)]
    await asyncio.gather(*(send(core, session, "Hello") for session in sessions))
    await asked(core, 2)
    assert (provider_of(core).open, len((await core.runs(status="queued")).items)) == (2, 4)
    most = 0
    go.set()
    async with asyncio.timeout(PATIENCE):
        while len((await core.runs(status="completed")).items) < 6:
            most = max(most, len(engine_of(core).pool.driven))
    assert most <= 2


async def test_a_cancel_reaches_the_worker_that_drives(fleet: Fleet):
    """A run is cancelled from a process that does not drive it, and keeps its partial answer."""
    web = await fleet.join(lambda _: [], kind="web")
    never = asyncio.Event()
    worker = await fleet.join(lambda _: [say("Half"), pause(never)], kind="worker", clock=FakeClock())
    session = await open_session(web)
    run = (await send(web, session, "Hello")).run
    await asked(worker)
    await web.cancel(run, by=ANN)
    async with asyncio.timeout(PATIENCE):
        facts = await idle(web, session)
    check_log(facts)
    assert len(only(facts, RunCancelled)) == 1


async def test_a_cancel_that_the_bus_lost_is_found_by_the_sweep(fleet: Fleet):
    """A worker that is not notified of a cancel finds it within a second."""
    web = await fleet.join(lambda _: [], kind="web", with_bus=False)
    clock, never = FakeClock(), asyncio.Event()
    worker = await fleet.join(lambda _: [pause(never)], clock=clock, with_bus=False)
    session = await open_session(worker)
    run = (await send(worker, session, "Hello")).run
    await asked(worker)
    await web.cancel(run, by=ANN)
    assert (await worker.run(run)).status == "running"
    async with asyncio.timeout(PATIENCE):
        await clock.slept(2)
        clock.advance(1)
        facts = await idle(worker, session)
    check_log(facts)
    assert types(facts)[-2:] == ["message.completed", "run.cancelled"]


async def test_a_zombie_is_refused(fleet: Fleet):
    """A worker whose beats are missed loses its run; what it writes afterwards is refused, and it lets go."""
    go = asyncio.Event()
    zombie = await fleet.join(lambda _: [say("Half"), pause(go), say(" of it.")])
    session = await open_session(zombie)
    await send(zombie, session, "Hello")
    await asked(zombie)
    await engine_of(zombie).liveness.stop()
    heir = await fleet.join(lambda _: [say("Whole.")])
    async with asyncio.timeout(PATIENCE):
        facts = await idle(heir, session)
    assert engine_of(zombie).pool.driven
    go.set()
    await until(lambda: not engine_of(zombie).pool.driven)
    assert types(await log_of(heir, session)) == types(facts)
    check_log(facts)
    assert [text_of(body.parts) for body in only(facts, MessageCompleted)] == ["Whole."]
    assert [body.epoch for body in only(facts, RunResumed)] == [2]


async def test_a_run_is_left_to_a_worker_that_beats(fleet: Fleet):
    """Ringing a run that another living worker drives changes nothing, nor does a sweep."""
    never = asyncio.Event()
    first = await fleet.join(lambda _: [pause(never)])
    second = await fleet.join(lambda _: [say("Not here.")], clock=(clock := FakeClock()))
    session = await open_session(first)
    key = (await ref_of(first, (await send(first, session, "Hello")).run)).key
    seen = types(await log_of(first, session))
    await asyncio.gather(*(second._engine.wake(key) for _ in range(3)), *(first._engine.wake(key) for _ in range(3)))
    async with asyncio.timeout(PATIENCE):
        for _ in range(2):
            await clock.slept(2)
            clock.advance(1)
        await clock.slept(2)
    assert types(await log_of(first, session)) == seen
    assert len(engine_of(first).pool.driven) == 1


async def test_what_a_newer_version_wrote_is_left_to_it(fleet: Fleet):
    """A worker takes no run with facts that it does not know; one that knows them does."""
    core = await fleet.join(lambda _: [say("Hi.")], kind="worker", clock=(clock := FakeClock()))
    web = await fleet.join(lambda _: [], kind="web", with_bus=False)
    session = await open_session(web)
    run = (await send(web, session, "Hello")).run
    ref = await ref_of(web, run)
    strange = text("UPDATE event SET type = :type WHERE session = :session AND seq = :seq")

    status = text("SELECT status FROM run WHERE id = :run")

    async def write(kind: int) -> None:
        values = {"type": kind, "session": ref.session, "seq": ref.first_seq + 1}
        await web._store.write(lambda connection: connection.execute(strange, values))

    await write(99)
    async with asyncio.timeout(PATIENCE):
        await core._engine.wake(ref.key)
        row = await web._store.read(lambda connection: connection.execute(status, {"run": run}).one())
        assert row == ("queued",)
        await write(CODES["run.queued"])
        await clock.slept(2)
        clock.advance(1)
        check_log(await idle(core, session))
