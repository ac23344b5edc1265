"""The sweep: it finds runs without a driver, claims none that has one, and its cost stays bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from agent_core.agent.state import HANDED_OVER, RESTARTED
from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.engine.local import LocalEngine
from agent_core.events import Fact, Heartbeat, RunResumed
from agent_core.store import runs
from agent_core.store.database import Database
from agent_core.store.queue import FOREVER
from agent_core.store.runs import WOKEN, Ended
from agent_core.testing import FakeClock, ScriptedProvider, pause, say
from tests.agent_core.databases import LateDatabase
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import SAFETY, idle, local, log_of, look_at, open_session, ref_of, send, types
from tests.conftest import MakeCore, OpenDatabase
from tests.polling import until

T = TypeVar("T")


class SlowDatabase(LateDatabase):
    """A database whose reads fail while *fails* is set."""

    fails = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        if self.fails:
            raise OperationalError("SELECT", {}, Exception("database is locked"))
        return await super().read(work)


class SlowCore:
    """A core on a slow database, with a model that waits for *go* before each answer."""

    def __init__(self, database: Database) -> None:
        self.clock, self.go, self.database = FakeClock(), asyncio.Event(), SlowDatabase(database)
        provider = ScriptedProvider(lambda _: [pause(self.go), say("Hi.")])
        self.core = Core(
            self.database, providers={"scripted": provider}, tools={}, default_model="scripted", clock=self.clock
        )

    async def sweep(self) -> None:
        """Let the sweep look once."""
        async with asyncio.timeout(SAFETY):
            await self.clock.slept(2)
            self.clock.advance(1)
            await self.clock.slept(2)


@pytest.fixture
async def stage(open_database: OpenDatabase) -> AsyncIterator[SlowCore]:
    stage = SlowCore(open_database())
    await stage.core.start()
    await stage.clock.slept(2)  # the first look is over: it counts as one, whenever it comes
    await stage.core.agents.create(Definition(name="assistant", instructions=""))
    yield stage
    await stage.core.stop(grace=1.0)


async def test_a_run_on_its_way_to_its_driver_is_not_taken(stage: SlowCore):
    """A run that was started by the end of the one before is driven once, though the sweep looks in between."""
    core, database = stage.core, stage.database
    session = await open_session(core)
    await send(core, session, "one")
    second = await send(core, session, "two")
    hold = database.hold = asyncio.Event()
    stage.go.set()
    await database.held.wait()
    assert (await core.run(second.run)).status == "running"
    await stage.sweep()
    hold.set()
    facts = await idle(core, session)
    check_log(facts)
    assert types(facts).count("run.completed") == 2
    assert "run.resumed" not in types(facts)


async def test_a_message_on_its_way_to_its_driver_is_not_taken(stage: SlowCore):
    """A run that a message just started is driven once, though the sweep sees it before its driver does."""
    core, database = stage.core, stage.database
    session = await open_session(core)
    hold = database.hold = asyncio.Event()
    sending = asyncio.create_task(send(core, session, "one"))
    await database.held.wait()
    await stage.sweep()
    hold.set()
    await sending
    stage.go.set()
    facts = await idle(core, session)
    check_log(facts)
    assert "run.resumed" not in types(facts)


async def test_a_run_without_a_driver_is_claimed_soon(stage: SlowCore):
    """A run of this worker that has no driver is taken at the sweep after the one that first missed it."""
    core = stage.core
    session = await open_session(core)
    receipt = await send(core, session, "one")
    driver = local(core).pool.driven.pop((await ref_of(core, receipt.run)).key)
    driver.task.cancel()
    await asyncio.wait((driver.task,))
    stage.go.set()
    await stage.sweep()
    await stage.sweep()
    facts = await idle(core, session)
    check_log(facts)
    assert types(facts).count("run.resumed") == 1


async def test_a_deadline_that_has_passed_is_not_looked_at_for_ever(stage: SlowCore):
    """A driven run whose deadline has passed does not keep the sweep from its pause."""
    core, clock = stage.core, stage.clock
    session = await open_session(core)
    receipt = await send(core, session, "one")
    await look_at(core, (await ref_of(core, receipt.run)).key, clock.now() + 500)
    await until(lambda: not local(core).sweep.is_due)
    assert await _next(clock) == 0.5
    assert [await _next(clock) for _ in range(5)] == [1.0] * 5
    assert types(await log_of(core, session))[-1] == "step.started"


async def _next(clock: FakeClock) -> float:
    await clock.slept(2)
    return await clock.advance_to_next()


async def test_a_sweep_that_fails_ends_nothing(stage: SlowCore):
    """While the database fails the worker goes on looking, and finds what is due when it answers again."""
    core = stage.core
    waiting = await open_session(core)
    receipt = await send(core, waiting, "one")
    driver = local(core).pool.driven.pop((await ref_of(core, receipt.run)).key)
    driver.task.cancel()
    await asyncio.wait((driver.task,))
    stage.database.fails = True
    for _ in range(3):
        await stage.sweep()
    assert core.is_working
    stage.database.fails = False
    stage.go.set()
    for _ in range(3):
        await stage.sweep()
    assert "run.completed" in types(await idle(core, waiting))


async def test_a_start_takes_no_more_than_there_is_room_for(make_core: MakeCore):
    """After a crash a worker resumes as many runs as it has room for, and the others as room comes."""
    hold, clock = asyncio.Event(), FakeClock()
    first = await make_core(ScriptedProvider(lambda _: [pause(hold)]), clock=FakeClock())
    sessions = [await open_session(first) for _ in range(5)]
    for session in sessions:
        await send(first, session, "Hello")
    await first.stop()
    provider = ScriptedProvider(lambda _: [pause(hold), say("Hi.")])
    second = await make_core(provider, clock=clock, engine=partial(LocalEngine, max_runs=2))
    async with asyncio.timeout(SAFETY):
        await provider.asked(2)
        await clock.slept(2)
        clock.advance(3)
        await clock.slept(2)
    assert provider.calls == provider.open == 2
    hold.set()
    async with asyncio.timeout(SAFETY):
        while len((await second.runs(status="completed")).items) < 5:
            assert provider.open <= 2
            await clock.slept(2)
            clock.advance(1)
    for session in sessions:
        check_log(await idle(second, session))


async def test_a_working_run_shows_a_heartbeat(stage: SlowCore):
    """Every ten seconds of a run's work its readers are shown that it lives, and nothing of it is kept."""
    core = stage.core
    session = await open_session(core)
    receipt = await send(core, session, "one")
    newest = (await log_of(core, session))[-1].seq
    seen: list[object] = []
    follows = asyncio.Event()

    async def read() -> None:
        async for batch in core.follow(session, after=newest):
            follows.set()
            seen.extend(event for event in batch if not isinstance(event, Fact))

    reading = asyncio.create_task(read())
    await follows.wait()
    for beats in (1, 2):
        for _ in range(10):
            await stage.sweep()
        await until(lambda beats=beats: len(seen) == beats)
    reading.cancel()
    assert {type(event.body) for event in seen} == {Heartbeat}  # type: ignore[attr-defined]
    assert {event.run for event in seen} == {receipt.run}  # type: ignore[attr-defined]
    assert types(await log_of(core, session))[-1] == "step.started"


