"""`python -m tests.bench`: measure this machine, print the table and write it into docs/benchmarks.md."""

import argparse
import asyncio
import os
import platform
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from tests.bench.run import measure
from tests.bench.scale import FULL, QUICK
from tests.bench.sides import ROOT
from tests.bench.table import table

PAGE = ROOT / "docs" / "benchmarks.md"
PLACE = re.compile(r"(?s)(<!-- measured -->\n).*(<!-- end -->)")


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run that shows that all works; writes nothing")
    parser.add_argument("--only", default="", metavar="NAMES", help="these groups of rows; writes nothing")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write what cProfile sees of the event loop")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        with runner:
            rows = runner.run(
                measure(QUICK if given.quick else FULL, Path(folder), only=given.only, profile=given.profile)
            )
    print(table(rows))
    if not (given.quick or given.only or given.profile):
        found = f"{machine()}\n\n{table(rows)}\n"
        PAGE.write_text(PLACE.sub(lambda match: match[1] + found + match[2], PAGE.read_text("utf-8")), "utf-8")


def machine() -> str:
    """Return on what, and when, this was measured."""
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with `make bench`: {os.cpu_count()} cores ({platform.machine()}), "
        f"{platform.system()}, Python {platform.python_version()}."
    )


if __name__ == "__main__":
    main()
