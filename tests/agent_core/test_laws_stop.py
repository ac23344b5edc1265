"""Law 7 of the design: a closed reader stops nothing; Stop works at once, wherever the run is, and keeps what there is.

Time stands still in these tests: what happens, happens without any sweep, timer or retry.
"""

import asyncio
import threading
from contextlib import aclosing, suppress

import pytest

from agent_core.errors import NotFound
from agent_core.events import MessageCompleted, RunCancelled, TextDelta, ToolCompleted, ToolStarted
from agent_core.messages import text_of
from agent_core.testing import FakeClock, call, fail, pause, say, think
from agent_core.tools.base import Pending
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import local
from tests.agent_core.stage import ANN, PATIENCE, Stage, is_a, results, set_stage
from tests.conftest import MakeCore
from tests.polling import until


async def stopped(stage: Stage, run: str) -> str:
    """Stop the run, see that it has ended cleanly with nothing left at work, and return its text."""
    driver = next((each.task for each in local(stage.core).pool.driven.values() if each.run.id == run), None)
    done = await stage.stop(run)
    assert done.status == "cancelled"
    if driver:
        await asyncio.wait_for(driver, PATIENCE)
    assert stage.provider.open == 0, "the model call goes on"
    check_log(await stage.log())
    (end,) = await stage.said(RunCancelled, run)
    assert end.by == ANN
    return done.text


async def test_law_7_a_closed_reader_stops_nothing(make_core: MakeCore):
    """A reader who leaves in the middle of an answer stops nothing: later readers get the whole answer."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(say("Half "), pause(may_end), say("and whole."))])
    run = await stage.send()
    async with aclosing(stage.core.follow_run(run)) as batches:
        async for batch in batches:
            if any(event.live for event in batch):
                break
    async with stage.reader() as reader:
        await reader.until(lambda event: event.live)
    may_end.set()
    assert (await stage.done(run)).text == "Half and whole."


async def test_law_7_a_wait_that_is_given_up_stops_nothing(make_core: MakeCore):
    """Waiting for a run and giving up, or losing the connection, stops nothing."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), say("Hi."))])
    run = await stage.send()
    waiting = asyncio.create_task(stage.core.settled(run, timeout=PATIENCE))
    await stage.asked(1)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await stage.core.settled(run, timeout=0)).status == "running"
    may_end.set()
    assert (await stage.done(run)).text == "Hi."


async def test_law_7_stop_keeps_the_partial_answer(make_core: MakeCore):
    """Stop in the middle of an answer ends the run at once and keeps what was shown, as a partial message."""
    never = asyncio.Event()
    script = [(think("Hm."), say("Half an ", "answer"), pause(never), say("never"))]
    stage = await set_stage(make_core, script, clock=FakeClock())
    async with stage.reader() as reader:
        run = await stage.send()
        await reader.until(is_a(TextDelta, text="answer"))
        assert await stopped(stage, run) == "Half an answer"
        shown = [event.body.text for event in reader.events if isinstance(event.body, TextDelta)]
    (message,) = await stage.said(MessageCompleted)
    assert (message.partial, message.stop) == (True, "cancelled")
    assert text_of(message.parts) == "".join(shown)
    end = ["run.cancelling", "message.completed", "step.completed", "run.cancelled"]
    assert (await stage.types(run))[-4:] == end
    assert len({fact.time for fact in (await stage.log())[-3:]}) == 1, "one transaction"
    (_, answer) = (await stage.core.messages(stage.session)).items
    assert answer.partial


async def test_law_7_stop_before_the_first_byte(make_core: MakeCore):
    """Stop while the model has not said a word ends the run at once, with an empty message."""
    stage = await set_stage(make_core, [(pause(asyncio.Event()), say("never"))], clock=FakeClock())
    run = await stage.send()
    await stage.asked(1)
    assert await stopped(stage, run) == ""
    (message,) = await stage.said(MessageCompleted)
    assert (message.parts, message.partial, message.stop) == ((), True, "cancelled")


