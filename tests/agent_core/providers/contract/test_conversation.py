"""A whole core on each wire: conversations with tools, byte-stable requests, usage, stand-ins, and a crash."""

import asyncio
from itertools import pairwise

import pytest

from agent_core.agents import Limits
from agent_core.events import (
    ContextCompacted,
    MessageCompleted,
    RunCompleted,
    StepCompleted,
    StepFailed,
    StepStarted,
    ToolCompleted,
)
from agent_core.messages import text_of
from agent_core.store.database import SqliteDatabase
from agent_core.testing import FakeClock, call, fail, raw_call, say, think, usage
from agent_core.testing.models import stall
from agent_core.tools.functions import tool
from tests.agent_core.crashing import CrashingDatabase
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import TOOLS, by_text, extends, thoughts
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES, RESPONSES
from tests.agent_core.stage import PATIENCE, asleep
from tests.polling import until

pytestmark = pytest.mark.sampled(3)

TALK = by_text(
    One=[
        [think("Two things."), say("Looking."), call("look", what="a"), call("look", what="b")],
        [think("And all."), raw_call("list_all", "")],
        [say("Both are fine.")],
    ],
    Two=[[raw_call("look", '{"what": ')], [say("   "), call("unknown"), call("look", what="ü")], [say("Sorted.")]],
    Three=[[think("Nothing to do."), say("You are welcome.")]],
)


async def test_a_conversation_with_tools_goes_well(scene, wire):
    """Three runs with parallel calls, bad arguments and unknown tools end in answers, and no request is refused."""
    stage = await scene(wire, TALK, tools=TOOLS)
    runs = [await stage.play(text) for text in ("One", "Two", "Three")]
    assert [run.status for run in runs] == ["completed"] * 3
    assert await stage.said(StepFailed) == []
    said = [text_of(message.parts) for message in await stage.said(MessageCompleted)]
    assert said[2:3] + said[-2:] == ["Both are fine.", "Sorted.", "You are welcome."]
    assert stage.line.models.calls == 7
    check_log(await stage.log())


async def test_every_request_extends_the_one_before(scene, wire):
    """What the model is sent begins with what it was sent before, byte for byte, over runs and tools."""
    stage = await scene(wire, TALK, tools=TOOLS)
    for text in ("One", "Two", "Three"):
        await stage.play(text)
    asked = stage.line.models.asked
    assert [extends(before, after, wire.sent) for before, after in pairwise(asked)] == [True] * (len(asked) - 1)


async def test_requests_extend_each_other_across_a_restart(scene, wire):
    """A window that is read from the log again after a restart sends the same bytes."""
    stage = await scene(wire, TALK, tools=TOOLS)
    await stage.play("One")
    await stage.core.stop()
    again = await scene(wire, line=stage.line, tools=TOOLS, session=stage.session)
    await again.play("Two")
    assert await again.said(StepFailed) == []
    before, after = stage.line.models.asked[2:4]
    assert extends(before, after, wire.sent)


@pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)
async def test_results_go_back_under_the_providers_own_ids(scene, wire):
    """The model reads its calls and their results under the ids that it gave them itself."""
    stage = await scene(wire, TALK, tools=TOOLS)
    await stage.play("One")
    ours = [part.call for fact in await stage.said(MessageCompleted) for part in fact.parts if hasattr(part, "call")]
    assert ours
    assert not any(id.encode() in piece for id in ours for request in stage.requests for piece in request)


