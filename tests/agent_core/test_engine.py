"""The local engine: due runs are driven, once, however many workers died; by a clock that the tests move."""

import asyncio
import gc
from collections import Counter
from itertools import pairwise

import pytest

from agent_core.core import Core
from agent_core.events import Fact, RunFailed, RunResumed, RunStarted, StepStarted
from agent_core.providers.base import Request
from agent_core.testing import Answer, FakeClock, ScriptedProvider, bug, by_step, call, pause, say
from agent_core.tools.base import CallContext, Outcome, Pending
from agent_core.tools.functions import tool
from tests.agent_core.asking import AskClient
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import (
    SAFETY,
    idle,
    local,
    log_of,
    look_at,
    only,
    open_session,
    ref_of,
    say_and_wait,
    send,
    types,
)
from tests.conftest import MakeCore
from tests.polling import PATIENCE, until

WAITS = by_step((call("ask"),), (say("Thank you."),))


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


async def pass_time(clock: FakeClock, seconds: float, *, step: float = 0.25) -> None:
    """Let *seconds* pass, *step* by step; each sweep has done its work before time goes on."""
    end = clock.now() + round(seconds * 1000)
    while clock.now() < end:
        await clock.slept(2)  # the sweep and the beat
        clock.advance(min(step, (end - clock.now()) / 1000))
    await clock.slept(2)


async def driven(core: Core, count: int) -> None:
    """Wait until the core drives *count* runs."""
    await until(lambda: len(local(core).pool.driven) == count)


def resumes(facts: list[Fact]) -> list[RunResumed]:
    return only(facts, RunResumed)


async def waiting_run(core: Core) -> tuple[str, str]:
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "Ask me")
    assert (await core.run(receipt.run)).status == "requires_action"
    await driven(core, 0)
    return session, receipt.run


async def test_a_run_is_looked_at_at_its_deadline(make_core: MakeCore):
    """A run that is to be looked at at a time is looked at then, not before, and not twice."""
    clock = FakeClock()
    core = await make_core(ScriptedProvider(WAITS), tools=(AskClient(),), clock=clock)
    session, run = await waiting_run(core)
    newest = (await log_of(core, session))[-1].seq
    start = clock.now()
    await look_at(core, (await ref_of(core, run)).key, start + 30_250)
    await pass_time(clock, 30)
    assert await log_of(core, session, after=newest) == []
    await pass_time(clock, 0.5)
    facts = await idle(core, session, after=newest)
    assert types(facts) == ["run.resumed", "run.waiting"]
    assert {fact.time for fact in facts} <= {start + 30_250, start + 30_500}
    await driven(core, 0)
    await pass_time(clock, 60, step=1)
    assert len(await log_of(core, session, after=newest)) == 2


async def test_a_deadline_wakes_the_sweep(make_core: MakeCore):
    """A deadline nearer than the next sweep is kept to the tick."""
    clock = FakeClock()
    core = await make_core(ScriptedProvider(WAITS), tools=(AskClient(),), clock=clock)
    session, run = await waiting_run(core)
    newest = (await log_of(core, session))[-1].seq
    due = clock.now() + 120
    await look_at(core, (await ref_of(core, run)).key, due)
    await until(lambda: not local(core).sweep.is_due)
    await clock.slept(2)
    await clock.advance_to_next()
    assert clock.now() == due
    await clock.slept(2)
    assert types(await idle(core, session, after=newest)) == ["run.resumed", "run.waiting"]


async def test_a_wake_up_is_idempotent(make_core: MakeCore):
    """However many wake a run at once, one at a time drives it; a driven, a queued and an ended one are left alone."""
    hold = asyncio.Event()

    def script(request: Request) -> Answer:
        held = any("hold" in str(entry.message.parts) for entry in request.messages)
        return [pause(hold), say("Hi.")] if held else WAITS(request)

    core = await make_core(ScriptedProvider(script), tools=(AskClient(),), clock=FakeClock())
    session, run = await waiting_run(core)
    key = (await ref_of(core, run)).key
    await asyncio.gather(*(core._engine.wake(key) for _ in range(20)))
    facts = await idle(core, session)
    # One comes at a time: again only where another wakes the run that waits once more.
    turns = [kind for kind in types(facts) if kind in ("run.waiting", "run.resumed")]
    assert len(turns) > 2
    assert turns == ["run.waiting", *["run.resumed", "run.waiting"] * (len(turns) // 2)]
    check_log(facts)
    other = await open_session(core)
    busy, queued = await send(core, other, "hold"), await send(core, other, "later")
    for receipt in (busy, queued):
        ref = await ref_of(core, receipt.run)
        await asyncio.gather(*(core._engine.wake(ref.key) for _ in range(20)))
    hold.set()
    facts = await idle(core, other)
    await driven(core, 0)
    for receipt in (busy, queued):
        await core._engine.wake((await ref_of(core, receipt.run)).key)
    assert types(await log_of(core, other)) == types(facts)
    check_log(facts)
    assert resumes(facts) == []


async def test_a_start_resumes_what_a_dead_process_left(make_core: MakeCore):
    """A new process takes up an interrupted run with the next epoch and finishes it; a queued one follows."""
    hold = asyncio.Event()
    first = await make_core(ScriptedProvider(lambda _: [say("Half an ans"), pause(hold)]), clock=FakeClock())
    session = await open_session(first)
    receipts = [await send(first, session, text) for text in ("one", "two")]
    await first.stop()
    second = await make_core(ScriptedProvider(lambda _: [say("Whole.")]), clock=FakeClock())
    facts = await idle(second, session)
    check_log(facts)
    assert resumes(facts) == [RunResumed(epoch=2, cause="handed_over")]
    assert [fact.run for fact in facts if fact.type == "run.resumed"] == [receipts[0].run]
    assert [(step.n, step.attempt) for step in only(facts, StepStarted)] == [(1, 1), (1, 2), (1, 1)]
    assert [(await second.run(receipt.run)).text for receipt in receipts] == ["Whole.", "Whole."]
    assert [body.epoch for body in only(facts, RunStarted)] == [1, 1]


async def test_a_stop_leaves_runs_as_they_are(make_core: MakeCore):
    """Stopping ends no run and writes nothing: what ran is still running in the log, and goes on at the next start."""
    hold = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: [say("Half"), pause(hold)]), clock=FakeClock())
    sessions = [await open_session(core) for _ in range(3)]
    receipts = [await send(core, session, "Hello") for session in sessions]
    before = [types(await log_of(core, session)) for session in sessions]
    async with asyncio.timeout(SAFETY):
        await core.stop(grace=5)
    assert not core.is_working
    again = await make_core(ScriptedProvider(lambda _: [say("Whole.")]), clock=FakeClock())
    for session, receipt, was in zip(sessions, receipts, before, strict=True):
        facts = await idle(again, session)
        assert types(facts)[: len(was)] == was
        assert types(facts)[len(was)] == "run.resumed"
        assert (await again.run(receipt.run)).status == "completed"


