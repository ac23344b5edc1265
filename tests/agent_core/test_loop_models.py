"""The loop with models that stand in for each other, that refuse their own thoughts, and that cost money."""

import pytest

from agent_core.agent.state import REPAIR
from agent_core.agent.strategy import backoff
from agent_core.agents import Controls
from agent_core.events import ContextAdded, ContextCompacted, SnapshotFrozen, StepCompleted, StepFailed, StepStarted
from agent_core.messages import UNKNOWN_USAGE, explanation
from agent_core.providers.base import find
from agent_core.testing import FakeClock, call, fail, say, think, usage
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import Stage, asleep, set_stage
from tests.conftest import MakeCore

IDLE = 2
STAND_INS = ("scripted:second", "scripted:third")
PRICED = "anthropic:claude-sonnet-5-5"
busy = (fail(retry_after=60.0),)
"""An overload that lasts longer than a wait for which a fallback model is kept."""


@tool
async def look() -> str:
    """Look."""
    return "fine"


async def models(stage: Stage) -> list[str | None]:
    """Return the models that were asked, in order."""
    assert [request for request in stage.provider.requests if request.model not in ("", "second", "third")] == []
    return [request.model for request in stage.provider.requests]


async def test_fallback_answers_for_an_overloaded_model(make_core: MakeCore):
    """A model that asks for a long pause is stood in for at once, to the end of the run; the log says by which."""
    script = [busy, (call("look"),), (say("Fine."),), (say("Back again."),)]
    stage = await set_stage(make_core, script, tools=[look], stand_ins=STAND_INS)
    run = await stage.play()
    assert (run.status, run.text) == ("completed", "Fine.")
    assert await models(stage) == ["", "second", "second"]
    chosen = [step.controls["model"] for step in await stage.said(StepStarted) if step.controls]
    assert chosen == ["scripted", "scripted:second"], "recorded when it changes"
    (failed,) = await stage.said(StepFailed)
    assert (failed.code, failed.partial) == ("overloaded", False)
    assert (await stage.play("Again")).text == "Back again."
    assert (await models(stage))[-1] == "", "the next run begins with the agent's own model"
    check_log(await stage.log())


async def test_a_short_pause_is_given_to_the_model_itself_once(make_core: MakeCore):
    """A single network error costs a short pause; the second one in a row changes the model."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(fail(),), (fail(),), (say("Hi."),)], clock=clock, stand_ins=STAND_INS)
    run = await stage.send()
    await asleep(clock, IDLE + 1)
    clock.advance(backoff(run, 1, longer=True))
    assert (await stage.done(run)).text == "Hi."
    assert await models(stage) == ["", "", "second"]


@pytest.mark.parametrize("kind", ["auth", "quota", "misconfigured"])
async def test_fallback_answers_for_a_model_that_fails_permanently(make_core: MakeCore, kind):
    """A key, an account or a name that does not work leaves the work to the stand-ins, one after the other."""
    broken = (fail(kind, retryable=False),)
    stage = await set_stage(make_core, [broken, broken, (say("Hi."),)], stand_ins=STAND_INS)
    assert (await stage.play()).text == "Hi."
    assert await models(stage) == ["", "second", "third"]


async def test_without_further_fallback_the_last_failure_counts(make_core: MakeCore):
    """The run fails with what the last model said, in words for the person and in others for the operator."""
    script = [busy, busy, (fail("quota", retryable=False, message="Pay the bill."),)]
    stage = await set_stage(make_core, script, stand_ins=STAND_INS)
    run = await stage.play()
    assert run.error
    assert (run.error.code, run.error.message, run.error.detail) == (
        "provider_error",
        explanation("quota"),
        "Pay the bill.",
    )


async def test_invalid_request_does_not_go_to_the_fallback(make_core: MakeCore):
    """A request that is itself at fault is not tried on one model after the other."""
    stage = await set_stage(make_core, [(fail("invalid", retryable=False),)], stand_ins=STAND_INS)
    assert (await stage.play()).status == "failed"
    assert await models(stage) == [""]


async def test_context_overflow_goes_to_the_fallback(make_core: MakeCore):
    """A stand-in may have a larger window, once nothing more can be left out; else the run fails as what it is."""
    full = (fail("context_overflow", retryable=False),)
    stage = await set_stage(make_core, [full, (say("It fits."),), *[full] * 4], stand_ins=STAND_INS)
    assert (await stage.play("word " * 1_000)).text == "It fits."
    run = await stage.play("More")
    assert run.error
    assert run.error.code == "context_overflow"
    assert [cut.kind for cut in await stage.said(ContextCompacted)] == ["cut"]
    assert await models(stage) == ["", "second", "", "", "second", "third"]


async def test_fallback_does_not_take_over_a_shown_answer(make_core: MakeCore):
    """Once a word was shown the same model is retried: no answer mixes two models."""
    script = [(say("Half an"), fail(retry_after=60.0)), (say("A whole answer."),)]
    clock = FakeClock()
    stage = await set_stage(make_core, script, clock=clock, stand_ins=STAND_INS)
    run = await stage.send()
    await asleep(clock, IDLE + 1)
    clock.advance(60)
    assert (await stage.done(run)).text == "A whole answer."
    assert await models(stage) == ["", ""]
    (failed,) = await stage.said(StepFailed)
    assert failed.partial


async def test_what_was_shown_counts_for_the_whole_step(make_core: MakeCore):
    """A later try that fails before its first word does not hand the step on either: half of it was read already."""
    cold = (fail("overloaded", retry_after=60.0),)
    script = [(say("Half an"), fail(retry_after=0.0)), cold, (say("A whole answer."),)]
    clock = FakeClock()
    stage = await set_stage(make_core, script, clock=clock, stand_ins=STAND_INS)
    run = await stage.send()
    await stage.asked(2)
    await asleep(clock, IDLE + 1)
    clock.advance(60)
    assert (await stage.done(run)).text == "A whole answer."
    assert await models(stage) == ["", "", ""]


async def test_a_repair_leaves_the_model_its_second_try(make_core: MakeCore):
    """A repair of refused reasoning is no failure of the model: the network error after it counts as the first."""
    stale, lost = fail("stale_reasoning", retryable=False), fail("network", retry_after=0.0)
    stage = await set_stage(make_core, [(stale,), (lost,), (say("Hi."),)], stand_ins=STAND_INS)
    assert (await stage.play()).text == "Hi."
    assert await models(stage) == ["", "", ""]


async def test_no_pause_is_granted_once(make_core: MakeCore):
    """A provider that asks to be asked again at once, again and again, is given growing pauses all the same."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(fail(retry_after=0.0),)] * 2 + [(say("Hi."),)], clock=clock)
    run = await stage.send()
    await stage.asked(2)
    await asleep(clock, IDLE + 1)
    clock.advance(backoff(run, 2, longer=True))
    assert (await stage.done(run)).text == "Hi."


