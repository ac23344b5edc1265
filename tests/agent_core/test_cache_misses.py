"""Cache misses in the log: appended with the step that missed, the same after a restart, and billed with the run."""

from typing import Any

import pytest
import structlog

from agent_core.agents import Controls
from agent_core.channels import Inbound
from agent_core.controls import Abilities, Caching
from agent_core.events import CacheMissed, StepCompleted, StepFailed, StepStarted
from agent_core.messages import Text, Usage
from agent_core.providers.base import find, of_anthropic
from agent_core.testing import Answer, FakeClock, ScriptedProvider, call, fail, say, usage
from agent_core.tools.functions import tool
from tests.agent_core.stage import ANN, Stage
from tests.conftest import MakeCore

ABLE = Abilities(withholds=False, caching=Caching(vendor="anthropic", least=512, short_s=300, long_s=3_600))


@tool
async def look() -> str:
    """Look."""
    return "fine"


def billed(read: int, written: int) -> Any:
    return usage(input=3, output=10, reasoning=0, cache_read=read, cache_write_short=written, cache_write_long=0)


async def begin(
    make_core: MakeCore, answers: list[Answer], stage: Stage | None = None, *, able: Abilities = ABLE, **options: Any
) -> Stage:
    """Start a core whose model has a cache, on the session of *stage* if there is one."""
    if stage is not None:
        await stage.core.stop(grace=1.0)
    provider = ScriptedProvider(answers, able=able)
    core = await make_core(provider, tools=(look,), **options)
    session = stage.session if stage else (await core.open_session(agent="assistant", actor=ANN)).id
    return Stage(core, provider, session)


async def misses(stage: Stage) -> list[CacheMissed]:
    return await stage.said(CacheMissed)


async def test_miss_is_appended_after_the_step_that_missed(make_core: MakeCore):
    """A step that read less than the one before it cached is followed by the fact, and by a line without any text."""
    stage = await begin(
        make_core,
        [(call("look"), billed(0, 9_000)), (call("look"), billed(2_000, 8_000)), (say("Secret."), billed(10_000, 90))],
    )
    with structlog.testing.capture_logs() as lines:
        run = await stage.play("My password")
    assert await misses(stage) == [CacheMissed(n=2, expected=9_000, read=2_000, cause="evicted")]
    types = await stage.types(run.id)
    assert types[types.index("cache.missed") - 1] == "step.completed"
    (line,) = [line for line in lines if line["event"] == "cache.missed"]
    wanted = {"step": 2, "expected": 9_000, "read": 2_000, "cause": "evicted", "log_level": "warning"}
    assert {name: line[name] for name in wanted} == wanted
    assert "password" not in str(lines)


async def test_miss_is_the_same_after_a_restart(make_core: MakeCore):
    """A process that rebuilt the session from its log judges the next call as the one before it would have."""
    clock = FakeClock(1_000_000)
    stage = await begin(make_core, [(say("One."), billed(0, 9_000))], clock=clock)
    await stage.play("one")
    clock.advance(200)
    stage = await begin(make_core, [(say("Two."), billed(0, 9_500))], stage, clock=clock)
    await stage.play("two")
    clock.advance(301)
    stage = await begin(make_core, [(say("Three."), billed(0, 9_900))], stage, clock=clock)
    await stage.play("three")
    assert [(miss.expected, miss.cause) for miss in await misses(stage)] == [(9_000, "evicted"), (9_500, "expired")]


