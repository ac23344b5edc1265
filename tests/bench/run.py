"""The run: a model server and two servers before it, each figure measured on one and then on the other, by turns."""

import compileall
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

from agent_core.agents import DEFAULT_CONTEXT_MESSAGES
from app.settings import Settings
from app.storage import migrate
from tests.bench import assembled, billed, called, drawn, widget
from tests.bench import measures as m
from tests.bench import scale as s
from tests.bench.exchange import TOKEN, Exchange
from tests.bench.hostile import delay, greedy, slow
from tests.bench.scale import Scale
from tests.bench.sides import ROOT, Side, limit, model, parley, served
from tests.bench.table import Goal, Row, Unit
from tests.bench.wires import MESSAGES, RESPONSES, WIRES, BenchWire

T = TypeVar("T")
# What an installation compiles; a checkout does as it is first started.
PACKAGES = ("agent_core", "app", "channels", "migrations", "parley", "tests/bench")
# Above this share of its core the model server or the client is what limits a figure.
BUSY = 0.9


async def measure(scale: Scale, folder: Path, *, only: str = "", profile: Path | None = None) -> list[Row]:
    """Measure everything, or *only* some groups, in the empty *folder* and return the table's rows.

    *profile* is a file for what cProfile sees of the last server's event loop; the figures are worth nothing then.
    """
    rows: list[Row] = []
    async with model() as models:
        bench = Bench(scale, folder, models, profile)
        groups = (bench.flat_out, bench.wires, bench.paced, bench.first_text, bench.stored)
        alone = (bench.assembled, bench.tools, bench.drawn, bench.widget, bench.billed)
        for group in (*groups, bench.kept, bench.hostile, *alone, bench.start, bench.memory):
            if not only or group.__name__ in only.split(","):
                begin = time.monotonic()
                rows += await group()
                _tell(f"{group.__name__}: {time.monotonic() - begin:.0f} s")
    return rows