async def test_usage_and_cost_are_in_the_log(scene, wire):
    """Each step has its tokens and its price, and the run their sum; the price of an unknown model is unknown."""
    counted = usage(input=1000, output=100, cache_read=500, cache_write_short=0, cache_write_long=0, reasoning=0)
    script = by_text(Go=[[call("look", what="a"), counted], [say("Fine."), counted]])
    stage = await scene(wire, script, tools=TOOLS)
    run = await stage.play("Go")
    steps = await stage.said(StepCompleted)
    assert [(s.usage.input, s.usage.output, s.usage.cache_read) for s in steps] == [(1000, 100, 500)] * 2
    prices = {"anthropic": "0.00305", "openai": "0.00305", "openai-compatible": None}
    assert [step.cost for step in steps] == [prices[wire.name]] * 2
    (end,) = await stage.said(RunCompleted)
    assert (end.usage.input, end.usage.output) == (2000, 200)
    assert end.cost == (None if wire is CHAT else "0.00610")
    assert run.status == "completed"


async def test_a_fallback_answers_after_a_failure_before_the_first_token(scene, wire):
    """When the model is unavailable its fallback answers the whole run, as the log says; the next run retries it."""

    def script(asked):
        if asked.model == wire.model and asked.text == "One":
            return [fail("quota")]
        return [think("Hm."), call("look", what="a")] if asked.step == 0 else [think("So."), say("Done.")]

    stage = await scene(wire, script, tools=TOOLS, fallback_models=(wire.full_other,))
    one, two = await stage.play("One"), await stage.play("Two")
    assert [asked.model for asked in stage.line.models.asked] == [wire.model, wire.other, wire.other, *[wire.model] * 2]
    started = [fact.body for fact in await stage.log() if isinstance(fact.body, StepStarted) and fact.run == one.id]
    models = [step.controls["model"] for step in started if step.controls]
    assert models[:2] == [wire.full, wire.full_other]
    assert (one.status, two.status) == ("completed", "completed")
    assert [failed.code for failed in await stage.said(StepFailed)] == ["quota"]


async def test_a_fallback_takes_over_in_the_middle_of_a_run_for_that_run_only(scene, wire):
    """Each model gets its own reasoning back, and only the plain text of the other's answers, run after run."""

    def script(asked):
        if asked.model == wire.model and asked.step == 1 and asked.text != "Three":
            return [fail("quota")]
        return (
            [think(f"{asked.model}."), call("look", what=asked.text)] if asked.step < 2 else [think("So."), say("Ok.")]
        )

    stage = await scene(wire, script, tools=TOOLS, fallback_models=(wire.full_other,))
    runs = [await stage.play(text) for text in ("One", "Two", "Three")]
    assert [run.status for run in runs] == ["completed"] * 3
    assert [failed.code for failed in await stage.said(StepFailed)] == ["quota"] * 2
    last = stage.line.models.asked[-1]
    assert last.model == wire.model
    assert thoughts(last) == (0 if wire is CHAT else 4)


async def test_a_fallback_may_use_another_wire(scene, dial, wire):
    """A stand-in of another provider takes a conversation up in the middle: history, calls and results."""
    other = {MESSAGES: RESPONSES, RESPONSES: CHAT, CHAT: MESSAGES}[wire]
    stand_in = await dial(other, lambda asked: [think("Mine."), say("I am the stand-in.")])

    def script(asked):
        if asked.text == "One":
            return [think("Hm."), call("look", what="a")] if asked.step == 0 else [fail("auth")]
        return [say("I am back.")]

    stage = await scene(wire, script, tools=TOOLS, stand_in=stand_in, fallback_models=(other.full,))
    one, two = await stage.play("One"), await stage.play("Two")
    assert (one.status, two.status) == ("completed", "completed")
    said = [text_of(message.parts) for message in await stage.said(MessageCompleted)]
    assert said[1:] == ["I am the stand-in.", "I am back."]
    assert b"a is fine" in stand_in.models.asked[0].raw


async def test_no_fallback_after_the_first_token(scene, wire):
    """Once something was shown the same model is asked again: two models do not write one answer."""
    answers = iter([[say("Half"), fail("error")], [say("Whole.")]])
    clock = FakeClock()
    stage = await scene(wire, lambda asked: next(answers), clock=clock, fallback_models=(wire.full_other,))
    run = await stage.send("Go")
    await asleep(clock, 3)
    clock.advance(5)
    assert (await stage.done(run)).status == "completed"
    assert [asked.model for asked in stage.line.models.asked] == [wire.model] * 2


