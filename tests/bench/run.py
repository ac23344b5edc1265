"""The run: two servers side by side, each figure measured on one and then on the other, round by round."""

import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from app.migrate import migrate
from app.settings import Settings
from tests.bench import measures as m
from tests.bench.exchange import TOKEN, Exchange
from tests.bench.sides import Side, bare, parley, record, served
from tests.bench.table import Row

LIMIT = 200  # messages in a window, by default


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured: *rounds* of each figure (*slow_rounds* of slow ones) and how large each is."""

    rounds: int
    exchange: Exchange
    runs: int
    streams: int
    long: Exchange
    paced: Exchange
    slow_rounds: int
    paced_streams: int
    window: float
    asks: int
    history: int
    exchanges: int
    held: int


FULL = Scale(
    rounds=5,
    exchange=Exchange(deltas=200, tool=True, delay=0.1),
    runs=10,
    streams=20,
    long=Exchange(deltas=2_000, delay=0.1),
    paced=Exchange(deltas=200, rate=50, tool=True),
    slow_rounds=3,
    paced_streams=100,
    window=8.0,
    asks=40,
    history=10_000,
    exchanges=200,
    held=200,
)
QUICK = Scale(
    rounds=2,
    exchange=Exchange(deltas=50, tool=True, delay=0.1),
    runs=1,
    streams=5,
    long=Exchange(deltas=200, delay=0.1),
    paced=Exchange(deltas=25, rate=50, tool=True),
    slow_rounds=1,
    paced_streams=10,
    window=0.5,
    asks=3,
    history=400,
    exchanges=30,
    held=20,
)


async def measure(scale: Scale, folder: Path, *, only: str = "", profile: Path | None = None) -> list[Row]:
    """Measure everything, or *only* some groups, in the empty *folder* and return the table's rows.

    *profile* is a file for what cProfile sees of the last server's event loop; the figures are worth nothing then.
    """
    bench = Bench(scale, folder, profile)
    rows: list[Row] = []
    for part in (bench.flat_out, bench.paced, bench.first_text, bench.stored, bench.kept, bench.start, bench.memory):
        if not only or part.__name__ in only.split(","):
            begin = time.perf_counter()
            rows += await part()
            _tell(f"{part.__name__}: {time.perf_counter() - begin:.0f} s")
    return rows


class Bench:
    """What is measured, a method per group of rows; each starts servers of its own."""

    def __init__(self, scale: Scale, folder: Path, profile: Path | None = None) -> None:
        self._scale, self._folder, self._profile = scale, folder, profile
        self._template = folder / "template" / "parley.db"
        migrate(Settings(_env_file=None, data=self._template.parent))  # type: ignore[call-arg]
        self._databases = 0

    async def flat_out(self) -> list[Row]:
        """Measure the CPU of many streams as fast as they go."""
        s, rows = self._scale, list[Row]()
        async with self._pair(s.exchange, s.long) as pair:
            for exchange, runs, name in (
                (s.exchange, s.runs, f"a tool call and {s.exchange.deltas} tokens each"),
                (s.long, 1, f"{s.long.deltas} tokens each"),
            ):
                spent = partial(m.flat_out, exchange=exchange, count=s.streams, runs=runs)
                title = f"CPU per 1,000 deltas, {s.streams} streams flat out, {name}"
                rows.append(Row(title, "ms", *await self._compare(pair, spent)))
        return rows

    async def paced(self) -> list[Row]:
        """Measure the CPU of more streams at the pace of a model, and whether they keep it."""
        s = self._scale
        found: dict[str, list[tuple[float, float]]] = {"bare": [], "parley": []}
        async with self._pair(s.paced) as pair:
            for side in pair * s.slow_rounds:
                found[side.name].append(await m.paced(side, s.paced, count=s.paced_streams, window=s.window))
        (cpu, share), (bare_cpu, bare_share) = (zip(*found[name], strict=True) for name in ("parley", "bare"))
        title = f"{s.paced_streams} streams of {s.paced.rate:g} deltas/s"
        return [
            Row(f"CPU per 1,000 deltas, {title}", "ms", cpu, bare_cpu),
            Row(f"share delivered, {title}", "%", share, bare_share),
        ]

    async def first_text(self) -> list[Row]:
        """Measure the way from a question to the first text of its answer."""
        asks = self._scale.asks
        rows: list[Row] = []
        async with self._pair(m.SHORT) as pair:
            for fresh, where in ((True, "in a new session"), (False, "in one session")):
                ask = partial(m.first_text_of_run, asks=asks, fresh=fresh)
                title = f"first text p50, 1 stream, runs {where} (POST …/runs, mode stream)"
                rows.append(Row(title, "ms", *await self._compare(pair, ask)))

            async def post(side: Side) -> float:
                return median(await m.first_text_of_message(side, await side.open_session(), asks=asks))

            title = "first text p50, 1 stream, messages on open events (POST …/messages)"
            rows.append(Row(title, "ms", *await self._compare(pair, post)))
        return rows

    async def stored(self) -> list[Row]:
        """Measure the first text behind a long conversation, against that of a new one."""
        rounds, many = range(self._scale.rounds), self._scale.history
        first: list[float] = []
        cases = {
            f"first text at {100:,} stored messages": ("assistant", 100, False),
            f"first text at {many:,} stored messages": ("assistant", many, False),
            f"first text at {many:,} stored messages, all in the window": ("unbounded", many, False),
            f"first text at {many:,} stored messages, session read anew": ("assistant", many, True),
        }
        found: dict[str, list[float]] = {title: [] for title in cases}
        async with self._parley() as side:
            for _ in rounds:
                new = [await self._behind(side, "assistant", 0) for _ in range(self._scale.asks)]
                first.append(median(new))
                for title, (agent, messages, cold) in cases.items():
                    found[title].append(await self._behind(side, agent, messages, cold=cold))
        return [Row(title, "ms", values, first, "the first message") for title, values in found.items()]

    async def _behind(self, side: Side, agent: str, messages: int, *, cold: bool = False) -> float:
        """Return the median first text in a session that holds *messages*."""
        session = await side.open_session(agent)
        if not messages:
            return (await m.first_text_of_message(side, session, asks=1))[0]
        limit = LIMIT if agent == "assistant" else None
        newest = await side.order("build", session=session, messages=messages, limit=limit)
        asks = self._scale.asks // 2 + 2
        found = await m.first_text_of_message(side, session, asks=asks, newest=newest, cold=cold)
        return median(found[1:])

    async def kept(self) -> list[Row]:
        """Measure what an exchange leaves in the database, and whether the later ones leave more."""
        s = self._scale
        exchange, count = replace(s.exchange, delay=0.0), s.exchanges
        early: list[float] = []
        late: list[float] = []
        for _ in range(s.slow_rounds):
            async with self._parley() as side, m.streams(side, 1) as (stream,):
                early.append(await m.bytes_per_exchange(stream, self._database, exchange, exchanges=count))
                late.append(await m.bytes_per_exchange(stream, self._database, exchange, exchanges=count))
        text = [float(exchange.deltas * len(TOKEN))] * len(early)
        title = f"database bytes per exchange (a tool call, {exchange.deltas} tokens: 13 facts)"
        return [
            Row(title, "bytes", early, text, "the answer's text"),
            Row(f"the same, exchanges {count + 1} to {2 * count}", "bytes", late, early, f"exchanges 1 to {count}"),
        ]

    async def start(self) -> list[Row]:
        """Measure a start from nothing to a first answer."""
        async with self._parley() as side:
            lesson = await record(side, m.SHORT, self._folder / "start")
        found: list[float] = []
        base: list[float] = []
        for _ in range(self._scale.slow_rounds):
            base.append(await m.start(bare(), lesson))
            found.append(await m.start(served(self._fresh()), lesson))
        return [Row("process start to first text (`parley serve`)", "s", found, base)]

    async def memory(self) -> list[Row]:
        """Measure the memory of a server, idle and under streams."""
        found: dict[str, list[tuple[float, float]]] = {"bare": [], "parley": []}
        for _ in range(self._scale.slow_rounds):
            async with self._pair(m.SHORT, m.SLOW) as pair:
                for side in pair:
                    found[side.name].append(await m.memory(side, count=self._scale.held))
        (idle, more), (bare_idle, bare_more) = (zip(*found[name], strict=True) for name in ("parley", "bare"))
        return [
            Row("memory, idle", "MB", idle, bare_idle),
            Row(f"memory per stream, {self._scale.held} streams", "kB", more, bare_more),
        ]

    async def _compare(
        self, pair: tuple[Side, Side], take: Callable[[Side], Awaitable[float]]
    ) -> tuple[list[float], list[float]]:
        """Measure on both sides by turns, and return the figures of Parley and of the bare server."""
        found: dict[str, list[float]] = {"bare": [], "parley": []}
        for side in pair * self._scale.rounds:
            found[side.name].append(await take(side))
        return found["parley"], found["bare"]

    @asynccontextmanager
    async def _pair(self, *exchanges: Exchange) -> AsyncIterator[tuple[Side, Side]]:
        """Give both servers, the bare one taught the frames of *exchanges*."""
        async with bare() as base, self._parley() as side:
            for exchange in exchanges:
                await base.order("learn", **await record(side, exchange, self._folder / "frames"))
            yield base, side

    @asynccontextmanager
    async def _parley(self) -> AsyncIterator[Side]:
        async with parley(self._fresh()) as side:
            if self._profile is None:
                yield side
                return
            await side.order("profile")
            yield side
            await side.order("profile", to=str(self._profile.resolve()))

    @property
    def _database(self) -> Path:
        """The database of the latest server."""
        return self._folder / str(self._databases) / "parley.db"

    def _fresh(self) -> Path:
        """Return a migrated, empty database in a folder of its own."""
        self._databases += 1
        self._database.parent.mkdir()
        shutil.copy(self._template, self._database)
        return self._database


def _tell(line: str) -> None:
    sys.stderr.write(f"  {line}\n")
