"""Tables and charts: what it takes to make Slack's blocks of them, and to draw their pictures."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import msgspec

from agent_core.charts.draw import BOUNDS, Drawer, DrawingFailed
from agent_core.charts.text import csv_of
from channels.slack.charts import choose, ladder_of
from channels.spec import ShownRender
from tests.agent_core.charts.drawings import bar, endless
from tests.agent_core.charts.specs import corpus
from tests.bench.table import Goal, Row
from tests.channels.slack.outbound.drawings import figures, view_of

ROWS, COLUMNS, MONTHS, SERIES, TABLES = 500, 10, 12, 4, 50
BEAT = 0.02
# Issue 25 sets what must be; the aims are ours.
TABLE, CHART = Goal(must=20, aim=10, of="value"), Goal(must=10, aim=2, of="value")
MIDDLE, SLOWEST = Goal(must=300, aim=100, of="value"), Goal(must=1_000, aim=300, of="value")
HELD, KILLED = Goal(must=512, aim=200, of="value"), Goal(must=600, aim=550, of="value")
STUCK, LATE = Goal(must=1.3, aim=1.1), Goal(must=50, aim=20, of="value")
ALONE = """
import json, sys, time, vl_convert
specs = json.load(sys.stdin)
vl_convert.vegalite_to_png(specs[0], vl_version="6.4", scale=2)
for spec in specs:
    begin = time.perf_counter()
    vl_convert.svg_to_png(vl_convert.vegalite_to_svg(spec, vl_version="6.4"), scale=2)
    print(time.perf_counter() - begin)
