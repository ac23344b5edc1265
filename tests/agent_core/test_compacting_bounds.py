"""How long a summary may take and be, and what is asked once more: no one waits for ever, and no half text counts."""

import asyncio

import pytest

from agent_core.agents import Limits
from agent_core.events import CompactionFailed, ContextCompacted
from agent_core.providers.base import Request
from agent_core.runtime.compacting import PATIENCE
from agent_core.testing import FakeClock, call, finish, pause, say
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from tests.agent_core.stage import asleep, set_stage
from tests.agent_core.test_compacting import PAID, SUMMARY, answering, asks_for_summary
from tests.conftest import MakeCore

pytestmark = pytest.mark.whole


async def test_a_cut_summary_that_is_as_long_as_it_may_be_counts(make_core: MakeCore):
    """A model that goes on beyond what was asked for has said enough."""
    script = answering(say("word " * 2_000), finish("length"))
    stage = await set_stage(make_core, script, limits=Limits(max_context_messages=4), compaction=SUMMARY)
    for n in range(3):
        await stage.play(f"m{n}")
    (made,) = await stage.said(ContextCompacted)
    assert made.kind == "summary"
    assert not await stage.said(CompactionFailed)


async def test_a_model_that_calls_a_tool_is_asked_without(make_core: MakeCore):
    """The first request reads the cache; where the model calls a tool, the next try forbids it."""

    @tool
    async def look() -> str:
        """Look."""
        return "fine"

    def script(request: Request) -> Answer:
        if not asks_for_summary(request):
            return (say("Fine."),)
        return (PAID, say("They talked.") if request.controls.tool_choice == "none" else call("look"))

    tiny = Limits(max_context_messages=4)
    stage = await set_stage(make_core, script, tools=[look], limits=tiny, compaction=SUMMARY)
    for n in range(4):
        await stage.play(f"m{n}")
    (made,) = await stage.said(ContextCompacted)
    assert made.summary == "They talked."
    assert [failed.code for failed in await stage.said(CompactionFailed)] == ["tool_called"]


async def test_no_one_waits_for_ever_for_a_summary(make_core: MakeCore):
    """What was used until then is billed, and the step is asked with the window as it is."""
    clock, hold = FakeClock(), asyncio.Event()
    script, tiny = answering(PAID, pause(hold)), Limits(max_context_messages=4)
    stage = await set_stage(make_core, script, clock=clock, limits=tiny, compaction=SUMMARY)
    for n in range(2):
        await stage.play(f"m{n}")
    run = await stage.send("m2")
    await stage.asked(3)
    await asleep(clock, 3)
    clock.advance(PATIENCE)
    assert (await stage.done(run)).text == "You said m2."
    (failed,) = await stage.said(CompactionFailed)
    assert (failed.code, failed.usage and failed.usage.input) == ("timeout", 1_000)
    assert stage.provider.open == 0
    hold.set()