async def test_law_7_stop_in_a_retry_pause(make_core: MakeCore):
    """Stop while a run pauses between two tries ends it at once; the pause is not sat out."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(fail(retry_after=100.0),), (say("never"),)], clock=clock)
    run = await stage.send()
    await until(lambda: clock.longest == 100.0)
    before = clock.now()
    assert await stopped(stage, run) == ""
    assert (clock.now(), stage.provider.calls) == (before, 1)
    await until(lambda: clock.longest < 100.0)


async def test_law_7_stop_while_a_read_runs(make_core: MakeCore):
    """Stop while a tool that reads runs stops the tool at once, and its call is cancelled."""
    hung = asyncio.Event()
    was_stopped = asyncio.Event()

    @tool
    async def look() -> str:
        """Look."""
        try:
            await hung.wait()
        finally:
            was_stopped.set()
        return "never"

    stage = await set_stage(make_core, [(say("Looking."), call("look"))], tools=[look], clock=FakeClock())
    run = await stage.send()
    await stage.until(is_a(ToolStarted))
    assert await stopped(stage, run) == "Looking."
    assert was_stopped.is_set()
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["cancelled"]


@pytest.mark.parametrize("idempotent", [False, True])
async def test_law_7_stop_while_a_write_runs(make_core: MakeCore, idempotent):
    """Stop while a write runs leaves its outcome unknown: it may have taken effect, and the log says so."""

    @tool(effect="write", idempotent=idempotent)
    async def book() -> str:
        """Book."""
        await asyncio.Event().wait()
        return "never"

    stage = await set_stage(make_core, [(call("book"),), (say("Let me check."),)], tools=[book], clock=FakeClock())
    run = await stage.send()
    await stage.until(is_a(ToolStarted))
    await stopped(stage, run)
    (end,) = await stage.said(ToolCompleted)
    assert end.outcome == "unknown"
    await stage.play("Did it work?")
    (sent,) = results(stage.provider.requests[1])
    assert (sent.outcome, sent.parts) == (end.outcome, end.parts)


async def test_law_7_stop_between_several_calls(make_core: MakeCore):
    """Stop keeps the calls that have ended, and cancels those that run or have not started, side by side or not."""
    hung = asyncio.Event()

    @tool(concurrency_safe=True)
    async def look(n: int) -> str:
        """Look."""
        if n:
            await hung.wait()
        return "fine"

    @tool(effect="write")
    async def book() -> str:
        """Book."""
        return "booked"

    asked = (call("look", n=0), call("look", n=1), call("book"), call("look", n=2))
    stage = await set_stage(make_core, [asked], tools=[look, book], clock=FakeClock())
    run = await stage.send()
    await stage.until(is_a(ToolCompleted, outcome="done"))
    await stopped(stage, run)
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["done", "cancelled", "cancelled", "cancelled"]
    assert len(await stage.said(ToolStarted)) == 2


async def test_law_7_stop_abandons_a_tool_that_ignores_it(make_core: MakeCore):
    """A tool that ignores its cancellation delays nothing: its call is cancelled and the run ends."""
    may_end, asked_to_stop = asyncio.Event(), asyncio.Event()

    @tool
    async def insist() -> str:
        """Insist."""
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        asked_to_stop.set()
        await may_end.wait()
        return "late"

    stage = await set_stage(make_core, [(call("insist"),)], tools=[insist], clock=FakeClock())
    run = await stage.send()
    await stage.until(is_a(ToolStarted))
    try:
        await stopped(stage, run)
    finally:
        may_end.set()
    assert asked_to_stop.is_set()
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["cancelled"]


async def test_law_7_stop_abandons_a_tool_in_a_thread(make_core: MakeCore):
    """A tool that blocks a thread cannot be stopped; the run ends at once all the same."""
    may_end, running = threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Block."""
        running.set()
        may_end.wait(PATIENCE)
        return "late"

    stage = await set_stage(make_core, [(call("block"),)], tools=[block], clock=FakeClock())
    run = await stage.send()
    await asyncio.to_thread(running.wait, PATIENCE)
    try:
        await stopped(stage, run)
    finally:
        may_end.set()
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["cancelled"]


async def test_law_7_stop_a_queued_run(make_core: MakeCore):
    """Stop of a queued run ends it in the request itself; the run before it goes on."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), say("One."))], clock=FakeClock())
    first = await stage.send("one")
    second = await stage.send("two")
    cancelled = await stage.core.cancel(second, by=ANN, reason="never mind")
    assert cancelled.status == "cancelled"
    assert await stage.types(second) == ["message.received", "run.queued", "run.cancelling", "run.cancelled"]
    may_end.set()
    assert (await stage.done(first)).text == "One."
    assert stage.provider.calls == 1


async def test_law_7_stop_a_waiting_run(make_core: MakeCore):
    """Stop of a run that waits for a person ends it in the request itself, and cancels the call that is open."""

    @tool
    async def ask() -> Pending:
        """Ask."""
        return Pending("client")

    stage = await set_stage(make_core, [(call("ask"),)], tools=[ask], clock=FakeClock())
    run = await stage.play()
    cancelled = await stage.core.cancel(run.id, by=ANN)
    assert cancelled.status == "cancelled"
    assert not cancelled.pending
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["cancelled"]
    check_log(await stage.log())


async def test_law_7_the_next_run_starts_after_a_stop(make_core: MakeCore):
    """Stop ends one run: what was queued after it is answered next."""
    script = [(say("Half"), pause(asyncio.Event())), (say("Two."),)]
    stage = await set_stage(make_core, script, clock=FakeClock())
    first = await stage.send("one")
    await stage.asked(1)
    second = await stage.send("two")
    assert (await stage.stop(first)).status == "cancelled"
    assert (await stage.done(second)).text == "Two."


async def test_law_7_stop_twice_is_stop_once(make_core: MakeCore):
    """Stopping a run again, at the same time or later, changes nothing; so does stopping one that has ended."""
    stage = await set_stage(make_core, [(pause(asyncio.Event()),), (say("Hi."),)], clock=FakeClock())
    run = await stage.send()
    await stage.asked(1)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(stage.core.cancel(run, by=ANN) for _ in range(3)))
    assert (await stage.done(run)).status == "cancelled"
    facts = await stage.log()
    assert (await stage.core.cancel(run, by=ANN)).status == "cancelled"
    assert len(await stage.log()) == len(facts)
    assert [fact.type for fact in facts].count("run.cancelling") == 1
    ended = await stage.play()
    assert (await stage.core.cancel(ended.id, by=ANN)).status == "completed"
    check_log(await stage.log())


async def test_law_7_stop_of_an_unknown_run_is_an_error(make_core: MakeCore):
    """Stopping a run that does not exist says so."""
    stage = await set_stage(make_core, [])
    with pytest.raises(NotFound):
        await stage.core.cancel("run_nothing", by=ANN)


async def test_law_7_stop_records_actor_and_reason(make_core: MakeCore):
    """The log says who stopped a run and why, at once and in its end."""
    stage = await set_stage(make_core, [(pause(asyncio.Event()),)], clock=FakeClock())
    run = await stage.send()
    await stage.core.cancel(run, by=ANN, reason="too slow")
    await stage.done(run)
    (end,) = await stage.said(RunCancelled)
    assert (end.by, end.reason) == (ANN, "too slow")
