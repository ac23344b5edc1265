"""What is measured: each function measures one thing once, on one side."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from statistics import median

from tests.bench.client import Answer, Connection
from tests.bench.exchange import Exchange
from tests.bench.sides import Side

SHORT = Exchange(deltas=20, rate=1_000)
SLOW = Exchange(deltas=30, rate=20)
RUNS = "/v1/agents/assistant/runs"


class Stream:
    """One conversation on one connection: a run after the other, each streamed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session: dict[str, str] = {}
        self._answers: list[Answer] = []

    @property
    def deltas(self) -> int:
        """How many deltas came so far."""
        return sum(answer.deltas for answer in self._answers)

    async def run(self, exchange: Exchange, *, fresh: bool = False) -> Answer:
        """Ask, in a *fresh* session or in the one so far, and return the answer when it is whole."""
        body = {"input": exchange.text, "mode": "stream", **({} if fresh else self._session)}
        answer = self._connection.send("POST", RUNS, body)
        self._answers.append(answer)
        await answer.until()
        assert answer.ends == 1, f"A run did not end in order (HTTP {answer.status})."
        self._session = {"session": answer.headers["parley-session"]}
        return answer


@asynccontextmanager
async def streams(side: Side, count: int) -> AsyncIterator[list[Stream]]:
    """Give *count* conversations on connections of their own."""
    async with AsyncExitStack() as stack:
        yield [Stream(await stack.enter_async_context(side.connection())) for _ in range(count)]


async def flat_out(side: Side, exchange: Exchange, *, count: int, runs: int) -> float:
    """Return the CPU seconds per 1,000 deltas at *count* streams as fast as they go."""

    async def talk(stream: Stream, times: int) -> None:
        for _ in range(times):
            await stream.run(exchange)

    async with streams(side, count) as talks:
        await asyncio.gather(*(talk(stream, 1) for stream in talks))
        cpu, deltas = await side.cpu(), sum(stream.deltas for stream in talks)
        await asyncio.gather(*(talk(stream, runs) for stream in talks))
        deltas = sum(stream.deltas for stream in talks) - deltas
        return 1000 * (await side.cpu() - cpu) / deltas


async def paced(side: Side, exchange: Exchange, *, count: int, window: float) -> tuple[float, float]:
    """Return the CPU seconds per 1,000 deltas at *count* streams in time, and the share of deltas that came in time.

    The streams begin spread over the length of an answer, and each asks again as soon as it is answered.
    """
    over = asyncio.Event()

    async def talk(stream: Stream, delay: float) -> None:
        await asyncio.sleep(delay)
        while not over.is_set():
            await stream.run(exchange)

    async with streams(side, count) as talks, asyncio.TaskGroup() as group:
        for n, stream in enumerate(talks):
            group.create_task(talk(stream, exchange.seconds * n / count))
        await asyncio.sleep(1.1 * exchange.seconds)
        cpu, deltas, begin = await side.cpu(), sum(stream.deltas for stream in talks), time.perf_counter()
        await asyncio.sleep(window)
        deltas, took = sum(stream.deltas for stream in talks) - deltas, time.perf_counter() - begin
        cpu = await side.cpu() - cpu
        over.set()
    return 1000 * cpu / deltas, deltas / (count * exchange.deltas * took / exchange.seconds)


async def first_text_of_run(side: Side, *, asks: int, fresh: bool) -> float:
    """Return the median seconds from posting a run to its first text; each in a *fresh* session or all in one."""
    found: list[float] = []
    async with streams(side, 1) as (stream,):
        await stream.run(SHORT)
        for _ in range(asks):
            begin = time.perf_counter()
            found.append((await stream.run(SHORT, fresh=fresh)).first - begin)
    return median(found)


async def first_text_of_message(
    side: Side, session: str, *, asks: int, newest: int = 1, cold: bool = False
) -> list[float]:
    """Return the seconds from posting a message to its first text on the session's open events.

    *newest* is a seq that the session has. When *cold*, the session is not in memory: its log is read first.
    """
    found: list[float] = []
    async with side.connection() as asking, side.connection() as reading:
        events = reading.send("GET", f"/v1/sessions/{session}/events?after={newest - 1}")
        await events.begun()
        for _ in range(asks):
            ends = events.ends + 1
            if cold:
                await side.order("forget", session=session)
            begin = events.expect()
            posted = asking.send("POST", f"/v1/sessions/{session}/messages", {"text": SHORT.text})
            await events.until(ends=ends)
            await posted.until()
            found.append(events.first - begin)
    return found


async def bytes_per_exchange(stream: Stream, database: Path, exchange: Exchange, *, exchanges: int) -> float:
    """Return by how many bytes *exchanges* in one session make the database larger, each."""
    await stream.run(exchange)
    before = size(database)
    for _ in range(exchanges):
        await stream.run(exchange)
    return (size(database) - before) / exchanges


def size(database: Path) -> int:
    """Return the bytes of *database* once everything is in its main file."""
    with closing(sqlite3.connect(database)) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy, "Somebody still reads."
    return database.stat().st_size


async def memory(side: Side, *, count: int) -> tuple[float, float]:
    """Return the bytes that an idle server holds, and how many more per stream with an answer under way."""
    async with streams(side, 1) as (stream,):
        await stream.run(SHORT)
    idle = await side.order("memory")
    async with streams(side, count) as talks, asyncio.TaskGroup() as group:
        for stream in talks:
            group.create_task(stream.run(SLOW))
        while not all(stream.deltas for stream in talks):  # noqa: ASYNC110 - many streams, and no hurry
            await asyncio.sleep(0.02)
        busy = await side.order("memory")
    return idle, (busy - idle) / count


async def start(starting: AbstractAsyncContextManager[Side], learn: dict[str, str]) -> float:
    """Return the seconds from starting a server to the first text of its first answer."""
    begin = time.perf_counter()
    async with starting as side:
        if side.name == "bare":
            await side.order("learn", **learn)
        async with streams(side, 1) as (stream,):
            return (await stream.run(SHORT)).first - begin
