"""follow, the one reader: any cursor gives the facts beyond it once, the open messages whole, then what happens."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing

import pytest

from agent_core.core import Core
from agent_core.errors import NotFound, UnknownCursor
from agent_core.events import Event, Fact, Live, ReasoningDelta, TextDelta
from agent_core.store.hub import Hub
from agent_core.testing import ScriptedProvider, by_step, call, fail, pause, say, think
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, idle, log_of, open_session, say_and_wait, send, types
from tests.agent_core.store.reading.reader import joined, read, sound
from tests.conftest import MakeCore
from tests.polling import until

EMOJI = ("Grüß ", "dich 👩‍👩‍👧‍👦, ", "🏳️‍🌈 und ", "𝒲elt 😀")
TEXT = "".join(EMOJI)


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


async def readers_gone(core: Core) -> None:
    await until(lambda: not core._store.hub._readers)


async def test_every_cursor_of_a_finished_session_gives_its_tail(make_core: MakeCore):
    """From any seq a reader gets exactly the facts beyond it, once and in order, and the stream closes."""
    script = by_step((say("Looking."), call("look", what="a"), call("look", what="b")), (say(*EMOJI),))
    core = await make_core(ScriptedProvider(script), tools=(look,))
    session = await open_session(core)
    for text in ("one", "two"):
        await say_and_wait(core, session, text)
    facts = await log_of(core, session)
    for after in range(len(facts) + 1):
        reading = await read(core.follow(session, after=after, until_idle=True))
        assert [(f.seq, f.type, f.run, f.time, f.raw) for f in reading.tail if isinstance(f, Fact)] == [
            (f.seq, f.type, f.run, f.time, f.raw) for f in facts[after:]
        ]
        assert len(reading.tail) == len(facts) - after, "a finished session has nothing live"


async def test_every_cursor_of_a_running_session_gets_the_open_message_whole(make_core: MakeCore):
    """From any seq a reader gets the facts beyond it, each part of the open message as one delta, then the rest."""
    half, go = asyncio.Event(), asyncio.Event()

    def script(_request):
        return (think("Hm, ", "Grüße 👋"), say(*EMOJI[:2]), pause(half), say(*EMOJI[2:]), pause(go))

    core = await make_core(ScriptedProvider(script))
    session = await open_session(core)
    await send(core, session, "Hello")
    await until(lambda: any("dich" in str(live.body) for live in core._store.hub.open_messages(session)))
    facts = await log_of(core, session)
    readers = [await joined(core, session, after=after) for after in range(len(facts) + 1)]
    for after, (reading, _) in enumerate(readers):
        assert reading.seqs == [fact.seq for fact in facts[after:]]
        assert [(type(delta), delta.part, delta.offset, delta.text) for delta in reading.deltas] == [
            (ReasoningDelta, 0, 0, "Hm, Grüße 👋"),
            (TextDelta, 1, 0, "".join(EMOJI[:2])),
        ]
        assert [event for event in reading.tail[len(facts) - after :] if not isinstance(event, Live)] == []
    half.set()
    await until(lambda: all(TEXT in reading.shown.values() for reading, _ in readers))
    go.set()
    await idle(core, session)
    for after, (reading, task) in enumerate(readers):
        await until(lambda reading=reading: [fact.type for fact in reading.facts[-1:]] == ["run.completed"])
        assert reading.seqs == list(range(after + 1, reading.facts[-1].seq + 1))
        assert list(reading.final.values()) == [["Hm, Grüße 👋", TEXT]]
        task.cancel()
    await readers_gone(core)


async def test_offsets_count_code_points(make_core: MakeCore):
    """The offset of a delta counts the code points of its part so far, after a joiner's one delta too."""
    half, go = asyncio.Event(), asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (say(*EMOJI[:3]), pause(half), say(EMOJI[3]), pause(go))))
    session = await open_session(core)
    early, first = await joined(core, session)
    await send(core, session, "Hello")
    await until(lambda: any("🏳️‍🌈" in text for text in early.shown.values()))
    late, second = await joined(core, session)
    half.set()
    await until(lambda: all(TEXT in reading.shown.values() for reading in (early, late)))
    assert [(d.offset, d.text) for d in early.deltas] == [(len("".join(EMOJI[:n])), EMOJI[n]) for n in range(4)]
    assert [(d.offset, d.text) for d in late.deltas] == [(0, "".join(EMOJI[:3])), (len("".join(EMOJI[:3])), EMOJI[3])]
    go.set()
    for task in (first, second):
        task.cancel()