async def test_refused_reasoning_is_left_out_from_then_on(make_core: MakeCore):
    """A model that refuses its earlier thinking is asked once more without it; the log tells, and it stays out."""
    stale = (fail("stale_reasoning", retryable=False),)
    script = [(think("Hm."), call("look")), stale, (think("Well."), say("Fine.")), (say("Yes."),)]
    stage = await set_stage(make_core, script, tools=[look])
    assert (await stage.play()).text == "Fine."
    await stage.play("Sure?")
    frozen = [body for body in await stage.said(SnapshotFrozen) if body.reason == REPAIR]
    assert [body.hash for body in frozen] == [stage.provider.requests[0].snapshot.hash]
    before, after, later = stage.provider.requests[1:]
    assert b"Hm." in b"".join(entry.wire for entry in before.messages)
    assert b"Hm." not in b"".join(entry.wire for entry in after.messages)
    assert b"Hm." not in b"".join(entry.wire for entry in later.messages)
    assert b"Well." in b"".join(entry.wire for entry in later.messages)
    check_log(await stage.log())


async def test_reasoning_is_dropped_once_per_step(make_core: MakeCore):
    """A model that refuses again fails the run; a later step may be repaired again."""
    stale = (fail("stale_reasoning", retryable=False),)
    stage = await set_stage(make_core, [stale, (call("look"),), stale, (say("Fine."),), stale, stale], tools=[look])
    assert (await stage.play()).text == "Fine."
    run = await stage.play("Again")
    assert run.error
    assert run.error.message == explanation("stale_reasoning")
    assert sum(body.reason == REPAIR for body in await stage.said(SnapshotFrozen)) == 3


async def test_a_repair_takes_a_message_that_came_meanwhile(make_core: MakeCore):
    """What a step takes is named rightly with a repair before it: a note of the same append, and no other fact."""
    script = [(think("Hm."),), (fail("stale_reasoning", retryable=False),), (say("Fine."),)]
    stage = await set_stage(make_core, script)
    assert (await stage.play()).text == "Fine."
    log = await stage.log()
    (note,) = [fact.seq for fact in log if isinstance(fact.body, ContextAdded)]
    takes = [fact.body.takes for fact in log if isinstance(fact.body, StepStarted)]
    assert takes[1:] == [(note,), ()]


async def test_what_a_run_cost_is_added_up(make_core: MakeCore):
    """Each step has its price from the table of models, a failed try that was billed too, and the run their sum."""
    price = find(PRICED).price
    assert price
    used = usage(input=1000, output=100, cache_read=2000, cache_write_short=0, cache_write_long=0)
    one = (1000 * price.input + 100 * price.output + 2000 * (price.read or 0)) / 1_000_000
    script = [(used, say("Half"), fail(retry_after=0.0)), (call("look"), used), (say("Fine."), used)]
    stage = await set_stage(make_core, script, tools=[look], controls=Controls(model=PRICED), name="anthropic")
    run = await stage.play()
    assert [body.cost for body in await stage.said(StepCompleted)] == [f"{one.normalize():f}"] * 2
    assert [body.cost for body in await stage.said(StepFailed)] == [f"{one.normalize():f}"]
    assert run.cost == f"{3 * one:f}".rstrip("0")
    assert run.usage.output == 300


async def test_what_is_not_known_costs_null(make_core: MakeCore):
    """A model without a price, or a step without counts, makes the sum unknown, never nothing."""
    stage = await set_stage(make_core, [(say("Hi."), usage(input=1, output=1)), (say("Hi."),)])
    priceless, uncounted = await stage.play(), await stage.play(model="scripted:x")
    assert (priceless.cost, uncounted.cost) == (None, None)
    assert uncounted.usage == UNKNOWN_USAGE
