"""The bus when something is lost: connections, the server, a process that was killed, a session."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_core.core import Core
from agent_core.store import postgres_bus
from agent_core.testing import ScriptedProvider, pause, say
from tests.agent_core.scenes import SAFETY, idle, open_session, send, types
from tests.agent_core.store.processes import Processes, connected, cut, processes, rows, rows_are
from tests.agent_core.store.reading.reader import Reading, ended, joined, sound
from tests.polling import until
from tests.postgres import postgres_server

WORDS = ("Grüß ", "dich 👩‍👩‍👧‍👦, ", "🏳️‍🌈 und ", "𝒲elt 😀 ")


@pytest.fixture
async def running(postgres_url: str) -> AsyncIterator[Processes]:
    async with processes(postgres_url) as made:
        yield made


@asynccontextmanager
async def driving(url: str, how: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a real process that drives."""
    pipe = asyncio.subprocess.PIPE
    command = ("-m", "tests.agent_core.store.driving", url, how)
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdin=pipe, stdout=pipe)
    assert process.stdin
    assert process.stdout
    try:
        async with asyncio.timeout(SAFETY):
            assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(SAFETY):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@dataclass(frozen=True)
class OpenStep:
    """A moment in which a run has said its words, all of them read, and says them once more after *go*."""

    here: Core
    there: Core
    session: str
    reading: Reading
    go: asyncio.Event


async def steps(running: Processes) -> AsyncIterator[OpenStep]:
    """Give the steps of a run; a reader in another process had the whole of it in the end."""
    gates = [asyncio.Event() for _ in range(4)]
    script = (*(item for go in gates for item in (say(*WORDS), pause(go))), say("End."))
    here = await running.driver(ScriptedProvider(lambda _: script))
    there = await running.onlooker()
    session = await open_session(here)
    reading, task = await joined(there, session)
    await send(here, session, "Hello")
    for n, go in enumerate(gates, 1):
        await until(lambda n=n: "".join(WORDS) * n in reading.shown.values())
        yield OpenStep(here, there, session, reading, go)
    await ended(reading)
    sound(reading)
    task.cancel()


async def test_what_was_missed_is_read_when_the_connection_is_back(running: Processes):
    """A connection that is cut is replaced, what happened meanwhile is read, and the log has a line or two of it."""
    async for step in steps(running):
        await connected(step.here, "parley-bus", 2)
        with capture_logs() as logs:
            assert await cut(step.here, "parley-bus") == 2
            step.go.set()
            await connected(step.here, "parley-bus", 2)
        assert sum(line["event"] == "bus.lost" for line in logs) <= 2


async def test_text_that_could_not_be_written_is_sent_again(running: Processes):
    """A connection that is cut while text flows loses no text: the open message is sent from its beginning."""
    async for step in steps(running):
        assert await cut(step.here, "parley-bus-write") > 0
        late, other = await joined(step.there, step.session)
        await until(lambda late=late, step=step: late.shown == step.reading.shown)
        other.cancel()
        step.go.set()


async def test_a_notification_that_is_lost_is_made_up_for(running: Processes, monkeypatch: pytest.MonkeyPatch):
    """A process without notifications polls, and misses nothing."""
    monkeypatch.setattr(postgres_bus, "POLL", 0.05)
    monkeypatch.setattr(postgres_bus.PostgresBus, "_on_notification", lambda *_: None)
    half, go = asyncio.Event(), asyncio.Event()
    here = await running.driver(ScriptedProvider(lambda _: (say(*WORDS), pause(half), say(*WORDS), pause(go))))
    there = await running.onlooker()
    session = await open_session(here)
    reading, task = await joined(there, session)
    await send(here, session, "Hello")
    await until(lambda: "".join(WORDS) in reading.shown.values())
    half.set()
    await until(lambda: "".join(WORDS) * 2 in reading.shown.values())
    go.set()
    await ended(reading)
    sound(reading)
    task.cancel()


