"""Law 5 of the design: every append carries the run's epoch, and who lost its run is refused and stops."""

import asyncio

import pytest
from sqlalchemy import select

from agent_core.errors import LostRun
from agent_core.events import (
    ContextAdded,
    MessageCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    StepCompleted,
    ToolCompleted,
)
from agent_core.messages import text_of
from agent_core.providers.base import Request
from agent_core.store import runs
from agent_core.store.log import RUN
from agent_core.testing import Answer, FakeClock, ScriptedProvider, bug, by_step, call, pause, say, step_of
from agent_core.tools.base import Pending
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import local
from tests.agent_core.stage import ANN, PATIENCE, Stage, asleep, restart, set_stage
from tests.conftest import MakeCore


async def row(stage: Stage, run: str) -> tuple[str, str | None, int, int | None]:
    """Return status, owner, epoch and deadline of the run's row."""
    query = select(RUN.c.status, RUN.c.owner, RUN.c.epoch, RUN.c.due_at).where(RUN.c.id == run)
    found = await stage.core._store.read(lambda connection: connection.execute(query).one())
    return (found.status, found.owner, found.epoch, found.due_at)


def driver_of(stage: Stage, run: str) -> asyncio.Task[None]:
    return next(driven.task for driven in local(stage.core).pool.driven.values() if driven.run.id == run)


async def test_law_5_a_worker_that_lost_its_run_is_refused_and_stops(make_core: MakeCore):
    """When another worker takes a run over, the first one's next append is refused: it stops, and writes nothing."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(say("The first "), pause(may_end), say("worker."))])
    run = await stage.send()
    await stage.asked(1)
    lost = driver_of(stage, run)
    other = Stage(await make_core(ScriptedProvider([(say("The second."),)])), stage.provider, stage.session)
    assert (await other.done(run)).text == "The second."
    before = await other.log()
    may_end.set()
    await asyncio.wait_for(lost, PATIENCE)
    assert not local(stage.core).pool.driven
    after = await other.log()
    assert len(after) == len(before)
    assert [text_of(end.parts) for end in await other.said(MessageCompleted)] == ["The second."]
    check_log(after)


async def test_law_5_an_append_with_an_old_epoch_writes_nothing(make_core: MakeCore):
    """An append that carries an epoch which is not the run's any more raises `LostRun` and takes no seq."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, by_step((pause(may_end), say("Hi."))))
    run = await stage.send()
    await stage.asked(1)
    old, _ = await stage.core._store.read(runs.find, run)
    again = await restart(make_core, stage, [(pause(may_end), say("Hi."))])
    await again.asked(1)
    facts = await again.log()
    note = ContextAdded(source="note", text="from the grave")
    with pytest.raises(LostRun):
        await again.core._store.append(old, [note], (), after=facts[-1].seq)
    assert len(await again.log()) == len(facts)
    may_end.set()
    assert (await again.done(run)).text == "Hi."
    assert [fact.seq for fact in await again.log()] == list(range(1, len(await again.log()) + 1))


async def test_law_5_nothing_is_appended_to_a_run_that_is_over(make_core: MakeCore):
    """A run that has ended takes no more facts, not even from the worker that ended it."""
    stage = await set_stage(make_core, [(say("Hi."),)])
    run = await stage.play()
    ref, _ = await stage.core._store.read(runs.find, run.id)
    with pytest.raises(LostRun):
        await stage.core._store.append(ref, [ContextAdded(source="note", text="late")], (), after=99)
    assert (await stage.types(run.id))[-1] == "run.completed"


async def test_law_5_the_epoch_is_raised_with_every_start_and_resume(make_core: MakeCore):
    """A run starts with epoch 1, and each takeover raises it by one, in the log and in its row."""
    never = asyncio.Event()
    stage = await set_stage(make_core, lambda _: (pause(never),))
    run = await stage.send()
    await stage.asked(1)
    assert (await row(stage, run))[:3] == ("running", stage.core._engine.worker, 1)
    again = await restart(make_core, stage, lambda _: (pause(never),))
    await again.asked(1)
    assert (await row(again, run))[:3] == ("running", again.core._engine.worker, 2)
    assert [started.epoch for started in await again.said(RunStarted)] == [1]
    assert [resumed.epoch for resumed in await again.said(RunResumed)] == [2]


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_law_5_an_end_clears_the_owner(make_core: MakeCore, how):
    """A run that has ended has no owner and no deadline, however it ended."""
    may_end = asyncio.Event()
    script = by_step((call("unknown"),), (call("unknown"),), (call("unknown"),)) if how == "failed" else None
    stage = await set_stage(make_core, script or [(pause(may_end), say("Hi."))])
    run = await stage.send()
    if how == "cancelled":
        await stage.asked(1)
        await stage.stop(run)
    may_end.set()
    await stage.done(run)
    assert await row(stage, run) == (how, None, 1, None)


