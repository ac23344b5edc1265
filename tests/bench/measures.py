"""What is measured: each function measures one thing once, on one side."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.client import Answer, Connection
from tests.bench.exchange import Exchange
from tests.bench.sides import Side

SHORT = Exchange(deltas=1)
SLOW = Exchange(deltas=30, rate=20)
# While other streams are busy, so many conversations ask short questions with so long a pause.
PROBES = 2
PAUSE = 0.03
# A server is at rest when its memory is about the same (bytes) after REST; one that is not in REST_LIMIT never will be.
STILL = 64 * 1024
REST, REST_LIMIT = 1.0, 30.0


class AgentStream:
    """One conversation with *agent* on one connection: a run after the other, each streamed."""

    def __init__(self, connection: Connection, side: Side, agent: str) -> None:
        self._connection = connection
        self._path, self._marks = f"/v1/agents/{agent}/runs", side.marks(agent)
        self._session: dict[str, str] = {}
        self._whole = 0
        self.late = 0
        self.answer: Answer | None = None

    @property
    def deltas(self) -> int:
        """How many deltas came so far."""
        return self._whole + (self.answer.deltas if self.answer else 0)

    def ask(self, exchange: Exchange, *, fresh: bool = False) -> Answer:
        """Ask, in a *fresh* session or in the one so far, and return the answer, which is still to come."""
        self._whole = self.deltas
        body = {"input": exchange.text, "mode": "stream", **({} if fresh else self._session)}
        self.answer = self._connection.send("POST", self._path, body, marks=self._marks)
        return self.answer

    async def run(self, exchange: Exchange, *, fresh: bool = False) -> Answer:
        """Ask, and return the answer when it is whole."""
        answer = self.ask(exchange, fresh=fresh)
        await answer.until()
        assert (answer.ends, answer.deltas) == (1, exchange.deltas), (
            f"{answer.deltas} of {exchange.deltas} deltas and {answer.ends} ends came (HTTP {answer.status})."
        )
        self.late += answer.late
        assert not answer.disorder, f"{answer.disorder} facts did not come in order."
        if session := answer.headers.get("parley-session"):
            self._session = {"session": session}
        return answer


@dataclass(frozen=True, slots=True)
class Window:
    """A while in which all was measured: *cpu* are the server's seconds, *model* and *client* shares of a core."""

    seconds: float
    deltas: int
    cpu: float
    model: float
    client: float

    @property
    def per_thousand(self) -> float:
        """The CPU seconds per 1,000 deltas."""
        return 1000 * self.cpu / self.deltas


class Watch:
    """Looks at the clocks of a *side* and of those around it, between `begin` and `end`."""

    def __init__(self, side: Side, model: Side, streams: Sequence[AgentStream]) -> None:
        self._side, self._model, self._streams = side, model, streams
        self._clocks = (0.0, 0.0, 0.0, 0.0)
        self._deltas = 0

    async def begin(self) -> None:
        self._clocks, self._deltas = await self._look(), self._count()

    async def end(self) -> Window:
        deltas = self._count() - self._deltas
        found = await self._look()
        cpu, model, client, seconds = (now - then for now, then in zip(found, self._clocks, strict=True))
        return Window(seconds, deltas, cpu, model / seconds, client / seconds)

    async def _look(self) -> tuple[float, float, float, float]:
        cpu, model = await asyncio.gather(self._side.cpu(), self._model.cpu())
        return cpu, model, time.process_time(), time.monotonic()

    def _count(self) -> int:
        return sum(stream.deltas for stream in self._streams)


@dataclass(frozen=True, slots=True)
class Paced:
    """What streams in time showed: *transits* and *firsts*, seconds of each delta and of each first text.

    *late* is the share of deltas that came with the whole message only.
    """

    window: Window
    share: float
    late: float
    transits: Sequence[float]
    firsts: Sequence[float]


@asynccontextmanager
async def streams(side: Side, count: int, agent: str = "assistant") -> AsyncIterator[list[AgentStream]]:
    """Give *count* conversations with *agent* on connections of their own."""
    async with AsyncExitStack() as stack:
        yield [AgentStream(await stack.enter_async_context(side.connection()), side, agent) for _ in range(count)]


async def flat_out(side: Side, model: Side, exchange: Exchange, *, agent: str, count: int, runs: int) -> Window:
    """Measure *count* streams as fast as they go, *runs* exchanges each."""

    async def talk(stream: AgentStream) -> None:
        for _ in range(runs):
            await stream.run(exchange)

    async with streams(side, count, agent) as talks:
        await asyncio.gather(*(stream.run(SHORT) for stream in talks))
        watch = Watch(side, model, talks)
        await watch.begin()
        await asyncio.gather(*(talk(stream) for stream in talks))
        return await watch.end()


