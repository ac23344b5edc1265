"""Readers who do not take what is held for them: bounded memory, and nothing lost when they look again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.events import Event, Fact, RunCompleted, TextDelta
from agent_core.messages import Text
from agent_core.store import hub
from agent_core.testing import ScriptedProvider, pause, say
from tests.agent_core.scenes import SAFETY
from tests.agent_core.stage import ANN
from tests.conftest import MakeCore

LONG = ("word ",) * 300


@pytest.fixture(autouse=True)
def few_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold fifty events for a reader, so that few answers are too many."""
    monkeypatch.setattr(hub, "MAX_PENDING", 50)


async def asked(core: Core, session: str, times: int = 1) -> None:
    """Ask so many questions, and wait for each answer."""
    for _ in range(times):
        receipt = await core.receive(session, Inbound(parts=(Text("Go on."),), actor=ANN))
        assert (await core.settled(receipt.run, timeout=SAFETY)).status == "completed"


async def next_of(events: AsyncIterator[list[Event]]) -> list[Event]:
    """Return the next batch."""
    async with asyncio.timeout(SAFETY):
        return await anext(events)


async def read(events: AsyncIterator[list[Event]], seq: int) -> list[Event]:
    """Return everything up to the fact *seq*."""
    found: list[Event] = []
    while not any(isinstance(event, Fact) and event.seq == seq for event in found):
        found += await next_of(events)
    return found


async def newest(core: Core, session: str) -> int:
    """Return the seq of the newest fact."""
    facts = [event async for batch in core.follow(session, until_idle=True) for event in batch]
    return max(event.seq for event in facts if isinstance(event, Fact))


async def test_a_reader_who_looks_again_misses_no_fact(make_core: MakeCore):
    """What was held and dropped is read from the log: every fact comes, once and in order."""
    core = await make_core(ScriptedProvider(lambda _: (say(*LONG),)))
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    events = core.follow(session)
    first = await next_of(events)
    await asked(core, session, 3)
    later = await read(events, await newest(core, session))
    seqs = [event.seq for event in [*first, *later] if isinstance(event, Fact)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert sum(isinstance(event.body, RunCompleted) for event in later) == 3
    await events.aclose()


async def test_no_more_is_held_than_the_bound(make_core: MakeCore):
    """However much happens, what is held for a reader who never looks stays within the bound."""
    core = await make_core(ScriptedProvider(lambda _: (say(*LONG),)))
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    events = core.follow(session)
    await next_of(events)
    await asked(core, session, 3)
    (subscriber,) = core._store.hub._readers[session]
    assert len(subscriber.events) <= hub.MAX_PENDING
    assert subscriber.behind
    await events.aclose()


async def test_a_reader_who_looks_again_gets_the_open_message_whole(make_core: MakeCore):
    """In the middle of an answer it comes as one piece from offset 0, and then goes on without a hole."""
    written, go_on = asyncio.Event(), asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (say(*LONG), pause(go_on), say(" The", " end."))))
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    events, other = core.follow(session), core.follow(session)
    await next_of(events)
    receipt = await core.receive(session, Inbound(parts=(Text("Go on."),), actor=ANN))
    watcher = asyncio.create_task(_watch(other, len("".join(LONG)), written))
    await asyncio.wait_for(written.wait(), SAFETY)
    again = await next_of(events)
    while not any(isinstance(event.body, TextDelta) for event in again):
        again += await next_of(events)
    deltas = [event.body for event in again if isinstance(event.body, TextDelta)]
    assert [delta.offset for delta in deltas] == [0]
    go_on.set()
    run = await core.settled(receipt.run, timeout=SAFETY)
    rest = await read(events, await newest(core, session))
    deltas += [event.body for event in rest if isinstance(event.body, TextDelta)]
    assert "".join(delta.text for delta in deltas) == run.text
    await watcher
    for each in (events, other):
        await each.aclose()


async def test_a_slow_reader_of_a_run_ends_with_the_run(make_core: MakeCore):
    """The stream of a run that ended before it was read has its facts to the end, and ends there."""
    speak = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (pause(speak), say(*LONG))))
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    receipt = await core.receive(session, Inbound(parts=(Text("Go on."),), actor=ANN))
    events = core.follow_run(receipt.run)
    first = await next_of(events)
    speak.set()
    await core.settled(receipt.run, timeout=SAFETY)
    await asked(core, session, 2)
    async with asyncio.timeout(SAFETY):
        rest = [event async for batch in events for event in batch]
    assert isinstance(rest[-1].body, RunCompleted)
    assert {event.run for event in [*first, *rest]} == {receipt.run}


async def test_a_slow_reader_until_idle_ends_at_an_idle_moment(make_core: MakeCore):
    """A slow reader with `until idle` gets everything without a gap, up to a moment without a run."""
    speak = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (pause(speak), say(*LONG))))
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    receipt = await core.receive(session, Inbound(parts=(Text("Go on."),), actor=ANN))
    events = core.follow(session, until_idle=True)
    first = await next_of(events)
    speak.set()
    await core.settled(receipt.run, timeout=SAFETY)
    await asked(core, session, 2)
    async with asyncio.timeout(SAFETY):
        rest = [event async for batch in events for event in batch]
    facts = [event for event in [*first, *rest] if isinstance(event, Fact)]
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    assert facts[-1].type == "run.completed"


async def _watch(events: AsyncIterator[list[Event]], letters: int, reached: asyncio.Event) -> None:
    """Set *reached* once so many letters of an answer were seen."""
    async for batch in events:
        deltas = [event.body for event in batch if isinstance(event.body, TextDelta)]
        if any(delta.offset + len(delta.text) >= letters for delta in deltas):
            reached.set()
            return