"""
"""The renderer in a process without bounds, which is given nothing and gives nothing back."""


class Pictures(NamedTuple):
    """Seconds for each picture, here and by the renderer alone; bytes that the process holds after them."""

    ours: list[float]
    alone: list[float]
    held: int


async def rows(*, rounds: int, pictures: int, seconds: float) -> list[Row]:
    """Measure blocks, *pictures* in each of so many *rounds*, and charts that are killed after *seconds* or by size."""
    table, chart = a_table(), a_chart()
    drawn = [await draw(pictures) for _ in range(rounds)]
    beats = [await heartbeat(pictures) for _ in range(rounds)]
    bombs = [await killed() for _ in range(rounds)]
    stuck = [await reported(seconds) for _ in range(rounds)]
    beside = [await beside_tables() for _ in range(rounds)]
    amounts = a_table(text=False)
    late, still = zip(*beats, strict=True)
    bound = float(BOUNDS.resident << 20)
    return [
        Row(
            f"a table of {ROWS} x {COLUMNS} as Slack's blocks",
            *("ms", [timed(lambda: form(table)) for _ in range(rounds)]),
            *([timed(lambda: csv_of("table", table.payload)) for _ in range(rounds)], "the same as CSV", TABLE),
        ),
        Row(
            "the same with amounts of money in all columns",
            *("ms", [timed(lambda: form(amounts)) for _ in range(rounds)]),
            *([timed(lambda: csv_of("table", amounts.payload)) for _ in range(rounds)], "the same as CSV", TABLE),
        ),
        Row(
            f"a chart of {MONTHS} x {SERIES} as Slack's own block",
            *("ms", [timed(lambda: form(chart)) for _ in range(rounds)]),
            *([timed(lambda: msgspec.json.encode(chart.payload)) for _ in range(rounds)], "the same as JSON", CHART),
        ),
        of_pictures("picture of a chart (PNG, warm), p50", drawn, median, MIDDLE),
        of_pictures("picture of a chart (PNG, warm), p95", drawn, p95, SLOWEST),
        Row(
            f"memory of the drawing process after {pictures} pictures",
            *("MB", [float(each.held) for each in drawn], [bound] * rounds, "its bound", HELD),
        ),
        Row("the same, at most, with a chart that needs too much", "MB", bombs, [bound] * rounds, "its bound", KILLED),
        Row("a chart without an end is reported after", "s", stuck, [seconds] * rounds, "its bound", STUCK),
        Row(
            f"delay of a heartbeat of {BEAT * 1000:g} ms beside {pictures} pictures, the longest",
            *("ms", list(late), list(still), "beside none", LATE),
        ),
        Row(
            f"the same beside {TABLES} tables of {ROWS} x {COLUMNS} amounts for Slack",
            *("ms", beside, list(still), "beside none", LATE),
        ),
    ]


def of_pictures(figure: str, drawn: list[Pictures], read: Callable[[list[float]], float], goal: Goal) -> Row:
    ours, alone = [read(each.ours) for each in drawn], [read(each.alone) for each in drawn]
    return Row(figure, "ms", ours, alone, "the renderer alone", goal)


def p95(values: list[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[18]


def timed(work: Callable[[], object]) -> float:
    """Return the median of the seconds that *work* takes."""
    found: list[float] = []
    for _ in range(20):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return median(found)


def form(render: ShownRender) -> None:
    """Make what a message shows of *render*, which is not remembered."""
    ladder = ladder_of(render)
    assert ladder is not None
    assert choose([ladder], {})[0].form.blocks


def a_table(name: str = "r1", *, text: bool = True) -> ShownRender:
    """Return a table of numbers, with *text* in every other column; without, of amounts of money."""
    amount = "number" if text else "currency:EUR"
    columns = [
        {"key": f"c{n}", "label": f"Column {n}", "format": "text" if text and n % 2 == 0 else amount}
        for n in range(COLUMNS)
    ]
    cells = [
        {f"c{n}": f"cell {row}" if text and n % 2 == 0 else row * n * 1.5 for n in range(COLUMNS)}
        for row in range(ROWS)
    ]
    return ShownRender(name, "table", {"columns": columns, "rows": cells}, "a table", "Orders")


def a_chart() -> ShownRender:
    months = [f"2026-{month:02}" for month in range(1, MONTHS + 1)]
    series = [{"name": f"series {n}", "values": [n * 10 + each for each in range(MONTHS)]} for n in range(SERIES)]
    plain = {"type": "bar", "categories": months, "series": series, "stacked": True}
    return ShownRender("r2", "chart", {"spec": bar(), "plain": plain}, "a chart", "Orders")


def specs(pictures: int) -> list[Mapping[str, Any]]:
    """Return so many charts that only the drawing process can draw, in turn."""
    found = [each.spec for each in corpus() if not each.plain]
    return [found[n % len(found)] for n in range(pictures)]


async def draw(pictures: int) -> Pictures:
    """Draw one picture after the other."""
    drawer, ours = Drawer(replace(BOUNDS, cache=0)), list[float]()
    try:
        await drawer.png(bar())
        for spec in specs(pictures):
            begin = time.perf_counter()
            await drawer.png(spec)
            ours.append(time.perf_counter() - begin)
        held = resident(drawer.pids[0])
    finally:
        await drawer.close()
    return Pictures(ours, await alone(pictures), held)


async def alone(pictures: int) -> list[float]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ALONE, stdin=pipe, stdout=pipe)
    out, _ = await process.communicate(json.dumps(specs(pictures)).encode())
    return [float(each) for each in out.split()]


async def heartbeat(pictures: int) -> tuple[float, float]:
    """Return the longest delay of a heartbeat while so many pictures are asked for at once, and while none is."""
    drawer = Drawer(replace(BOUNDS, cache=0, waiting=pictures))
    try:
        begin = time.perf_counter()
        asked = asyncio.gather(*(drawer.png(spec, owner=str(n)) for n, spec in enumerate(specs(pictures))))
        late = await longest(asked)
        resting = asyncio.ensure_future(asyncio.sleep(time.perf_counter() - begin))
        return late, await longest(resting)
    finally:
        await drawer.close()


async def beside_tables() -> float:
    """Return the longest delay of a heartbeat while tables are shown: ten in one message, the others in threads."""
    shown = [a_table(f"r{n}", text=False) for n in range(TABLES)]
    bodies = [view_of(*shown[:10]), *(view_of(each) for each in shown[10:])]
    return await longest(asyncio.gather(*(figures().items(each) for each in bodies)))


async def longest(until: "asyncio.Future[Any]") -> float:
    """Return by how much the latest heartbeat was late, until something is done."""
    late = 0.0
    while not until.done():
        begin = time.perf_counter()
        await asyncio.sleep(BEAT)
        late = max(late, time.perf_counter() - begin - BEAT)
    await until
    return late


async def killed() -> float:
    """Return the most bytes that were seen in the process with a chart that needs too much."""
    drawer, most = Drawer(replace(BOUNDS, seconds=60)), 0
    asked = asyncio.ensure_future(drawer.png(bar(title="x" * 1_000_000)))
    while not asked.done():
        await asyncio.sleep(0.01)
        most = max(most, *(resident(pid) for pid in drawer.pids), 0)
    await drawer.close()
    assert isinstance(asked.exception(), DrawingFailed)
    return float(most)


async def reported(seconds: float) -> float:
    """Return after how long a chart without an end is reported by a process that is ready."""
    drawer = Drawer(replace(BOUNDS, seconds=seconds))
    await drawer.check(bar())
    begin = time.perf_counter()
    try:
        await drawer.png(endless())
    except DrawingFailed:
        return time.perf_counter() - begin
    finally:
        await drawer.close()
    raise AssertionError("a chart without an end was drawn")


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