async def paced(side: Side, model: Side, exchange: Exchange, *, count: int, window: float, probing: float) -> Paced:
    """Measure *count* streams in time for *window* seconds, then, for *probing* seconds, first texts among them.

    The streams begin spread over the length of an answer, and each asks again as soon as it is answered.
    """
    over = asyncio.Event()
    transits: list[tuple[float, float]] = []

    async def talk(stream: AgentStream, delay: float) -> None:
        await asyncio.sleep(delay)
        while not over.is_set():
            transits.extend((await stream.run(exchange)).transits)

    async with streams(side, count) as talks, streams(side, PROBES) as probes, asyncio.TaskGroup() as group:
        for n, stream in enumerate(talks):
            group.create_task(talk(stream, exchange.seconds * n / count))
        await asyncio.sleep(1.1 * exchange.seconds)
        watch, begin = Watch(side, model, talks), time.monotonic()
        await watch.begin()
        await asyncio.sleep(window)
        found = await watch.end()
        end = time.monotonic()
        firsts = [first for each in await asyncio.gather(*(_probe(p, probing) for p in probes)) for first in each]
        over.set()
    share = found.deltas / (count * exchange.deltas * found.seconds / exchange.seconds)
    late = sum(stream.late for stream in talks) / sum(stream.deltas for stream in talks)
    return Paced(found, share, late, [took for came, took in transits if begin <= came <= end], firsts)


async def _probe(stream: AgentStream, seconds: float) -> list[float]:
    """Return the first texts of short questions, asked one after the other for *seconds*."""
    await stream.run(SHORT)
    found: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found.append(await _first(stream))
        await asyncio.sleep(PAUSE)
    return found


async def _first(stream: AgentStream, *, fresh: bool = False) -> float:
    begin = time.monotonic()
    return (await stream.run(SHORT, fresh=fresh)).first - begin


async def burst(side: Side, *, count: int) -> list[float]:
    """Return the seconds to each first text of *count* runs that start at once, each in a new session."""
    async with streams(side, count) as talks:
        await asyncio.gather(*(stream.run(SHORT, fresh=True) for stream in talks))
        return await asyncio.gather(*(_first(stream, fresh=True) for stream in talks))


async def first_text_of_run(side: Side, *, asks: int, fresh: bool) -> float:
    """Return the median seconds from posting a run to its first text; each in a *fresh* session or all in one."""
    async with streams(side, 1) as (stream,):
        await stream.run(SHORT)
        return median([await _first(stream, fresh=fresh) for _ in range(asks)])


@dataclass(slots=True)
class PastSession:
    """A session and the newest seq that it has."""

    session: str
    newest: int = 1


async def first_text_of_message(side: Side, past: PastSession, *, asks: int, cold: bool = False) -> float:
    """Return the median seconds from posting a message to its first text on the open events of a session.

    When *cold*, the session is not in memory: its log is read first.
    """
    found: list[float] = []
    async with side.connection() as asking, side.connection() as reading:
        events = reading.send("GET", f"/v1/sessions/{past.session}/events?after={past.newest - 1}")
        await events.begun()
        for _ in range(asks):
            ends = events.ends + 1
            if cold:
                await side.order("forget", session=past.session)
            begin = events.expect()
            posted = asking.send("POST", f"/v1/sessions/{past.session}/messages", {"text": SHORT.text}, keep=True)
            await events.until(ends=ends)
            await posted.until()
            found.append(events.first - begin)
        past.newest = events.newest
    return median(found)


async def bytes_per_exchange(stream: AgentStream, database: Path, exchange: Exchange, *, exchanges: int) -> float:
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
    assert not busy, "A reader is still connected."
    return database.stat().st_size


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes that a server holds before its first request, after one answer, and more per open stream."""

    unasked: float
    idle: float
    per_stream: float


async def memory(side: Side, *, count: int) -> Memory:
    """Measure the memory of a server that was just started, and with *count* answers under way."""
    unasked = await _at_rest(side)
    async with streams(side, 1) as (stream,):
        await stream.run(SHORT)
    idle = side.memory()
    async with streams(side, count) as talks:
        answers = [stream.ask(SLOW) for stream in talks]
        await asyncio.gather(*(answer.spoken() for answer in answers))
        busy = side.memory()
        assert not any(answer.finished for answer in answers), "Not all streams were open together."
        await asyncio.gather(*(answer.until() for answer in answers))
    return Memory(unasked, idle, (busy - idle) / count)


async def _at_rest(side: Side) -> int:
    """Return the bytes that *side* holds once what it still prepares when it listens already is over."""
    before, found = 0, side.memory()
    async with asyncio.timeout(REST_LIMIT):
        while abs(found - before) > STILL:
            await asyncio.sleep(REST)
            before, found = found, side.memory()
    return found


async def start(starting: AbstractAsyncContextManager[Side]) -> float:
    """Return the seconds from starting a server to the first text of its first answer."""
    begin = time.monotonic()
    async with starting as side, streams(side, 1) as (stream,):
        return (await stream.run(SHORT)).first - begin