async def test_a_stop_waits_no_longer_than_its_grace(make_core: MakeCore):
    """A driver that does not let go holds the stop up for the grace, and no longer."""
    begun, asked, let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def cling() -> str:
        """Ignore cancellation."""
        begun.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                asked.set()
        return "let go"

    core = await make_core(ScriptedProvider(lambda _: [call("cling")]), tools=(cling,), clock=FakeClock())
    session = await open_session(core)
    await send(core, session, "Hello")
    await begun.wait()
    driver = next(iter(local(core).pool.driven.values())).task
    async with asyncio.timeout(SAFETY):
        await core.stop(grace=0.01)
    assert asked.is_set()
    assert not driver.done()
    let_go.set()
    await asyncio.wait((driver,))


@pytest.mark.crashes
async def test_a_driver_that_breaks_is_tried_again_with_growing_pauses(
    make_core: MakeCore, caplog: pytest.LogCaptureFixture
):
    """A bug of ours ends no worker: the run is retried with backoff, and given up after five failed attempts."""
    clock = FakeClock()
    core = await make_core(ScriptedProvider(lambda _: [bug()]), clock=clock)
    session = await open_session(core)
    receipt = await send(core, session, "Hello")
    while (await core.run(receipt.run)).status == "running":
        await until(lambda: not local(core).pool.driven)
        await pass_time(clock, 1, step=1)
    facts = await log_of(core, session)
    check_log(facts)
    assert [body.epoch for body in resumes(facts)] == [2, 3, 4, 5, 6]
    assert {body.cause for body in resumes(facts)} == {"crashed"}
    assert only(facts, RunFailed)[0].code == "lost"
    times = [fact.time for fact in facts if fact.type in ("run.started", "run.resumed")]
    pauses = [(later - earlier) / 1000 for earlier, later in pairwise(times)]
    assert pauses[1:] == sorted(pauses[1:])  # the first ones last as long as a sweep or two
    for pause_s, least in zip(pauses, (0, 0, 1, 5, 30), strict=True):
        assert least <= pause_s <= least + 2.5, pauses
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"], "an unhandled error"


@pytest.mark.crashes
async def test_progress_ends_the_pauses(make_core: MakeCore):
    """A run that gets somewhere between its crashes is not given up, however many there are."""
    clock, crashes = FakeClock(), Counter[int]()

    def script(request: Request) -> Answer:
        done = sum(entry.message.role == "tool" for entry in request.messages)
        crashes[done] += 1
        if crashes[done] <= 4:
            return [bug()]
        return [call("look", what="x")] if done == 0 else [say("At last.")]

    core = await make_core(ScriptedProvider(script), tools=(look,), clock=clock)
    session = await open_session(core)
    receipt = await send(core, session, "Hello")
    while (await core.run(receipt.run)).status == "running":
        await until(lambda: not local(core).pool.driven)
        await pass_time(clock, 1, step=1)
    facts = await log_of(core, session)
    check_log(facts)
    assert (await core.run(receipt.run)).text == "At last."
    assert len(resumes(facts)) == 8
    times = [fact.time for fact in facts if fact.type == "run.resumed"]
    assert times[3] - times[2] >= 5_000, "the last pause before the progress"
    assert times[5] - times[4] < 5_000, "the first one after it"


async def test_a_ring_for_a_run_on_its_way_into_a_wait_is_not_lost(make_core: MakeCore):
    """A run that is woken while it is still driven is dispatched again once it waits."""

    @tool
    async def ask(context: CallContext) -> Outcome:
        """Ask someone."""
        await core._engine.wake((await ref_of(core, context.run)).key)
        return Pending("client")

    core = await make_core(ScriptedProvider([(call("ask"),)]), tools=(ask,))
    session = await open_session(core)
    await send(core, session, "Hello")
    async with asyncio.timeout(PATIENCE):
        async for _ in core.follow(session):
            if resumes(await log_of(core, session)):
                break