async def test_the_wait_that_the_provider_asks_for_is_kept(scene, wire):
    """After a 429 with `retry-after` the model is not asked a moment earlier, and then answers."""
    clock = FakeClock()
    answers = iter([[fail("rate_limited", retry_after=30)], [say("Now.")]])
    stage = await scene(wire, lambda asked: next(answers), clock=clock)
    run = await stage.send("Go")
    await asleep(clock, 3)
    clock.advance(29.5)
    await asleep(clock, 3)
    assert stage.line.models.calls == 1
    clock.advance(0.6)
    assert (await stage.done(run)).status == "completed"
    (failure,) = await stage.said(StepFailed)
    assert (failure.code, failure.retry_after) == ("rate_limited", 30)


async def test_a_429_without_a_wait_is_tried_again(scene, wire):
    """Without `retry-after` the loop uses its own backoff."""
    clock = FakeClock()
    answers = iter([[fail("rate_limited")], [say("Now.")]])
    stage = await scene(wire, lambda asked: next(answers), clock=clock)
    run = await stage.send("Go")
    await asleep(clock, 3)
    clock.advance(1)
    assert (await stage.done(run)).status == "completed"


async def test_a_stop_ends_the_model_call_and_keeps_the_text(scene, wire):
    """A person's Stop reaches the provider, and the partial answer is sent back as plain text in the next run."""
    answers = iter([[think("Hm."), say("Half an answer"), stall()], [say("Next.")]])
    stage = await scene(wire, lambda asked: next(answers))
    run = await stage.send("One")
    await stage.until(lambda event: event.type == "text.delta")
    assert (await stage.stop(run)).status == "cancelled"
    await until(lambda: not stage.line.models.open)
    assert (await stage.play("Two")).status == "completed"
    assert b"Half an answer" in b"".join(stage.requests[1])


async def test_a_crash_in_the_middle_of_a_tool_loop_replays_the_thinking(scene, wire, database_path):
    """After a crash the next process sends the same thinking again, byte for byte: the check lets it pass."""
    database = CrashingDatabase(SqliteDatabase(database_path))
    lives = []

    @tool
    async def look(what: str) -> str:
        """Look something up."""
        if what == "b" and not lives:
            lives.append("first")
            database.crashed.set()
        return f"{what} is fine"

    steps = [[think("First a."), call("look", what="a")], [think("Then b."), call("look", what="b")], [say("Done.")]]
    stage = await scene(wire, by_text(Go=steps), tools=[look], database=database)
    run = await stage.send("Go")
    async with asyncio.timeout(PATIENCE):
        await database.crashed.wait()
    again = await scene(wire, line=stage.line, tools=[look], session=stage.session)
    assert (await again.done(run)).status == "completed"
    before, after = stage.line.models.asked[1:]
    assert extends(before, after, wire.sent)
    assert (thoughts(before), thoughts(after)) == ((0, 0) if wire is CHAT else (1, 2))
    assert len(await again.said(ToolCompleted)) == 2
    assert await again.said(StepFailed) == []


@pytest.mark.parametrize("limit", [6])
async def test_a_cut_window_leaves_earlier_thinking_out(scene, wire, limit):
    """When the window is cut, requests stay valid: pairs of calls and results whole, and no thinking from before."""

    def script(asked):
        return [think(f"{asked.text} {asked.step}"), call("look", what=asked.text)] if asked.step == 0 else [say("Ok.")]

    stage = await scene(wire, script, tools=TOOLS, limits=Limits(limit))
    for text in ("One", "Two", "Three", "Four"):
        assert (await stage.play(text)).status == "completed"
    assert len(await stage.said(ContextCompacted)) >= 1
    assert await stage.said(StepFailed) == []