async def test_a_sweep_resumes_no_run_that_it_has_just_started(make_core: MakeCore):
    """Several messages wait in each of several sessions: one sweep starts the first of each, and starts it once."""
    full = await make_core(ScriptedProvider([]), engine=partial(LocalEngine, max_runs=0))
    opened = [await open_session(full) for _ in range(6)]
    for session in opened:
        for text in ("One", "Two", "Three"):
            await send(full, session, text)
    await full.stop()

    core = await make_core(ScriptedProvider(lambda _: [say("Hi.")]))
    for session in opened:
        await idle(core, session)
        assert types(await log_of(core, session)).count("run.completed") == 3
        assert "run.resumed" not in types(await log_of(core, session))


async def test_a_run_that_was_given_back_is_taken_without_blame(stage: SlowCore):
    """A run that its worker gave back is resumed as handed over; one that was taken meanwhile keeps its owner."""
    receipt = await send(stage.core, await open_session(stage.core), "Hello")
    stale = await ref_of(stage.core, receipt.run)
    causes: list[str] = []
    given = stale
    resume = partial(runs.resume, cause=WOKEN, owner="wrk_other", expire_after=FOREVER, epoch=None, now=0)
    for _ in range(2):  # the first time it is taken from a worker that has no heartbeat
        taken = await stage.core._store.commit(None, resume, given.key)
        await stage.core._segments.give_back(stale)
        causes += [fact.body.cause for fact in taken.facts if isinstance(fact.body, RunResumed)]
        assert taken.started is not None
        given = taken.started
        assert await stage.core._store.commit(None, resume, given.key) == Ended([])
        await stage.core._segments.give_back(given)
    assert causes == [RESTARTED, HANDED_OVER]
    stage.go.set()
