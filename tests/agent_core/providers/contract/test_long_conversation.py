"""A conversation that grows beyond what its model takes, on each wire: the vendor refuses it, and nothing is lost."""

from typing import Any

import pytest

from agent_core.agent.entries import ASKED
from agent_core.agents import Compaction, Limits
from agent_core.events import ContextCompacted, StepFailed
from agent_core.testing import call, say, think
from agent_core.testing.models import ModelCall
from agent_core.testing.models.server import Options
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import TOOLS
from tests.agent_core.providers.contract.wires import RESPONSES, Wire

pytestmark = pytest.mark.whole

CONTEXT = 5_000
ENDLESS = Limits(None)
SMALL = {"options": Options(contexts={"": CONTEXT})}


def sums_up(asked: ModelCall) -> bool:
    return ASKED.encode() in asked.raw


def talkative(asked: ModelCall) -> list[Any]:
    """Think, look something up, and answer at some length; sum up when asked to."""
    if sums_up(asked):
        return [think("What matters?"), say("They talked. The order is A-1001/7.")]
    if asked.step == 0:
        return [think("Hm."), call("look", what=asked.text[:40])]
    return [think("Well."), say(f"Done with {asked.text[:10]}. " * 20)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["summary", "cut"])
async def test_a_conversation_that_grew_too_long_goes_on(scene, wire: Wire, kind):
    """Its vendor's refusal is answered with room: every message gets its answer, with thinking and tools between."""
    policy = Compaction(kind=kind, model=wire.full if kind == "summary" else None)
    stage = await scene(wire, talkative, tools=TOOLS, limits=ENDLESS, compaction=policy, server=SMALL)
    for n in range(10):
        run = await stage.play(f"Message {n}: {'word ' * 300}")
        assert run.status == "completed", run.error
    failures = {failed.code for failed in await stage.said(StepFailed)}
    assert failures == {"context_overflow"}
    made = await stage.said(ContextCompacted)
    assert {each.kind for each in made} == {kind}
    assert (await stage.play("And now?")).status == "completed"
    if kind == "summary":
        assert "A-1001/7" in str(stage.line.models.asked[-1].body)
    check_log(await stage.log())


async def test_a_message_that_can_never_fit_ends_its_run_alone(scene, wire: Wire):
    """A giant message fails as what it is, says so, and the conversation goes on without it."""
    stage = await scene(wire, talkative, tools=TOOLS, limits=ENDLESS, compaction=Compaction(), server=SMALL)
    await stage.play("Hello")
    run = await stage.play(f"Giant {'word ' * 8_000}")
    assert run.error
    assert run.error.code == "context_overflow"
    assert "too long" in run.error.message
    for n in range(3):
        assert (await stage.play(f"Again {n}")).status == "completed"
    assert "A-1001/7" in str(stage.line.models.asked[-1].body), "what it said is summed up, as far as it can be read"


async def test_a_summary_reads_the_cache(scene):
    """The fork has the bytes of the last request: on its own model it is read from the cache, not written again."""
    policy = Compaction(model=RESPONSES.full)
    limits = Limits(max_context_messages=12)
    stage = await scene(RESPONSES, talkative, tools=TOOLS, limits=limits, compaction=policy)
    for n in range(5):
        await stage.play(f"Message {n}: {'word ' * 900}")
    made = (await stage.said(ContextCompacted))[0]
    assert made.usage is not None
    read, fresh = made.usage.cache_read or 0, (made.usage.input or 0) + (made.usage.cache_write_short or 0)
    assert read > 4 * fresh, made.usage
    assert made.cost is not None