async def test_a_new_attempt_of_a_step_restarts_its_message(make_core: MakeCore):
    """A reader who joins during the second attempt gets its text only, under the same message and a higher attempt."""
    go = asyncio.Event()
    tries = iter([(say("Wrong st"), fail(retry_after=0)), (say("Right "), pause(go), say("start."))])
    core = await make_core(ScriptedProvider(lambda _: next(tries)))
    session = await open_session(core)
    early, first = await joined(core, session)
    await send(core, session, "Hello")
    await until(lambda: "Right " in early.shown.values())
    late, second = await joined(core, session)
    assert [(delta.attempt, delta.text) for delta in early.joins] == [(1, "Wrong st"), (2, "Right ")]
    assert [(delta.attempt, delta.text) for delta in late.joins] == [(2, "Right ")]
    go.set()
    await idle(core, session)
    await until(lambda: bool(early.final and late.final))
    assert early.final == late.final
    assert list(early.whole.values()) == list(late.whole.values()) == [True]
    for task in (first, second):
        task.cancel()


def leaky(hub: Hub, dropped: Callable[[Fact], bool]) -> None:
    """Let *hub* lose the facts that are to be *dropped*, for its readers alone."""
    publish = hub.publish

    def lose(facts: Iterable[Fact]) -> None:
        for fact in facts:
            readers = hub._readers.pop(fact.session, None) if dropped(fact) else None
            publish([fact])
            if readers is not None:
                hub._readers[fact.session] = readers

    hub.publish = lose  # type: ignore[method-assign]


@pytest.mark.parametrize("every", [2, 3, 5])
async def test_a_gap_is_filled_from_the_log(make_core: MakeCore, every: int):
    """A reader who misses facts notices by their seq, reads them again, and passes them on in their place."""
    script = by_step((say("Looking."), call("look", what="a"), call("look", what="b")), (say(*EMOJI),))
    core = await make_core(ScriptedProvider(script), tools=(look,))
    leaky(core._store.hub, lambda fact: fact.seq % every == 0 and fact.type != "run.completed")
    session = await open_session(core)
    reading, task = await joined(core, session)
    for text in ("one", "two"):
        await say_and_wait(core, session, text)
    facts = await log_of(core, session)
    await until(lambda: [fact.seq for fact in reading.facts[-1:]] == [len(facts)])
    task.cancel()
    assert [(f.seq, f.type, f.raw) for f in reading.facts] == [(f.seq, f.type, f.raw) for f in facts]


async def test_a_stream_until_idle_closes_when_nothing_is_left(make_core: MakeCore):
    """It closes at once on an idle session, and else after the end of the last run, queued ones included."""
    go = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (pause(go), say("Hi."))))
    session = await open_session(core)
    assert types((await read(core.follow(session, until_idle=True))).facts) == ["session.opened", "snapshot.frozen"]
    assert (await read(core.follow(session, after=2, until_idle=True))).tail == []
    for text in ("one", "two", "three"):
        await send(core, session, text)
    reading = asyncio.create_task(read(core.follow(session, until_idle=True)))
    await until(lambda: bool(core._store.hub._readers))
    assert not reading.done()
    go.set()
    seen = await reading
    assert types(seen.facts).count("run.completed") == 3
    assert seen.facts[-1].type == "run.completed"
    assert seen.seqs == [fact.seq for fact in await log_of(core, session)]


async def test_an_unknown_cursor_is_refused(make_core: MakeCore):
    """A seq beyond the newest one, or a session or run that is not there, is refused before the first batch."""
    core = await make_core(ScriptedProvider([[say("Hi.")]]))
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "Hello")
    newest = (await log_of(core, session))[-1].seq
    for events in (core.follow(session, after=newest + 1), core.follow_run(receipt.run, after=newest + 1)):
        with pytest.raises(UnknownCursor, match=str(newest)):
            await anext(events)
    assert (await read(core.follow(session, after=newest, until_idle=True))).tail == []
    for events in (core.follow("ses_unknown"), core.follow_run("run_unknown")):
        with pytest.raises(NotFound):
            await anext(events)
    await readers_gone(core)