async def test_run_with_its_own_instructions_misses_by_its_system_text(make_core: MakeCore):
    """The snapshots of both calls are compared; the log line names the part, the step's note said it beforehand."""
    stage = await begin(make_core, [(say("One."), billed(0, 9_000)), (say("Two."), billed(1_000, 8_000))])
    await stage.play("one")
    with structlog.testing.capture_logs() as lines:
        inbound = Inbound(parts=(Text("two"),), actor=ANN, instructions="Be rude.")
        await stage.done((await stage.core.receive(stage.session, inbound)).run)
    assert [(miss.n, miss.cause) for miss in await misses(stage)] == [(1, "system")]
    assert [line["changed"] for line in lines if line["event"] == "cache.missed"] == ["instructions"]
    (_, second) = await stage.said(StepStarted)
    assert [line["note"] for line in lines if line["event"] == "cache.changed"] == [second.cache_note]
    assert second.cache_note
    assert "rude" not in str(lines)


@pytest.mark.parametrize("off", ["run", "agent"])
async def test_nothing_is_missed_where_nothing_is_marked(make_core: MakeCore, off: str):
    """With `prompt_caching: false` a cold call is what was asked for."""
    definition = {"prompt_caching": False} if off == "agent" else None
    controls = {"prompt_caching": False} if off == "run" else {}
    stage = await begin(
        make_core, [(say("One."), billed(0, 9_000)), (say("Two."), billed(0, 0))], definition=definition
    )
    await stage.play("one")
    await stage.play("two", **controls)
    assert await misses(stage) == []


async def test_run_sums_what_each_of_its_calls_used(make_core: MakeCore):
    """Each step has the figures of its own request; the run has their sum, a failed try that was billed included."""
    script: list[Answer] = [
        (say("Half"), billed(0, 9_000), fail("network", retry_after=0.0)),
        (call("look"), billed(9_000, 100)),
        (say("Done."), billed(9_100, 50)),
    ]
    stage = await begin(make_core, script, definition={"controls": Controls(max_steps=5)})
    run = await stage.play()
    steps = await stage.said(StepCompleted)
    assert [(step.usage.cache_read, step.usage.cache_write_short) for step in steps] == [(9_000, 100), (9_100, 50)]
    (tried,) = await stage.said(StepFailed)
    assert tried.usage == Usage(3, 10, 0, 0, 9_000, 0)
    assert run.usage == Usage(9, 30, 0, 18_100, 9_150, 0)
    assert await misses(stage) == []


async def test_fallback_model_is_noted_and_misses(make_core: MakeCore):
    """A fallback that takes over in a session says what that costs, and its cold cache is explained."""
    answers: list[Answer] = [
        (say("One."), billed(0, 9_000)),
        (fail("auth", retryable=False),),
        (say("Two."), billed(0, 9_050)),
        (say("Three."), billed(0, 9_100)),
    ]
    stage = await begin(make_core, answers, definition={"fallback_models": ("scripted:b",)})
    await stage.play("one")
    await stage.play("two")
    await stage.play("three")
    notes = [step.cache_note for step in await stage.said(StepStarted)]
    lost = "nothing of the prompt is read from the cache, all of it is written again."
    assert notes == [
        None,
        None,
        f"`model` changed from scripted to scripted:b: {lost}",
        f"`model` changed from scripted:b to scripted: {lost}",
    ]
    assert [miss.cause for miss in await misses(stage)] == ["model", "model"]


@pytest.mark.parametrize(
    ("model", "missed"), [("claude-sonnet-4-5", []), ("claude-haiku-4-5", []), ("claude-opus-4-5", ["evicted"])]
)
async def test_model_that_forgets_its_thinking_misses_nothing_by_it(make_core: MakeCore, model: str, missed: list[str]):
    """Sonnet and Haiku 4.5 leave earlier thinking out when a person writes again, Opus keeps it."""
    able = Abilities(caching=of_anthropic(find(f"anthropic:{model}")))
    answers: list[Answer] = [(say("One."), billed(0, 90_000)), (say("Two."), billed(10_000, 80_000))]
    stage = await begin(make_core, answers, able=able, definition={"instructions": "Be brief. " * 6_000})
    await stage.play("one", effort="high")
    await stage.play("two", effort="high")
    assert [miss.cause for miss in await misses(stage)] == missed