class Bench:
    """What is measured, a method per group of rows; each starts servers of its own before the one model server."""

    def __init__(self, scale: Scale, folder: Path, models: Side, profile: Path | None = None) -> None:
        self._scale, self._folder, self._model, self._profile = scale, folder, models, profile
        self._template = folder / "template" / "parley.db"
        migrate(Settings(_env_file=None, data=self._template.parent))  # type: ignore[call-arg]
        self._databases = 0

    async def flat_out(self) -> list[Row]:
        """Measure the CPU of streams as fast as they go."""
        scale, rows = self._scale, list[Row]()
        cases = [
            (scale.exchange, count, runs, f"a tool call and {scale.exchange.deltas} tokens each")
            for count, runs in scale.flat.items()
        ]
        cases.append((scale.long, min(scale.flat, key=_far), 1, f"{scale.long.deltas} tokens each"))
        async with self._pair() as pair:
            for exchange, count, runs, name in cases:
                title = f"CPU per 1,000 deltas, flat out, {_streams(count)}, {name}"
                goal = s.FLAT if count == s.FLAT_STREAMS else None
                rows.append(await self._flat(pair, title, exchange, MESSAGES, count, runs, goal))
        return rows

    async def wires(self) -> list[Row]:
        """Measure the CPU of the same on each wire."""
        scale = self._scale
        count = min(scale.flat, key=_far)
        async with self._pair(tuple(WIRES.values())) as pair:
            return [
                await self._flat(
                    pair,
                    f"the same, {_streams(count)}, on the wire of `{wire.provider}`",
                    scale.exchange,
                    wire,
                    count,
                    scale.flat[count],
                    None,
                )
                for wire in WIRES.values()
            ]

    async def _flat(
        self,
        pair: tuple[Side, Side],
        title: str,
        exchange: Exchange,
        wire: BenchWire,
        count: int,
        runs: int,
        goal: Goal | None,
    ) -> Row:
        async def take(side: Side) -> float:
            asked = exchange if side.name == "parley" else exchange.plain
            window = await m.flat_out(side, self._model, asked, agent=wire.agent, count=count, runs=runs)
            return self._seen(window, f"{title}: {side.name}").per_thousand

        rounds = self._scale.rounds if goal else self._scale.slow_rounds
        return Row(title, "ms", *await _by_turns(pair, rounds, take), goal=goal)

    async def paced(self) -> list[Row]:
        """Measure streams at the pace of a model: their CPU, whether they keep it, and how late they are."""
        rows: list[Row] = []
        async with self._pair() as pair:
            for count, rounds in self._scale.paced.items():
                rows += await self._in_time(pair, count, rounds)
        return rows

    async def _in_time(self, pair: tuple[Side, Side], count: int, rounds: int) -> list[Row]:
        scale, goals = self._scale, count == s.PACED_STREAMS
        title = f"{_streams(count)} of {scale.pace.rate:g} deltas/s"

        async def take(side: Side) -> m.Paced:
            found = await m.paced(
                side, self._model, scale.pace, count=count, window=scale.window, probing=scale.probing
            )
            self._seen(found.window, f"{title}: {side.name}")
            return found

        ours, base = await _by_turns(pair, rounds, take)

        def row(figure: str, unit: Unit, read: Callable[[m.Paced], float], goal: Goal | None = None) -> Row:
            values, compared = [read(each) for each in ours], [read(each) for each in base]
            return Row(f"{figure} {title}", unit, values, compared, goal=goal)

        return [
            row("CPU per 1,000 deltas,", "ms", lambda x: x.window.per_thousand, s.PACED if goals else None),
            row("share delivered,", "%", lambda x: x.share, s.SHARE if count == s.SHARE_STREAMS else None),
            row("first text p50 among", "ms", lambda x: median(x.firsts)),
            row("first text p99 among", "ms", lambda x: _p99(x.firsts), s.FIRST_TEXT_BUSY if goals else None),
            row("delta transit p50,", "ms", lambda x: median(x.transits)),
            row("delta transit p99,", "ms", lambda x: _p99(x.transits), s.TRANSIT if goals else None),
        ]

    async def first_text(self) -> list[Row]:
        """Measure the way from a question to the first text of its answer."""
        scale = self._scale
        rows: list[Row] = []
        async with self._pair() as pair:
            for fresh, where, goal in ((False, "in one session", s.FIRST_TEXT), (True, "each in a new session", None)):
                ask = partial(m.first_text_of_run, asks=scale.asks, fresh=fresh)
                title = f"first text p50, 1 stream, runs {where}"
                rows.append(Row(title, "ms", *await _by_turns(pair, scale.rounds, ask), goal=goal))

            async def post(side: Side) -> float:
                if side.name == "limit":
                    return await m.first_text_of_run(side, asks=scale.asks, fresh=False)
                return await m.first_text_of_message(side, m.PastSession(await side.open_session()), asks=scale.asks)

            title = "first text p50, 1 stream, messages on open events"
            rows.append(Row(title, "ms", *await _by_turns(pair, scale.rounds, post)))
            rows += await self._burst(pair)
        return rows

    async def _burst(self, pair: tuple[Side, Side]) -> list[Row]:
        """Measure the first texts of runs that start at once, each in a new session."""
        count = self._scale.burst
        ours, base = await _by_turns(pair, self._scale.rounds, partial(m.burst, count=count))
        title = f"{count} new sessions at once, first text"
        return [
            Row(f"{title} p50", "ms", list(map(median, ours)), list(map(median, base))),
            Row(f"{title} p99", "ms", list(map(_p99, ours)), list(map(_p99, base)), goal=s.BURST),
        ]

    async def stored(self) -> list[Row]:
        """Measure the first text after a long conversation, against that of a new one."""
        scale, first = self._scale, list[float]()
        *_, whole, many = scale.stored
        cases = {f"first text at {count:,} stored messages": ("assistant", count, False) for count in scale.stored}
        cases[f"first text at {2 * whole:,} stored messages, all in the window"] = ("unbounded", 2 * whole, False)
        cases[f"first text at {many:,} stored messages, session read again"] = ("assistant", many, True)
        found: dict[str, list[float]] = {title: [] for title in cases}
        async with self._parley() as side:
            pasts = {title: await _past(side, agent, count) for title, (agent, count, _) in cases.items()}
            for _ in range(scale.rounds):
                first.append(median([await _new(side) for _ in range(scale.asks)]))
                for title, (_, _, cold) in cases.items():
                    found[title].append(await m.first_text_of_message(side, pasts[title], asks=scale.asks, cold=cold))
        rows = [Row(title, "ms", each, first, "the first message", s.STORED) for title, each in found.items()]
        return [Row("first text at 1 stored message", "ms", first, first, "itself"), *rows]

    async def kept(self) -> list[Row]:
        """Measure what an exchange leaves in the database, and whether the later ones leave more."""
        scale, count = self._scale, self._scale.exchanges
        exchange = replace(scale.exchange, delay=0.0)
        early: list[float] = []
        late: list[float] = []
        for _ in range(scale.slow_rounds):
            async with self._parley() as side, m.streams(side, 1) as (stream,):
                early.append(await m.bytes_per_exchange(stream, self._database, exchange, exchanges=count))
                late.append(await m.bytes_per_exchange(stream, self._database, exchange, exchanges=count))
        text = [float(exchange.deltas * len(TOKEN))] * len(early)
        title = f"database bytes per exchange (a tool call, {exchange.deltas} tokens: 13 facts)"
        return [
            Row(title, "bytes", early, text, "the answer's text", s.KEPT),
            Row(f"the same, exchanges {count + 1} to {2 * count}", "bytes", late, early, f"exchanges 1 to {count}"),
        ]

    async def start(self) -> list[Row]:
        """Measure a start from nothing to a first answer; what is installed has its bytecode, so has what is here."""
        for package in PACKAGES:
            compileall.compile_dir(ROOT / package, quiet=2)
        found: dict[BenchWire, list[float]] = {MESSAGES: [], RESPONSES: []}
        base: list[float] = []
        for _ in range(self._scale.slow_rounds):
            base.append(await m.start(limit(self._model.url)))
            for wire, starts in found.items():
                starts.append(await m.start(served(self._fresh(), self._model.url, wire)))
        title = "process start to first text (`parley serve`)"
        return [
            Row(title, "s", found[MESSAGES], base, goal=s.START),
            Row(f"{title}, with the SDK of `openai`", "s", found[RESPONSES], base),
        ]

    async def memory(self) -> list[Row]:
        """Measure the memory of a server, idle and under streams; each number of streams has servers of its own."""
        found: dict[int, tuple[list[m.Memory], list[m.Memory]]] = {}
        for count in self._scale.held:
            ours, base = found[count] = [], []
            for _ in range(self._scale.slow_rounds):
                async with limit(self._model.url) as bare, served(self._fresh(), self._model.url) as side:
                    base.append(await m.memory(bare, count=count))
                    ours.append(await m.memory(side, count=count))
        last = self._scale.held[-1]

        def row(
            title: str, unit: Unit, read: Callable[[m.Memory], float], goal: Goal | None = None, count: int = last
        ) -> Row:
            ours, base = found[count]
            return Row(title, unit, [read(each) for each in ours], [read(each) for each in base], goal=goal)

        def per_stream(count: int) -> Row:
            goal = s.PER_STREAM if count == last else None
            return row(f"memory per open stream, {_streams(count)}", "kB", lambda x: x.per_stream, goal, count)

        return [
            row("memory, idle, not asked yet", "MB", lambda x: x.unasked),
            row("memory, idle, having answered once", "MB", lambda x: x.idle, s.IDLE),
            *map(per_stream, self._scale.held),
        ]

    def _seen(self, window: m.Window, what: str) -> m.Window:
        """Say when something else than the server was what limited *window*."""
        for name, share in (("the model server", window.model), ("the client", window.client)):
            if share > BUSY:
                _tell(f"warning: {what}: {name} used {share:.0%} of its core")
        return window

    async def hostile(self) -> list[Row]:
        """Measure how long one hostile client delays another's first text, and one that is slow."""
        rows = []
        for kind, client in (("hostile", greedy), ("slow", slow)):
            async with self._parley() as side:
                found = [await delay(side, client, asks=self._scale.asks) for _ in range(self._scale.slow_rounds)]
            title = f"delay of another's first text by one {kind} client, the longest"
            delays, alone = zip(*found, strict=True)
            rows.append(Row(title, "ms", delays, alone, against="a first text alone", goal=s.DELAY))
        return rows

    async def assembled(self) -> list[Row]:
        """Measure how long a long conversation's window takes to assemble, which needs no server."""
        scale = self._scale
        return await assembled.rows(
            rounds=scale.slow_rounds,
            asks=scale.asks,
            messages=scale.stored[-1],
            folder=self._folder,
            template=self._template,
        )

    async def tools(self) -> list[Row]:
        """Measure calls of tools and what tools add to a request, which needs no server of these."""
        scale = self._scale
        template = self._template
        return await called.rows(rounds=scale.slow_rounds, asks=scale.asks, folder=self._folder, template=template)

    async def drawn(self) -> list[Row]:
        """Measure tables and charts, which need no server."""
        scale = self._scale
        return await drawn.rows(rounds=scale.slow_rounds, pictures=scale.pictures, seconds=scale.stuck)

    async def widget(self) -> list[Row]:
        """Measure the widget in a browser, before a server that streams a long conversation."""
        scale = self._scale
        return await widget.rows(rounds=scale.slow_rounds, messages=scale.shown, seconds=scale.window)

    async def billed(self) -> list[Row]:
        """Bill conversations by the simulated prompt caches, which need no server either."""
        return await billed.rows(self._scale.talks, self._folder, self._template)

    @asynccontextmanager
    async def _pair(self, wires: Sequence[BenchWire] = (MESSAGES,)) -> AsyncIterator[tuple[Side, Side]]:
        """Give the limit and Parley."""
        async with limit(self._model.url) as base, self._parley(wires) as side:
            yield base, side

    @asynccontextmanager
    async def _parley(self, wires: Sequence[BenchWire] = (MESSAGES,)) -> AsyncIterator[Side]:
        async with parley(self._fresh(), self._model.url, wires) as side:
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


async def _by_turns(
    pair: tuple[Side, Side], rounds: int, take: Callable[[Side], Awaitable[T]]
) -> tuple[list[T], list[T]]:
    """Measure on both sides by turns, and return the figures of Parley and of the limit."""
    bare, side = pair
    base: list[T] = []
    ours: list[T] = []
    for _ in range(rounds):
        base.append(await take(bare))
        ours.append(await take(side))
    return ours, base


async def _new(side: Side) -> float:
    """Return the first text of a first message."""
    return await m.first_text_of_message(side, m.PastSession(await side.open_session()), asks=1)


async def _past(side: Side, agent: str, messages: int) -> m.PastSession:
    """Return a new session that holds *messages*, and was asked before."""
    session = await side.open_session(agent)
    bound = None if agent == "unbounded" else DEFAULT_CONTEXT_MESSAGES
    past = m.PastSession(session, await side.order("build", session=session, messages=messages, limit=bound))
    await m.first_text_of_message(side, past, asks=1)
    return past


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


def _far(count: int) -> int:
    """Return how far *count* is from the streams for which the goal is set."""
    return abs(count - s.FLAT_STREAMS)


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"


def _tell(line: str) -> None:
    sys.stderr.write(f"  {line}\n")
