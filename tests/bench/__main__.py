"""`python -m tests.bench`: measure this machine, print the table and write it into docs/benchmarks."""

import argparse
import asyncio
import logging
import os
import platform
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from app import logs
from tests.bench.page import FIGURES, SUMMARY, write
from tests.bench.run import measure
from tests.bench.scale import FULL, QUICK
from tests.bench.table import Row, table

NOT_AGAIN = "None since that run."


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run that shows that all works; writes nothing")
    parser.add_argument("--only", default="", metavar="NAMES", help="measure these groups of rows alone")
    parser.add_argument("--write", action="store_true", help="with --only: write the rows as a table of their own")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write what cProfile sees of the event loop")
    given = parser.parse_args()
    logs.configure(level=logging.ERROR)  # the simulated caches are missed thousands of times, as they should be
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        with runner:
            rows = runner.run(
                measure(QUICK if given.quick else FULL, Path(folder), only=given.only, profile=given.profile)
            )
    print(table(rows))
    if given.quick or given.profile:
        return
    if given.only:
        if given.write:
            keep_again(rows)
    else:
        keep(rows)


def keep(rows: Sequence[Row], *, figures: Path = FIGURES, summary: Path = SUMMARY) -> None:
    """Write the rows of one whole run: every row, those with a goal as the summary, and no row measured again."""
    write(figures, "all", f"{machine()}\n\n{table(rows)}")
    write(figures, "again", NOT_AGAIN)
    write(summary, "goals", f"{machine()}\n\n{table([row for row in rows if row.goal])}")


def keep_again(rows: Sequence[Row], *, figures: Path = FIGURES) -> None:
    """Write rows that were measured again by themselves, beside those of the whole run and never among them."""
    write(figures, "again", f"{machine()}\n\n{table(rows)}")


def machine() -> str:
    """Return on what, and when, this was measured."""
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with `make bench`: {os.cpu_count()} cores ({platform.machine()}), "
        f"{platform.system()}, Python {platform.python_version()}."
    )


if __name__ == "__main__":
    main()
