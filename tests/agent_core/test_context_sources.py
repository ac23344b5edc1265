"""Context sources: asked before a run's first step, in the log before the step, and never in the way of an answer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_core.agent.snapshot import ContextText, RunOpening
from agent_core.agents import Definition, Hook, Limits
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.events import ContextAdded, Fact, StepStarted
from agent_core.messages import Actor, Text, text_of
from agent_core.objects import RunObject
from agent_core.runtime import offers
from agent_core.store.database import Database
from agent_core.testing import FakeClock, ScriptedProvider, call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.crashing import CrashingDatabase, Side
from tests.agent_core.laws import check_log
from tests.agent_core.raising import RAISED
from tests.agent_core.remembering import Remembering
from tests.agent_core.stage import ANN, PATIENCE, Stage, asleep, set_stage, texts
from tests.conftest import Fresh, MakeCore

BOB = Actor("bob", "user")
TEA = ContextAdded(source="memory", text="Ann drinks tea.", by="memories")


def tea() -> Remembering:
    return Remembering({"ann": ["Ann drinks tea."]})


@tool
async def look() -> str:
    """Look."""
    return "Nothing."


class Failing:
    """A source that raises."""

    name = "failing"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def context(self, _opening: RunOpening, /) -> Sequence[ContextText]:
        raise self.error


class SilentSource:
    """A source that never answers."""

    name = "slow"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def context(self, _opening: RunOpening, /) -> Sequence[ContextText]:
        self.asked.set()
        return await asyncio.Future[Sequence[ContextText]]()


async def stage_with(make_core: MakeCore, *given: Any, script: Any = None, **options: Any) -> Stage:
    """Give a stage whose core asks *given*."""
    return await set_stage(make_core, script or [(say("Tea?"),)] * 4, context_sources=given, **options)


def taken(log: Sequence[Fact], run: str) -> list[str]:
    """Return the types of the facts that the run's first step takes, as the model reads them."""
    step = next(fact.body for fact in log if fact.run == run and isinstance(fact.body, StepStarted))
    by_seq = {fact.seq: fact.type for fact in log}
    return [by_seq[seq] for seq in step.takes]


async def test_what_a_source_gives_is_read_by_the_model(make_core: MakeCore):
    """A memory follows the message in the first request, and is a fact that the first step takes."""
    memories = tea()
    stage = await stage_with(make_core, memories)
    run = await stage.play("What do I drink?")
    assert texts(await stage.asked(1)) == [("user", "What do I drink?"), ("user", "[memory] Ann drinks tea.")]
    log = await stage.log()
    assert [fact.body for fact in log if isinstance(fact.body, ContextAdded)] == [TEA]
    assert taken(log, run.id) == ["message.received", "context.added"]
    (opening,) = memories.asked
    assert (opening.session, opening.run, opening.actor) == (stage.session, run.id, ANN)
    assert [text_of(message.parts) for message in opening.messages] == ["What do I drink?"]
    check_log(log)


async def test_a_queued_run_asks_as_it_starts(make_core: MakeCore):
    """A run that waited in the queue asks the sources as well, about its own message."""
    memories, gate = tea(), asyncio.Event()
    stage = await stage_with(make_core, memories, script=[(pause(gate), say("One.")), (say("Two."),)])
    first = await stage.send("one", actor=BOB)
    second = await stage.send("two")
    await stage.asked(1)
    gate.set()
    await stage.done(first)
    await stage.done(second)
    assert [(each.run, each.actor, text_of(each.messages[-1].parts)) for each in memories.asked] == [
        (first, BOB, "one"),
        (second, ANN, "two"),
    ]
    log = await stage.log()
    assert taken(log, first) == ["message.received"]
    assert taken(log, second) == ["message.received", "context.added"]
    assert texts(await stage.asked(2))[-1] == ("user", "[memory] Ann drinks tea.")


async def test_a_run_asks_once(make_core: MakeCore):
    """The later steps of a run do not ask again, whether the source gave something or not."""
    memories = tea()
    script = [(call("look"),), (say("One."),), (call("look"),), (say("Two."),)]
    stage = await stage_with(make_core, memories, script=script, tools=(look,))
    await stage.play("one")
    await stage.done(await stage.send("two", actor=BOB))
    assert len(stage.provider.requests) == 4
    assert [each.actor for each in memories.asked] == [ANN, BOB]
    assert [each for each in await stage.said(ContextAdded) if each.source == "memory"] == [TEA]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("at", range(3, 9))