@pytest.mark.whole
async def test_a_server_that_crashes_and_comes_back_costs_no_text():
    """Postgres is killed in mid-message and started again: readers elsewhere see the rest, and new ones all of it."""
    lost, half, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
    script = (say(*WORDS), pause(lost), say(*WORDS), pause(half), say(*WORDS), pause(go), say("End."))
    with postgres_server(
        synchronous_commit="on"
    ) as server:  # what was committed outlives the crash, as it does by default
        url = server.create()
        async with processes(url) as running:
            here = await running.driver(ScriptedProvider(lambda _: script))
            there = await running.onlooker()
            session = await open_session(here)
            reading, task = await joined(there, session)
            await send(here, session, "Hello")
            await until(lambda: "".join(WORDS) in reading.shown.values())
            with capture_logs() as logs:
                with server.away("immediate"):
                    lost.set()
                    await until(lambda: sum(line["event"] == "bus.lost" for line in logs) == 2)
                await until(lambda: sum(line["event"] == "bus.back" for line in logs) == 2)
            assert sum(line["event"] == "bus.lost" for line in logs) == 2, "a line for each process, not one per try"
            await until(lambda: "".join(WORDS) * 2 in reading.shown.values())
            late, other = await joined(there, session)
            half.set()
            await until(lambda: all("".join(WORDS) * 3 in x.shown.values() for x in (reading, late)))
            go.set()
            for each in (reading, late):
                await ended(each)
                sound(each)
            for each in (task, other):
                each.cancel()


@pytest.mark.whole
async def test_another_process_is_read(postgres_url: str, running: Processes):
    """A run that another process was woken for is read here as it is written there."""
    there = await running.onlooker()
    async with driving(postgres_url, "to_the_end"):
        session = await open_session(there)
        reading, task = await joined(there, session)
        receipt = await send(there, session, "Hello")
        await ended(reading)
        sound(reading)
        assert len(reading.deltas) > 5, "it came piece by piece"
        assert (await there.run(receipt.run)).status == "completed"
        task.cancel()


@pytest.mark.whole
async def test_what_a_killed_process_had_said_is_replaced(
    postgres_url: str, running: Processes, monkeypatch: pytest.MonkeyPatch
):
    """A new driver restarts the step: the earlier text is cleared, and its rows are skipped and removed."""
    monkeypatch.setattr(postgres_bus, "TIDY", 0.05)
    there = await running.onlooker()
    session = await open_session(there)
    early, one = await joined(there, session)
    async with driving(postgres_url, "forever") as process:
        await send(there, session, "Hello")
        await until(lambda: "From elsewhere. " in early.shown.values())
        process.kill()
        await process.wait()
    assert await rows(there) > 0
    go = asyncio.Event()
    here = await running.driver(ScriptedProvider(lambda _: (say("From here. "), pause(go))))
    await until(lambda: "From here. " in early.shown.values())
    late, two = await joined(there, session)
    await until(lambda: bool(late.deltas))
    assert [(x.epoch, x.attempt, x.text) for x in late.deltas] == [(2, 2, "From here. ")]
    go.set()
    await idle(here, session)
    for reading, task in ((early, one), (late, two)):
        await ended(reading)
        sound(reading)
        task.cancel()
    await rows_are(there, lambda n: n == 0)


async def test_readers_of_a_session_that_was_deleted_elsewhere_end(running: Processes):
    """Followers of a session are notified that it is gone, whichever process deleted it."""
    here, there = await running.onlooker(), await running.onlooker()
    session = await open_session(here)
    reading, task = await joined(there, session)
    await here.delete_session(session)
    async with asyncio.timeout(SAFETY):
        await task
    assert types(reading.facts) == ["session.opened", "snapshot.frozen"]


async def test_a_database_that_does_not_answer_is_said_to_be_away(running: Processes, monkeypatch: pytest.MonkeyPatch):
    """A reader who comes while the database is away gets an error that says so."""
    there = await running.onlooker()
    session = await open_session(there)
    monkeypatch.setattr(postgres_bus, "TIMEOUT", 0.05)

    enough = asyncio.Event()

    async def silent(*_: Any) -> None:
        await enough.wait()

    monkeypatch.setattr(postgres_bus.PostgresBus, "_catch_up", silent)
    with pytest.raises(postgres_bus.Unavailable):
        await anext(there.follow(session))
    enough.set()
