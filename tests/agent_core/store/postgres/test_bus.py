"""The bus on Postgres: whatever happens at one process, a reader at any other sees it in order and whole."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent_core.testing import ScriptedProvider, by_step, call, fail, pause, say, think
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, SAFETY, idle, log_of, open_session, send, types
from tests.agent_core.store.processes import Processes, bus, engine, processes, rows, rows_are
from tests.agent_core.store.reading.reader import Reading, ended, in_order, joined, read, sound
from tests.polling import until

NOTIFY = text("SELECT pg_notify('parley', :payload)")
WORDS = ("Grüß ", "dich 👩‍👩‍👧‍👦, ", "🏳️‍🌈 und ", "𝒲elt 😀 ") * 10


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


@pytest.fixture
async def running(postgres_url: str) -> AsyncIterator[Processes]:
    async with processes(postgres_url) as made:
        yield made


async def test_a_reader_at_another_process_sees_every_fact_in_order_and_the_whole_text(running: Processes):
    """Facts with their bodies and times, and deltas that together are the text."""
    go = asyncio.Event()
    calls = (call("look", what="a"), call("look", what="b"))
    script = by_step((think("Hm. "), say("Looking."), pause(go), *calls), (think("So. "), say(*WORDS)))
    here = await running.driver(ScriptedProvider(script), tools=(look,))
    there = await running.onlooker()
    sessions = [await open_session(here) for _ in range(3)]
    readers = [await joined(there, session) for session in sessions]
    for session in sessions:
        await send(here, session, "Hello")
    await until(lambda: all(reading.deltas for reading, _ in readers))
    go.set()
    for session, (reading, task) in zip(sessions, readers, strict=True):
        await ended(reading)
        facts = await log_of(here, session)
        assert [(x.seq, x.type, x.run, x.time, x.raw) for x in reading.facts] == [
            (x.seq, x.type, x.run, x.time, x.raw) for x in facts
        ]
        sound(reading)
        task.cancel()


async def test_from_any_cursor_at_any_moment_the_open_message_comes_whole_and_continues(running: Processes):
    """Readers who join in mid-message get the facts, each part as one delta from offset 0, then what follows."""
    chance = random.Random(7)  # noqa: S311 - no secret
    steps = [asyncio.Event() for _ in range(12)]
    script = (
        think("Hm, ", "so ", "👋 "),
        *(item for go in steps for item in (say(*WORDS[:5]), pause(go))),
        say("End."),
    )
    here = await running.driver(ScriptedProvider(lambda _: script))
    there, elsewhere = await running.onlooker(), await running.onlooker()
    session = await open_session(here)
    await send(here, session, "Hello")
    newest = (await log_of(here, session))[-1].seq
    readers: list[tuple[int, Reading, asyncio.Task[None]]] = []
    for go in steps:
        for core in (here, there, elsewhere):
            after = chance.randint(0, newest)
            readers.append((after, *(await joined(core, session, after=after))))
        go.set()
        for _ in range(chance.randint(0, 30)):
            await asyncio.sleep(0)
    for after, reading, task in readers:
        await ended(reading)
        sound(reading, after)
        assert [part for part in (0, 1) if len([x for x in reading.joins if x.part == part]) != 1] == [], (
            "one delta from offset 0"
        )
        assert list(reading.final.values()) == [["Hm, so 👋 ", "".join(WORDS[:5]) * 12 + "End."]]
        task.cancel()


async def test_readers_come_and_go_while_text_flows(running: Processes):
    """Sixty readers join at any moment of a stream, stay or leave, and each sees it gapless."""
    chance = random.Random(11)  # noqa: S311 - no secret
    here = await running.driver(ScriptedProvider(lambda _: (say(*WORDS * 40),)))
    there = await running.onlooker()
    session = await open_session(here)

    async def come() -> None:
        for _ in range(chance.randint(0, 400)):
            await asyncio.sleep(0)
        after = chance.randint(0, 3)
        reading = await read(there.follow(session, after=after, until_idle=True), slowly=chance.randint(0, 3))
        sound(reading, after)
        assert reading.facts[-1].type == "run.completed"

    receipt = await send(here, session, "Hello")
    async with asyncio.TaskGroup() as group:
        for _ in range(60):
            group.create_task(come())
    assert (await here.run(receipt.run)).status == "completed"
    await until(lambda: not bus(there)._incoming._watches)
    assert not there._store.hub._open, "events without a reader are not kept"


async def test_a_new_try_clears_what_the_old_one_showed(running: Processes):
    """A failed attempt leaves no text: a reader of the second one at another process gets its text only."""
    first, second = asyncio.Event(), asyncio.Event()
    tries = iter([(say("Wrong st"), pause(first), fail(retry_after=0)), (say("Right "), pause(second), say("start."))])
    here = await running.driver(ScriptedProvider(lambda _: next(tries)))
    there = await running.onlooker()
    session = await open_session(here)
    early, one = await joined(there, session)
    await send(here, session, "Hello")
    await until(lambda: "Wrong st" in early.shown.values())
    first.set()
    await until(lambda: "Right " in early.shown.values())
    late, two = await joined(there, session)
    await until(lambda: "Right " in late.shown.values())
    assert [(delta.attempt, delta.text) for delta in late.joins] == [(2, "Right ")]
    second.set()
    for reading, task in ((early, one), (late, two)):
        await ended(reading)
        sound(reading)
        task.cancel()


async def test_a_message_that_came_in_elsewhere_is_seen_by_those_who_read_here(running: Processes):
    """A process that drives a session is notified of a message that another one received."""
    go = asyncio.Event()
    here = await running.driver(ScriptedProvider(lambda _: (say("Well. "), pause(go))))
    there = await running.onlooker()
    session = await open_session(here)
    reading, task = await joined(here, session)
    await send(here, session, "Hello")
    await until(lambda: bool(reading.deltas))
    posted = await send(there, session, "And?")
    await until(lambda: [x.run for x in reading.facts if x.type == "message.received"][1:] == [posted.run])
    go.set()
    await idle(here, session)
    sound(reading)
    task.cancel()


async def test_a_wake_and_an_interrupt_reach_other_processes_only(running: Processes):
    """A request for a worker, or for a stop, reaches the other processes."""
    one, two = await running.onlooker(), await running.onlooker()
    await until(lambda: bus(one)._outgoing.has_listeners)  # a process alone notifies no other
    bus(one).wake(7)
    bus(one).interrupt(8)
    assert (await engine(two).woken.get(), await engine(two).interrupted.get()) == (7, 8)
    assert engine(one).woken.empty()
    assert engine(one).interrupted.empty()


async def test_a_cancel_reaches_the_process_that_drives(running: Processes):
    """Stop is pressed at one process: the answer stops at another, with its partial text."""
    here = await running.driver(ScriptedProvider(lambda _: (say("On and "), pause(asyncio.Event()))))
    there = await running.onlooker()
    session = await open_session(here)
    reading, task = await joined(there, session)
    receipt = await send(here, session, "Hello")
    await until(lambda: bool(reading.deltas))
    await there.cancel(receipt.run, by=ANN)
    await ended(reading)
    assert reading.facts[-1].type == "run.cancelled"
    assert list(reading.final.values()) == [["On and "]]
    task.cancel()


async def test_nothing_live_is_written_without_another_process(running: Processes):
    """One process alone writes no live rows; a reader who joins in mid-message gets it whole and then what follows."""
    half, go = asyncio.Event(), asyncio.Event()
    here = await running.driver(ScriptedProvider(lambda _: (say(*WORDS), pause(half), say("More. "), pause(go))))
    session = await open_session(here)
    reading, task = await joined(here, session)
    await send(here, session, "Hello")
    await until(lambda: "".join(WORDS) in reading.shown.values())
    assert await rows(here) == 0
    there = await running.onlooker()
    seen, other = await joined(there, session)
    await until(lambda: "".join(WORDS) in seen.shown.values())
    half.set()
    await until(lambda: "".join(WORDS) + "More. " in seen.shown.values())
    await running.stop(there)
    go.set()
    await idle(here, session)
    await rows_are(here, lambda n: n == 0)
    for each in (task, other):
        each.cancel()


async def test_live_rows_are_gone_when_the_message_is_complete(running: Processes):
    """Of an open message there are rows, of a complete one there are none; what happens between steps goes too."""
    go = asyncio.Event()
    here = await running.driver(ScriptedProvider(lambda _: (say(*WORDS), pause(go), say(*WORDS))))
    await running.onlooker()
    session = await open_session(here)
    await send(here, session, "Hello")
    await rows_are(here, lambda n: n > 0)
    go.set()
    facts = await idle(here, session)
    assert types(facts)[-1] == "run.completed"
    await rows_are(here, lambda n: n == 0)


async def test_two_drivers_in_turn_make_one_stream(running: Processes):
    """A session whose answers are written now here, now there, reads at a third process as one."""
    drivers = [await running.driver(ScriptedProvider(lambda _: (say(*WORDS),))) for _ in range(2)]
    there = await running.onlooker()
    session = await open_session(drivers[0])
    readers = [await joined(core, session) for core in (*drivers, there)]
    for n in range(6):
        await send(drivers[n % 2], session, f"Question {n}")
        await idle(drivers[n % 2], session)
    newest = (await log_of(there, session))[-1].seq
    for reading, task in readers:
        await until(lambda reading=reading: [fact.seq for fact in reading.facts[-1:]] == [newest])
        in_order(reading)
        assert len(reading.final) == 6
        task.cancel()


async def test_a_newer_version_beside_this_one_does_no_harm(running: Processes):
    """Unknown notifications, from a process with a name of any length, are skipped; known ones are handled."""
    one, two = await running.onlooker(), await running.onlooker()
    payloads = (
        "9[",
        "a-name-that-is-longer-than-ours{}",
        '9[["draw", 1], 7, ["ring"], ["ring", "x"], ["ring", 7, 0, 1]]',
    )
    with capture_logs() as logs:
        for payload in payloads:
            await one._store.write(lambda connection, payload=payload: connection.execute(NOTIFY, {"payload": payload}))
        async with asyncio.timeout(SAFETY):
            assert [await engine(core).woken.get() for core in (one, two)] == [7, 7]
    assert not [line for line in logs if line["event"] == "bus.lost"]
