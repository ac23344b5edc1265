"""`python -m tests.load`: streams in time through processes that only serve and processes that only drive."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import uvloop

from tests.bench import measures as m
from tests.bench import scale as s
from tests.bench.__main__ import machine
from tests.bench.client import KEY
from tests.bench.exchange import Exchange
from tests.bench.page import PROCESSES, write
from tests.bench.sides import Side, limit, model
from tests.bench.table import Goal, Row, table
from tests.chaos.fleet import Home
from tests.chaos.records import Records
from tests.load.many import AGENT, Many, many
from tests.postgres import postgres_server

# The durable settings of a production database; the tests' own does not wait for the disk.
HONEST = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "autovacuum": "on"}
ROUNDS = 3
MISSED = Goal(must=0, aim=0).verdict(1)
P50, P99, FEW, MANY = 30.0, 150.0, 100, 300
BOUND = 15 * 60.0


def main() -> int:
    """Measure streams in time; the exit code is 1 when a fact was lost or out of order, or a figure missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=main.__doc__)
    parser.add_argument("--webs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--streams", type=int, nargs="*", default=(FEW, MANY))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks/processes.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-load-") as folder, postgres_server(**HONEST) as server:
        database = server.create()
        postmaster = server._server.get_pid()
        assert postmaster is not None
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            rows = runner.run(_measured(given, Path(folder), database, postmaster))
            wrong = runner.run(_disorder(database))
    found = f"{_setting(given)}\n\n{table(rows)}"
    print(found)
    if given.write and not wrong:
        write(PROCESSES, "load", found)
    print("\n".join(wrong))
    return bool(wrong or MISSED in found)


def _setting(given: argparse.Namespace) -> str:
    parts = (f"{given.webs} `parley serve --web-only`", f"{given.workers} `parley worker`", "one Postgres 18")
    raised = ", ".join(f"`{name}={value}`" for name, value in raised_settings(given.streams).items())
    return (
        f"{machine().replace('make bench', 'make load')} {', '.join(parts)}, all on the same cores. "
        f"Settings other than the defaults: {raised}."
    )


def raised_settings(streams: Sequence[int]) -> dict[str, str]:
    """Return the settings of the processes that differ from the defaults: room for all *streams* at once."""
    return {"PARLEY_MAX_RUNS": str(max(streams))}


async def _measured(given: argparse.Namespace, folder: Path, database: str, postmaster: int) -> list[Row]:
    rows: list[Row] = []
    async with asyncio.timeout(BOUND), model() as models:
        home = Home(folder, database, models.url, AGENT, KEY, raised_settings(given.streams))
        async with limit(models.url) as base, many(home, given.webs, given.workers, postmaster) as side:
            await m.flat_out(side, models, Exchange(deltas=20), agent="assistant", count=20, runs=1)
            for count in given.streams:
                rows += await _streams(base, side, models, count, given.rounds)
    return rows


async def _streams(base: Side, side: Many, models: Side, count: int, rounds: int) -> list[Row]:
    """Measure *count* streams at the pace of a model, on the byte pipe and on Parley by turns."""
    ours, bare, database = list[m.Paced](), list[m.Paced](), list[float]()
    scale = s.FULL
    for _ in range(rounds):
        for each, found in ((base, bare), (side, ours)):
            side.database.clear()
            taken = await m.paced(each, models, scale.pace, count=count, window=scale.window, probing=scale.probing)
            found.append(taken)
            for name, share in (("the model server", taken.window.model), ("the client", taken.window.client)):
                sys.stderr.write(f"  {count} streams, {each.name}: {name} used {share:.0%} of a core\n")
        begun, ended = side.database
        database.append(1000 * (ended - begun) / ours[-1].window.deltas)
    return _rows(f"{count} streams of {scale.pace.rate:g} deltas/s", count, ours, bare, database)


def _rows(title: str, count: int, ours: Sequence[m.Paced], bare: Sequence[m.Paced], database: list[float]) -> list[Row]:
    p50 = Goal(must=P50, aim=P50, of="value") if count == FEW else None
    p99 = Goal(must=P99, aim=P99, of="value") if count == FEW else None
    cpu, pipe = [each.window.per_thousand for each in ours], [each.window.per_thousand for each in bare]
    both = [sum(each) for each in zip(cpu, database, strict=True)]
    return [
        Row(f"CPU per 1,000 deltas of our processes and Postgres, {title}", "ms", both, pipe),
        Row(f"CPU per 1,000 deltas of our processes, {title}", "ms", cpu, pipe),
        Row(f"CPU per 1,000 deltas of Postgres, {title}", "ms", database, cpu, "our processes"),
        Row(f"share delivered, {title}", "%", [each.share for each in ours], [each.share for each in bare]),
        Row(
            f"share that came live, {title}", "%", [1 - each.late for each in ours], [1.0] * len(ours), "all that came"
        ),
        Row(
            f"delta transit p50, {title}",
            "ms",
            [median(each.transits) for each in ours],
            [median(each.transits) for each in bare],
            goal=p50,
        ),
        Row(
            f"delta transit p99, {title}",
            "ms",
            [_p99(each.transits) for each in ours],
            [_p99(each.transits) for each in bare],
            goal=p99,
        ),
        Row(
            f"first text p50 among {title}",
            "ms",
            [median(each.firsts) for each in ours],
            [median(each.firsts) for each in bare],
        ),
    ]


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


async def _disorder(database: str) -> list[str]:
    """Return what is wrong in the log: gaps, runs that did not complete, answers that are not whole."""
    wrong: list[str] = []
    facts = runs = 0
    for session, log in (await Records(database).sessions()).items():
        facts += len(log)
        if [fact.seq for fact in log] != list(range(1, len(log) + 1)):
            wrong.append(f"{session}: gaps in {[fact.seq for fact in log]}")
        begun = [fact.run for fact in log if fact.type == "run.started"]
        ended = [fact.run for fact in log if fact.type == "run.completed"]
        runs += len(begun)
        if begun != ended or any(fact.type in {"run.failed", "run.resumed"} for fact in log):
            wrong.append(f"{session}: {[str(fact) for fact in log if fact.type.startswith('run.')]}")
    sys.stderr.write(f"  {facts} facts of {runs} runs, {len(wrong)} sessions with something wrong\n")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