async def test_law_5_a_wait_clears_the_owner(make_core: MakeCore):
    """A run that waits has no owner and no task; neither sweep nor restart resumes it."""

    @tool
    async def ask() -> Pending:
        """Ask."""
        return Pending("client")

    clock = FakeClock()
    stage = await set_stage(make_core, by_step((call("ask"),)), tools=[ask], clock=clock)
    run = (await stage.play()).id
    assert await row(stage, run) == ("requires_action", None, 1, None)
    for _ in range(3):
        await asleep(clock, 2)
        clock.advance(1)
    again = await restart(make_core, stage, by_step((call("ask"),)), tools=(ask,), clock=clock)
    await asleep(clock, 2)
    assert await row(again, run) == ("requires_action", None, 1, None)
    assert not local(again.core).pool.driven


async def test_law_5_a_ring_joins_a_run_that_is_driven(make_core: MakeCore):
    """Ringing a run that this process drives changes nothing: the epoch stays, and it is driven once."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), say("Hi."))])
    run = await stage.send()
    await stage.asked(1)
    (key,) = local(stage.core).pool.driven
    await asyncio.gather(*(stage.core._engine.wake(key) for _ in range(5)))
    assert (await row(stage, run))[2] == 1
    may_end.set()
    assert (await stage.done(run)).text == "Hi."
    assert stage.provider.calls == 1


async def lives(make_core: MakeCore, stage: Stage, clock: FakeClock, script, pauses, **options) -> Stage:
    """Kill and restart the process once for each of *pauses*, after so many seconds."""
    for seconds in pauses:
        pool = stage.core._engine.pool  # what a process that dies does not do: leave its runs
        pool.close()
        await pool.drop(PATIENCE)
        await stage.core.stop()
        clock.advance(seconds)
        stage = await restart(make_core, stage, script, clock=clock, **options)
        await asleep(clock, 2)
    return stage


async def test_law_5_five_failed_resumes_end_the_run(make_core: MakeCore):
    """A run that five restarts in a row got nowhere with fails as `lost`, with its message closed."""
    clock, never = FakeClock(), asyncio.Event()

    def script(_):
        return (say("Half"), pause(never))

    stage = await set_stage(make_core, script, clock=clock)
    run = await stage.send()
    stage = await lives(make_core, stage, clock, script, (0, 0, 1, 5))
    assert [resumed.epoch for resumed in await stage.said(RunResumed)] == [2, 3, 4, 5]
    assert (await stage.core.run(run)).status == "running"
    stage = await lives(make_core, stage, clock, script, (30,))
    done = await stage.done(run)
    assert done.error
    assert (done.status, done.error.code) == ("failed", "lost")
    assert len(await stage.said(RunFailed)) == 1
    check_log(await stage.log())


async def test_law_5_the_pauses_before_a_resume_grow(make_core: MakeCore):
    """Each resume without progress lengthens the time before the next: a run that kills its worker backs off."""
    clock, never = FakeClock(), asyncio.Event()

    def script(_):
        return (pause(never),)

    stage = await set_stage(make_core, script, clock=clock)
    run = await stage.send()
    pauses = []
    for _ in range(4):
        stage = await lives(make_core, stage, clock, script, (100,))
        due = (await row(stage, run))[3]
        pauses.append(0 if due is None else due - clock.now())
    assert pauses == [0, 1_000, 5_000, 30_000]
    early = await lives(make_core, stage, clock, script, (29.9,))
    assert len(await early.said(RunResumed)) == 4


async def test_law_5_progress_resets_the_count(make_core: MakeCore):
    """A step or a call that was completed between two resumes resets the count: slow is not stuck."""
    clock, never, hung = FakeClock(), asyncio.Event(), set[int]()

    @tool
    async def look(n: int) -> str:
        """Look."""
        return f"{n} is fine"

    def script(request: Request) -> Answer:
        """Hang the first time that a step is asked; the second time, after a restart, answer."""
        n = step_of(request)
        if n not in hung:
            hung.add(n)
            return (pause(never),)
        return (call("look", n=n),) if n < 7 else (say("All seen."),)

    stage = await set_stage(make_core, script, tools=[look], clock=clock)
    run = await stage.send()
    await stage.asked(1)
    for _ in range(7):
        stage = await lives(make_core, stage, clock, script, (0,), tools=(look,))
        await stage.asked(2)
    stage = await lives(make_core, stage, clock, script, (0,), tools=(look,))
    done = await stage.done(run)
    assert (done.status, done.text) == ("completed", "All seen.")
    assert len(await stage.said(RunResumed)) == 8
    assert len(await stage.said(StepCompleted)) == 8
    assert {end.outcome for end in await stage.said(ToolCompleted)} == {"done"}


@pytest.mark.crashes
async def test_law_5_a_cancel_reaches_a_run_without_a_driver(make_core: MakeCore):
    """A run whose driver broke, and that waits for its next try, is cancelled at once."""
    clock, may_break = FakeClock(), asyncio.Event()
    stage = await set_stage(make_core, [(say("Half"), pause(may_break), bug())], clock=clock)
    run = await stage.send()
    await stage.asked(1)
    driver = driver_of(stage, run)
    may_break.set()
    await asyncio.wait_for(driver, PATIENCE)
    assert not local(stage.core).pool.driven
    await stage.core.cancel(run, by=ANN)
    done = await stage.done(run)
    assert (done.status, done.parts) == ("cancelled", ())
    await asleep(clock, 2)
    assert clock.sleepers == 2
    check_log(await stage.log())