async def test_a_crash_adds_nothing_twice(fresh: Fresh, at: int, side: Side):
    """Wherever a process dies, the log has the memory once; a source is asked again only if nothing of it was kept."""
    memories = tea()
    with fresh() as open_database:
        database = CrashingDatabase(open_database(), at, side)
        async with core_on(database, memories) as core:
            work = asyncio.create_task(talk(core))
            crash = asyncio.create_task(database.crashed.wait())
            await asyncio.wait((work, crash), return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            crash.cancel()
            await asyncio.wait((work, crash))
        asked = len(memories.asked)
        async with core_on(open_database(), memories) as core:
            run = await talk(core)
            log = [event async for batch in core.follow(run.session, until_idle=True) for event in batch]
    facts = [event for event in log if isinstance(event, Fact)]
    check_log(facts)
    assert [fact.body for fact in facts if isinstance(fact.body, ContextAdded)] == [TEA]
    step = next(fact for fact in facts if isinstance(fact.body, StepStarted))
    assert len(memories.asked) <= 2
    before = kept[0] if (kept := [fact for fact in facts if fact.type == "run.resumed"]) else None
    if before is not None and step.seq < before.seq:  # the crash came when the step was announced
        assert (asked, len(memories.asked)) == (1, 1)


@asynccontextmanager
async def core_on(database: Database, memories: Remembering) -> AsyncIterator[Core]:
    provider = ScriptedProvider(lambda _: [say("Tea.")])
    core = Core(database, providers={"s": provider}, tools={}, default_model="s", context_sources=(memories,))
    try:
        yield core
    finally:
        await core.stop(grace=1.0)


async def talk(core: Core) -> RunObject:
    """Ask one question, once, and see it answered."""
    await core.start()
    if not (await core.agents.list()).items:
        await core.agents.create(Definition(name="a", instructions=""))
    session = await core.open_session(agent="a", actor=ANN, address="test:1")
    question = Inbound(parts=(Text("What do I drink?"),), actor=ANN, key="q")
    return await core.settled((await core.receive(session.id, question)).run, timeout=PATIENCE)


async def test_a_source_that_fails_keeps_no_answer_back(make_core: MakeCore):
    """A source that raises is logged by name, without its words, and the others are read."""
    errors = [ConnectionError("password=secret"), *(error for error, _ in RAISED)]
    stage = await stage_with(make_core, *map(Failing, errors), tea())
    with capture_logs() as logs:
        assert (await stage.play()).status == "completed"
    assert await stage.said(ContextAdded) == [TEA]
    lines = [(line["source"], line["error"]) for line in logs if line["event"] == "context.failed"]
    assert lines == [("failing", type(error).__name__) for error in errors]
    assert "secret" not in str(logs)


async def test_a_source_that_takes_too_long_is_left_out(make_core: MakeCore):
    """After two seconds of the core's clock the run goes on with what has come by then."""
    slow, clock = SilentSource(), FakeClock()
    stage = await stage_with(make_core, slow, tea(), clock=clock)
    with capture_logs() as logs:
        run = await stage.send()
        await slow.asked.wait()
        await asleep(clock, 3)  # the sweep, the heartbeat and the bound of time
        clock.advance(offers.TIMEOUT)
        assert (await stage.done(run)).status == "completed"
    assert await stage.said(ContextAdded) == [TEA]
    assert [line["source"] for line in logs if line["event"] == "context.timeout"] == ["slow"]


async def test_a_source_says_how_long_a_run_waits_for_it(make_core: MakeCore):
    """A source with a timeout of its own is waited for so long, and no longer for another's."""
    quick, slow, clock = SilentSource(), SilentSource(), FakeClock()
    quick.name, quick.timeout, slow.timeout = "quick", 0.5, 30.0  # type: ignore[attr-defined]
    stage = await stage_with(make_core, quick, slow, tea(), clock=clock)
    with capture_logs() as logs:
        run = await stage.send()
        await slow.asked.wait()
        await asleep(clock, 4)  # the sweep, the heartbeat and two bounds of time
        for seconds in (0.5, 29.0):
            clock.advance(seconds)
            await asleep(clock, 3)
            assert not stage.provider.requests
        clock.advance(0.5)
        assert (await stage.done(run)).status == "completed"
    ends = [(line["source"], line["seconds"]) for line in logs if line["event"] == "context.timeout"]
    assert ends == [("quick", 0.5), ("slow", 30.0)]


async def test_a_stop_does_not_wait_for_a_source(make_core: MakeCore):
    """A run that is cancelled while its sources are asked ends at once and leaves nothing of them to the next one."""
    slow = SilentSource()
    stage = await stage_with(make_core, slow, tea(), clock=FakeClock())
    run = await stage.send()
    await slow.asked.wait()
    assert (await stage.stop(run)).status == "cancelled"
    assert not stage.provider.requests
    assert not await stage.said(ContextAdded)


async def test_a_hook_is_asked_before_the_sources(make_core: MakeCore):
    """No source is asked about a run that a rule forbids."""
    memories = tea()
    config = {"conditions": [{"field": "text", "operator": "CONTAINS", "value": "drink"}]}
    stage = await stage_with(make_core, memories, hooks=[Hook(event="OnRunStart", type="rule", config=config)])
    assert (await stage.play("What do I drink?")).stop_reason == "blocked"
    assert not memories.asked
    assert (await stage.play("Go")).status == "completed"
    assert len(memories.asked) == 1


async def test_context_counts_for_the_window(make_core: MakeCore):
    """What the sources give is cut with the rest of a window that is full."""
    stage = await stage_with(make_core, tea(), limits=Limits(max_context_messages=4))
    for n in range(4):
        assert (await stage.play(f"m{n}")).status == "completed"
    assert max(len(request.messages) for request in stage.provider.requests) <= 4
    assert texts(stage.provider.requests[-1])[-2:] == [("user", "m3"), ("user", "[memory] Ann drinks tea.")]
    check_log(await stage.log())


async def test_without_sources_a_message_is_one_transaction(make_core: MakeCore):
    """A core without sources announces the first step with the message."""
    stage = await set_stage(make_core, [(say("Tea?"),)])
    run = await stage.play()
    log = [fact for fact in await stage.log() if fact.run == run.id]
    assert [fact.type for fact in log[:4]] == ["message.received", "run.queued", "run.started", "step.started"]
