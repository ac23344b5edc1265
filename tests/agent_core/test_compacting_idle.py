"""Idle compaction: shortly before its cache expires a long conversation is summed up, if nothing else happens in it."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from agent_core import Actor, Compaction, CompactionFailed, ContextCompacted, Fact, Limits
from agent_core.domain.quotas import Quota
from agent_core.runtime.window.idle import LEAD
from agent_core.store.work import sessions
from agent_core.store.work.quotas import QUOTA
from agent_core.store.work.spending import SPENDING
from agent_core.testing import FakeClock, pause, say, usage
from agent_core.testing.script import Answer
from tests.agent_core.stage import ANN, Stage, asleep, set_stage, texts
from tests.agent_core.test_compacting import asked_for, asks_for_summary
from tests.conftest import MakeCore
from tests.polling import until

pytestmark = pytest.mark.whole

LONG = usage(input=80_000, output=100, reasoning=0, cache_read=0, cache_write_short=0, cache_write_long=0)
SHORT = usage(input=20_000, output=100, reasoning=0, cache_read=0, cache_write_short=0, cache_write_long=0)
PAID = usage(input=1_000, output=50, reasoning=0, cache_read=0, cache_write_short=0, cache_write_long=0)
HOUR = usage(input=80_000, output=100, reasoning=0, cache_read=0, cache_write_short=0, cache_write_long=9_000)
BEN = Actor("ben", "user", "Ben")
LIFE = 300.0
IDLE = 2
"""Tasks of an idle core that sleep."""


async def long_talk(
    make_core: MakeCore, clock: FakeClock, *more: Any, size: Any = LONG, speaker: Actor = ANN, **options: Any
) -> Stage:
    """Return a conversation of four messages, counted as *size*, that has just gone quiet."""

    def script(request: Any) -> Answer:
        if asks_for_summary(request):
            return (PAID, *more, say("They talked."))
        return (say("Fine. " * 200), size)

    given: dict[str, Any] = {"name": "anthropic", "model": "anthropic:claude-sonnet-5-5", "limits": Limits(None)}
    stage = await set_stage(make_core, script, clock=clock, **{"compaction": Compaction(), **given, **options})
    for n in range(4):
        await stage.done(await stage.send(f"m{n} {'x' * 600}", actor=speaker))
    return stage


async def newest(stage: Stage) -> Fact:
    return (await stage.log())[-1]


async def test_a_quiet_conversation_is_summed_up_before_its_cache_expires(make_core: MakeCore):
    """A minute before the end of the cache's life the older part becomes a summary, in no run, and is paid for."""
    clock = FakeClock()
    stage = await long_talk(make_core, clock)
    await asleep(clock, IDLE + 1)
    clock.advance(LIFE - LEAD - 1)
    await asyncio.sleep(0)
    assert not asked_for(stage)
    clock.advance(1)
    await stage.until(lambda event: isinstance(event.body, ContextCompacted))
    fact = await newest(stage)
    assert isinstance(fact.body, ContextCompacted)
    assert (fact.run, fact.body.kind, fact.body.summary) == (None, "summary", "They talked.")
    assert fact.body.usage is not None
    assert fact.body.cost is not None
    await stage.play("back again")
    seen = texts(stage.provider.requests[-1])
    assert "They talked." in seen[0][1]
    assert seen[-1] == ("user", "back again")
    assert len(seen) < 9


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"compaction": Compaction(kind="cut")}, LONG),
        ({"compaction": Compaction(kind="off")}, LONG),
        ({"model": "anthropic:an-unknown-model"}, LONG),
        ({"name": "scripted", "model": None}, LONG),
        ({}, SHORT),
    ],
    ids=["cut", "off", "no price", "no known life", "short"],
)
async def test_what_is_left_alone(make_core: MakeCore, options, size):
    """Nothing is done where no summary is wanted, nothing is known of prices or the cache, or little would be saved."""
    clock = FakeClock()
    stage = await long_talk(make_core, clock, size=size, **options)
    clock.advance(LIFE)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asked_for(stage)
    assert not stage.core._segments.idle._timers


