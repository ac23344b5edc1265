"""`python -m tests.chaos`: kill, stop and cut off processes, at each transaction and under load; no user may notice."""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import uvloop

from tests.agent_core.engine.falling import fallen
from tests.agent_core.test_crash import SCENARIOS
from tests.chaos.goals import Goals
from tests.chaos.report import lines
from tests.chaos.storm import Weather, brewing
from tests.postgres import postgres_server

FULL = Weather(
    seed=0,
    members={},
    talks=24,
    kills=200,
    pause=4.0,
    zombies=5,
    away=(0.0, 5.0, 60.0),
    deploys=6,
    goals=Goals(),
)
SHORT = replace(
    FULL,
    seed=12,
    members={"serve": "serve", "web": "web", "worker1": "worker", "worker2": "worker"},
    talks=8,
    kills=6,
    pause=0.5,
    zombies=1,
    away=(2.0,),
    deploys=0,
    goals=None,  # what a busy machine takes is no subject of a gate
    calm=0.5,
    stopped=10.5,
    at_work=4,
)
# Nothing of it takes longer, however it fails.
BOUND = 45 * 60.0


def main() -> int:
    """Run the storm; the exit code is 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--kills", type=int, default=FULL.kills)
    parser.add_argument("--pause", type=float, default=FULL.pause, help="mean seconds between two kills")
    parser.add_argument("--talks", type=int, default=FULL.talks)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--zombies", type=int, default=FULL.zombies)
    parser.add_argument("--away", type=float, nargs="*", default=FULL.away, help="seconds without the database")
    parser.add_argument("--deploys", type=int, default=FULL.deploys, help="processes that are replaced")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what the processes wrote there")
    parser.add_argument("--storm-only", action="store_true", help="no kills at each transaction before the storm")
    given = vars(parser.parse_args())
    keep: Path | None = given.pop("keep")
    at_each = not given.pop("storm_only")
    members = {"serve": "serve", "web": "web", **{f"worker{n}": "worker" for n in range(1, given.pop("workers") + 1)}}
    # Every second one that drives runs hands them on when it is replaced.
    hurried = tuple(name for name, kind in members.items() if kind != "web")[::2]
    weather = replace(FULL, members=members, hurried=hurried, **{**given, "away": tuple(given["away"])})
    print(f"seed {weather.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="parley-chaos-") as folder:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if at_each:
                runner.run(_at_each_transaction(Path(folder)))
            return runner.run(_storm(weather, keep or Path(folder)))


async def _at_each_transaction(folder: Path) -> None:
    """Kill a process before and after each transaction of each scenario; raises AssertionError."""
    async with asyncio.timeout(BOUND):
        with postgres_server() as server:
            found = [await fallen(server, scenario, folder) for scenario in SCENARIOS]
    killed, notified = (sum(each) for each in zip(*found, strict=True))
    print(
        f"{len(found)} scenarios, at each transaction: {killed} processes killed, DBOS notified of {notified} segments"
    )


async def _storm(weather: Weather, folder: Path) -> int:
    begin = time.monotonic()
    async with asyncio.timeout(BOUND), brewing(weather, folder) as storm:
        story = await storm.blow()
        print("\n".join(lines(storm)))
        print("\n".join(story.events))
        print(f"took {time.monotonic() - begin:.0f} s")
        if story.faults:
            print(f"\n{len(story.faults)} faults, seed {weather.seed}:\n" + "\n\n".join(story.faults))
    return bool(story.faults)


if __name__ == "__main__":
    sys.exit(main())