async def test_a_runs_stream_is_the_run_alone(make_core: MakeCore):
    """The stream of a run has its facts and live events with the session's seqs, and closes at its end."""
    core = await make_core(ScriptedProvider(lambda _: (say("Hi "), say("you."))))
    session = await open_session(core)
    first = await send(core, session, "one")
    second = await send(core, session, "two")
    readings = await asyncio.gather(*(read(core.follow_run(receipt.run)) for receipt in (first, second)))
    facts = await log_of(core, session)
    for receipt, reading in zip((first, second), readings, strict=True):
        assert reading.seqs == [fact.seq for fact in facts if fact.run == receipt.run]
        assert {event.run for event in reading.tail} == {receipt.run}
        assert reading.facts[-1].type == "run.completed"
    again = await read(core.follow_run(first.run, after=first.seq + 2))
    assert again.seqs == readings[0].seqs[3:]
    assert (await read(core.follow_run(first.run, after=facts[-1].seq))).tail == []


async def test_readers_leave_nothing_behind(make_core: MakeCore):
    """Hundreds of readers that come and go, at their end, by being closed or by being cancelled, leave no trace."""
    go = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (say("Hi "), pause(go), say("you."))))
    sessions = [await open_session(core) for _ in range(5)]
    receipts = [await send(core, session, "Hello") for session in sessions]
    hub = core._store.hub

    async def glance(session: str) -> None:
        async with aclosing(core.follow(session)) as events:
            await anext(events)

    whole = [asyncio.create_task(read(core.follow(session, until_idle=True))) for session in sessions * 20]
    whole += [asyncio.create_task(read(core.follow_run(receipt.run))) for receipt in receipts * 20]
    ever = [asyncio.create_task(read(core.follow(session))) for session in sessions * 20]
    await asyncio.gather(*(glance(session) for session in sessions * 20))
    await until(lambda: sum(len(readers) for readers in hub._readers.values()) == 300)
    go.set()
    await asyncio.gather(*whole)
    for task in ever:
        task.cancel()
    await asyncio.wait(ever)
    assert not hub._readers
    assert not hub._open


async def test_two_readers_see_the_same(make_core: MakeCore):
    """Two tabs on one session are shown the same events in the same order."""
    script = by_step((say("Looking."), call("look", what="a"), call("look", what="b")), (say(*EMOJI),))
    core = await make_core(ScriptedProvider(script), tools=(look,))
    session = await open_session(core)
    (one, first), (two, second) = [await joined(core, session) for _ in range(2)]
    await say_and_wait(core, session, "Hello", actor=ANN)
    await until(lambda: [fact.type for each in (one, two) for fact in each.facts[-1:]] == 2 * ["run.completed"])

    def seen(events: list[Event]) -> list[bytes]:
        return [event.raw for event in events]

    assert seen(one.tail) == seen(two.tail)
    for task in (first, second):
        task.cancel()


async def test_facts_read_from_the_log_are_not_repeated_by_the_hub(make_core: MakeCore):
    """A hub is notified late of one answer, early of the next: the reader has both, and no text after its end."""
    core = await make_core(ScriptedProvider(lambda _: (say(*EMOJI),)))
    session = await open_session(core)
    reading, task = await joined(core, session)
    hub, late = core._store.hub, list[Callable[[], None]]()
    publish, show = hub.publish, hub.show
    ends = list[Fact]()

    def keep_back(facts: Iterable[Fact]) -> None:
        facts = tuple(facts)
        late.append(lambda: publish(facts))
        ends.extend(fact for fact in facts if fact.type == "run.completed")

    hub.publish, hub.show = keep_back, lambda event: late.append(lambda: show(event))
    await send(core, session, "one")
    await until(lambda: bool(ends))
    hub.publish, hub.show = publish, show
    await send(core, session, "two")
    await until(lambda: types(reading.facts).count("run.completed") == 2)
    for each in late:
        each()
    await say_and_wait(core, session, "three")
    await until(lambda: types(reading.facts).count("run.completed") == 3)
    sound(reading)
    assert list(reading.final.values()) == [[TEXT]] * 3
    task.cancel()