async def test_news_cancel_the_timer(make_core: MakeCore):
    """A message before the time is up ends the wait; the next end of a run begins another."""
    clock = FakeClock()
    stage = await long_talk(make_core, clock)
    await asleep(clock, IDLE + 1)
    clock.advance(LIFE - LEAD - 10)
    await stage.play("wait")
    await asleep(clock, IDLE + 1)
    clock.advance(20)
    await asyncio.sleep(0)
    assert not asked_for(stage)
    assert len(stage.core._segments.idle._timers) == 1


async def test_a_message_during_the_call_drops_the_summary(make_core: MakeCore):
    """What comes in while the summary is written ends it; what it cost is in the log, and the window as it was."""
    clock, hold = FakeClock(), asyncio.Event()
    stage = await long_talk(make_core, clock, pause(hold))
    await asleep(clock, IDLE + 1)
    clock.advance(LIFE - LEAD)
    await until(lambda: bool(asked_for(stage)))
    await stage.play("I am back")
    assert not await stage.said(ContextCompacted)
    assert len(stage.provider.requests[-1].messages) == 9
    await until(lambda: stage.provider.open == 0)
    failure = await stage.until(lambda event: isinstance(event.body, CompactionFailed))
    assert isinstance(failure.body, CompactionFailed)
    assert failure.run is None
    assert (failure.body.code, failure.body.usage and failure.body.usage.input) == ("cancelled", 1_000)
    hold.set()


async def test_what_another_process_wrote_drops_the_summary_too(make_core: MakeCore):
    """The append looks at the log, not at this process: with anything new in it the summary is given up, but billed."""
    clock, hold = FakeClock(), asyncio.Event()
    stage = await long_talk(make_core, clock, pause(hold))
    await asleep(clock, IDLE + 1)
    clock.advance(LIFE - LEAD)
    await until(lambda: bool(asked_for(stage)))
    await stage.core.add_context(stage.session, [], key=None)
    made = ContextCompacted(kind="summary", from_seq=1, tokens_before=1, tokens_after=1, summary="Late.")
    run = (await stage.core.runs(session=stage.session)).items[0].id
    before, ref = await newest(stage), (await stage.core._cache.get(stage.session)).ref
    done = await stage.core._store.compact_idle(ref, made, after=before.seq - 1, run=run)
    assert [fact.type for fact in done.facts] == ["compaction.failed"]
    await stage.core.close_session(stage.session)
    closed = await stage.core._store.compact_idle(ref, made, after=before.seq + 1, run=run)
    assert [fact.type for fact in closed.facts] == ["compaction.failed"]
    await stage.core.delete_session(stage.session)
    gone = await stage.core._store.compact_idle(ref, made, after=before.seq, run=run)
    assert gone.facts == []
    hold.set()


async def test_a_cache_that_lives_for_an_hour_is_waited_for(make_core: MakeCore):
    """What the last call wrote says for how long the prompt is kept; a minute before its end the summary reads it."""
    clock = FakeClock()
    own = "anthropic:claude-sonnet-5-5"
    stage = await long_talk(make_core, clock, size=HOUR, compaction=Compaction(model=own))
    await asleep(clock, IDLE + 1)
    clock.advance(LIFE + 3_000.0)
    await asyncio.sleep(0)
    assert not asked_for(stage)
    clock.advance(300.0 - LEAD)
    await stage.until(lambda event: isinstance(event.body, ContextCompacted))
    (asked,) = asked_for(stage)
    assert stage.provider.requests[asked].cache is not None


