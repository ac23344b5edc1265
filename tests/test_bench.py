"""The bench works: what it measures is for the machine that it runs on."""

import asyncio

from tests.bench.run import QUICK, measure
from tests.bench.table import HEAD, table

SAFETY = 240.0


async def test_the_bench_fills_its_table(tmp_path):
    """`make bench` compares Parley with a bare server in the same run, figure by figure."""
    async with asyncio.timeout(SAFETY):
        rows = await measure(QUICK, tmp_path)
    figures = [row.figure for row in rows]
    for start, count in {
        "CPU per 1,000 deltas": 3,
        "share delivered": 1,
        "first text p50, 1 stream": 3,
        "first text at 100 stored messages": 1,
        "first text at 400 stored messages": 3,
        "database bytes per exchange": 1,
        "the same": 1,
        "process start to first text": 1,
        "memory": 2,
    }.items():
        assert len([each for each in figures if each.startswith(start)]) == count, start
    assert all(value > 0 for row in rows for value in (*row.found, *row.base))
    assert all(len(line.split(" | ")) == len(HEAD) for line in table(rows).splitlines())
