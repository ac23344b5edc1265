"""The bench works: what it measures is for the machine that it runs on."""

import asyncio
import sys

import pytest

from tests.bench.__main__ import NOT_AGAIN, keep, keep_again
from tests.bench.run import measure
from tests.bench.scale import QUICK
from tests.bench.sides import started
from tests.bench.table import HEAD, Goal, Row, table
from tests.load.__main__ import raised_settings

pytestmark = pytest.mark.whole

SAFETY = 240.0
FIGURES = {
    "CPU per 1,000 deltas, flat out": 2,
    "the same, 5 streams, on the wire of": 3,
    "CPU per 1,000 deltas, 10 streams of 50 deltas/s": 1,
    "share delivered, 10 streams": 1,
    "first text p50 among 10 streams": 1,
    "first text p99 among 10 streams": 1,
    "delta transit p50, 10 streams": 1,
    "delta transit p99, 10 streams": 1,
    "first text p50, 1 stream": 3,
    "10 new sessions at once, first text": 2,
    "first text at 1 stored message": 1,
    "first text at 10 stored messages": 1,
    "first text at 20 stored messages, all in the window": 1,
    "first text at 100 stored messages": 2,
    "database bytes per exchange": 1,
    "the same, exchanges 11 to 20": 1,
    "delay of another's first text by one": 2,
    "window of a conversation of 100 messages": 1,
    "a function tool's call": 1,
    "a run with 20 parallel calls": 1,
    "request of an agent with": 4,
    "an HTTP tool's call": 1,
    "an MCP tool's call over": 2,
    "a table of 500 x 10 as Slack's blocks": 1,
    "the same with amounts of money": 1,
    "the same beside": 1,
    "a chart of 12 x 4 as Slack's own block": 1,
    "picture of a chart": 2,
    "memory of the drawing process": 1,
    "the same, at most": 1,
    "a chart without an end": 1,
    "delay of a heartbeat": 1,
    "first load": 1,
    "first paint": 1,
    "scripting per frame": 2,
    "a log of": 1,
    "heap that a mount": 1,
    "bill of": 4,
    "process start to first text": 2,
    "memory, idle": 2,
    "memory per open stream": 1,
}


GROUPS = {
    "kept": ("database bytes", "the same, exchanges"),
    "assembled": ("window of a conversation",),
}
"""The groups of the gate, with how their figures begin: they need the model, a server, a client, history."""


@pytest.mark.parametrize("only", [",".join(GROUPS), pytest.param("", marks=pytest.mark.whole)], ids=["few", "all"])
async def test_the_bench_fills_its_table(tmp_path, only: str):
    """`make bench` compares Parley with a bare byte pipe in the same run, figure by figure."""
    async with asyncio.timeout(SAFETY):
        rows = await measure(QUICK, tmp_path, only=only)
    starts = tuple(start for group in only.split(",") for start in GROUPS.get(group, ())) or tuple(FIGURES)
    wanted = {start: many for start, many in FIGURES.items() if start.startswith(starts)}
    found = [row.figure for row in rows]
    assert {start: len([each for each in found if each.startswith(start)]) for start in wanted} == wanted
    assert len(found) == sum(wanted.values())
    assert [(row, value) for row in rows for value in (*row.found, *row.base) if value <= 0] == []
    assert [line for line in table(rows).splitlines() if len(line.split(" | ")) != len(HEAD)] == []


PRINTING = """
from contextlib import asynccontextmanager
from tests.bench.serving import serve

@asynccontextmanager
async def running():
    yield 1, {"print": lambda: print("x" * 200_000)}

serve(running())
"""


async def test_what_a_server_prints_is_no_answer_to_an_order():
    """A server of the bench that prints more than a pipe holds still follows orders."""
    async with asyncio.timeout(SAFETY), started("printing", [sys.executable, "-c", PRINTING]) as side:
        assert await side.order("print") is None
        assert await side.cpu() > 0


def test_the_table_says_which_goals_are_met():
    """A figure of the bench is judged by its ratio or by its value, at most or at least what it must be."""
    twice = {"unit": "ms", "found": [0.002], "base": [0.001]}
    rows = [
        Row("a", **twice, goal=Goal(must=4, aim=2)),
        Row("b", **twice, goal=Goal(must=2, aim=1)),
        Row("c", **twice, goal=Goal(must=1.9, aim=1)),
        Row("d", "%", [0.96], [1.0], goal=Goal(must=95, aim=99, of="value", at="least")),
        Row("e", "%", [0.94], [1.0], goal=Goal(must=95, aim=99, of="value", at="least")),
        Row("f", **twice),
    ]
    verdicts = [line.rstrip(" |").rpartition("| ")[2] for line in table(rows).splitlines()[2:7]]
    assert verdicts == ["aim met", "must met", "**missed**", "must met", "**missed**"]
    assert table(rows).splitlines()[-1].endswith("|  |  |  |")


def test_rows_measured_again_are_a_table_of_their_own(tmp_path):
    """A row that was measured again never replaces one of the whole run; the next whole run clears the second table."""
    figures, summary = tmp_path / "figures.md", tmp_path / "summary.md"
    figures.write_text("<!-- measured: all -->\n<!-- end: all -->\n<!-- measured: again -->\n<!-- end: again -->\n")
    summary.write_text("<!-- measured: goals -->\n<!-- end: goals -->\n")
    whole = [Row("a", "ms", [2.0], [1.0], goal=Goal(must=3, aim=2)), Row("b", "ms", [2.0], [1.0])]
    keep(whole, figures=figures, summary=summary)
    assert table(whole) in figures.read_text()
    assert table(whole[:1]) in summary.read_text()
    assert "| b |" not in summary.read_text()
    again = [Row("a", "ms", [9.0], [1.0])]
    keep_again(again, figures=figures)
    first, second = figures.read_text().split("<!-- end: all -->")
    assert table(whole) in first
    assert table(again) in second
    keep(whole, figures=figures, summary=summary)
    assert NOT_AGAIN in figures.read_text().split("<!-- end: all -->")[1]


def test_a_load_run_names_the_settings_that_it_raises():
    """What `make load` sets beyond the defaults is one table, which its report prints."""
    assert raised_settings([100, 300]) == {"PARLEY_MAX_RUNS": "300"}