async def test_a_deletion_ends_the_call(make_core: MakeCore):
    """What a summary says of a person whose data is deleted while it is written never gets into the log."""
    clock, hold = FakeClock(), asyncio.Event()
    stage = await long_talk(make_core, clock, pause(hold), speaker=BEN)
    await asleep(clock, IDLE + 1)
    clock.advance(LIFE - LEAD)
    await until(lambda: bool(asked_for(stage)))
    forgetting = asyncio.create_task(stage.core.forget_actor(BEN.id, pseudonym="forgotten:1", by=ANN))
    await until(forgetting.done)
    await until(lambda: stage.provider.open == 0)
    hold.set()
    failure = await stage.until(lambda event: isinstance(event.body, CompactionFailed))
    assert isinstance(failure.body, CompactionFailed)
    assert (failure.body.code, failure.body.usage and failure.body.usage.input) == ("outdated", 1_000)
    assert not await stage.said(ContextCompacted)


@pytest.mark.parametrize("change", ["close", "delete"])
async def test_a_closed_or_deleted_session_is_left_alone(make_core: MakeCore, change):
    """Its timer ends with it: no model is asked, and nothing is billed."""
    clock = FakeClock()
    stage = await long_talk(make_core, clock)
    await asleep(clock, IDLE + 1)
    await getattr(stage.core, f"{change}_session")(stage.session)
    assert not stage.core._segments.idle._timers
    clock.advance(LIFE)
    await asyncio.sleep(0)
    assert not asked_for(stage)


@pytest.mark.parametrize("change", [sessions.close, sessions.delete])
async def test_what_another_process_closed_or_deleted_is_left_alone(make_core: MakeCore, change):
    """The row is read before the model is asked."""
    clock = FakeClock()
    stage = await long_talk(make_core, clock)
    await asleep(clock, IDLE + 1)
    await stage.core._store.write(lambda connection: change(connection, sessions.hold(connection, stage.session)))
    clock.advance(LIFE - LEAD)
    await until(lambda: not stage.core._segments.idle._timers)
    assert not asked_for(stage)


async def test_a_summary_of_a_session_that_is_deleted_meanwhile_is_in_an_account(make_core: MakeCore):
    """What the call used until then counts, without the session and the person who are gone."""
    clock, hold = FakeClock(), asyncio.Event()
    stage = await long_talk(make_core, clock, pause(hold))
    await asleep(clock, IDLE + 1)
    before = await spent(stage)
    clock.advance(LIFE - LEAD)
    await until(lambda: bool(asked_for(stage)))
    (timer,) = stage.core._segments.idle._timers.values()
    await stage.core.delete_session(stage.session)
    await asyncio.wait([timer])
    assert await spent(stage) == (before[0] + 1_000, before[1])
    hold.set()


async def spent(stage: Stage) -> tuple[int, int]:
    """Return the input and the runs that are accounted for, of all people."""
    query = select(SPENDING.c.input, SPENDING.c.runs)
    rows = await stage.core._store.read(lambda connection: connection.execute(query).all())
    return sum(row.input for row in rows), sum(row.runs for row in rows)


async def test_none_after_the_stop(make_core: MakeCore):
    """A core that stops ends its timers, and begins none."""
    clock = FakeClock()
    stage = await long_talk(make_core, clock)
    await asleep(clock, IDLE + 1)
    idle = stage.core._segments.idle
    await stage.core.stop(grace=0.1)
    assert not idle._timers
    assert idle._is_closed


async def test_a_summary_at_idle_counts_towards_quotas(make_core: MakeCore):
    """It is billed to whom the last run was charged."""
    clock = FakeClock()
    limits = Limits(None, user=Quota(tokens_per_day=10_000_000))
    stage = await long_talk(make_core, clock, limits=limits)
    await asleep(clock, IDLE + 1)
    before = await counted(stage)
    clock.advance(LIFE - LEAD)
    await stage.until(lambda event: isinstance(event.body, ContextCompacted))
    after = await counted(stage)
    assert (len(before), [b - a for a, b in zip(before, after, strict=True)]) == (1, [1_050])


async def counted(stage: Stage) -> list[int]:
    return await stage.core._store.read(lambda connection: list(connection.execute(select(QUOTA.c.tokens)).scalars()))
