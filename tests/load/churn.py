"""`python -m tests.load.churn`: clients come and go for twenty minutes; memory must be flat and nothing left behind."""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

import aiohttp
import uvloop

from tests.bench.__main__ import machine
from tests.bench.page import PROCESSES, write
from tests.chaos.fleet import ChaosFleet, Home, Member, models, running
from tests.chaos.plan import Question, chance
from tests.chaos.records import ENDS, Records, until
from tests.chaos.talk import ANSWERED, HEADERS, LOST, Net
from tests.load import procs
from tests.postgres import postgres_server

MINUTES, CLIENTS = 20.0, 12
# The part of the time in which caches fill and pools grow.
WARM = 0.25
QUIET = 12.0
# Bytes an hour by which a process may grow once it is warm, over the whole time: a shorter one says too little. Twelve
# clients make some 16,000 runs in the 15 minutes that count, so this is 150 bytes of each: less than the smallest thing
# that a run could leave behind, a task, a row of a cache, a buffer; and more than allocators and counters of labels do.
SLOPE = 10e6
# How often the tasks and threads of a process are looked at, and the seconds between two looks.
LOOKS, BETWEEN = 8, 0.37


KINDS = ("task ", "thread ")


@dataclass(frozen=True, slots=True)
class Still:
    """What a process holds when nothing happens: tasks of all its event loops and threads by name, open files."""

    census: dict[str, int]
    files: int

    def __str__(self) -> str:
        tasks, threads = (sum(n for name, n in self.census.items() if name.startswith(what)) for what in KINDS)
        return f"{tasks} tasks, {threads} threads and {self.files} files"


@dataclass(slots=True)
class Counts:
    """What the clients did."""

    done: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return ", ".join(f"{n} {what}" for what, n in sorted(self.done.items()))


class ChurnClient:
    """A client that comes again and again, each time as a new visitor."""

    def __init__(self, net: Net, drawn: random.Random, counts: Counts) -> None:
        self._net, self._chance, self._counts = net, drawn, counts.done

    async def come(self, until: float) -> None:
        """Visit after visit until the time *until*."""
        n = 0
        while time.monotonic() < until:
            n += 1
            await self._visit(f"v{self._chance.randrange(10**9)}")

    async def _visit(self, name: str) -> None:
        """Open a session, say something, listen for a while, stop some of it, and leave, often in the middle."""
        session = (await self._net.ask("POST", "/v1/sessions", {"agent": "assistant"}))["id"]
        self._counts["sessions"] += 1
        runs: list[str] = []
        for n in range(self._chance.choice((1, 2, 3))):
            question = Question.draw(name, n, self._chance)
            posted = await self._net.ask("POST", f"/v1/sessions/{session}/messages", {"text": question.text})
            runs.append(posted["run_id"])
        self._counts["runs"] += len(runs)
        for _ in range(self._chance.choice((1, 1, 2))):
            await self._listen(session, set(runs))
        if self._chance.random() < 0.3:
            await self._net.ask("POST", f"/v1/runs/{self._chance.choice(runs)}/cancel")
            self._counts["cancels"] += 1

    async def _listen(self, session: str, runs: set[str]) -> None:
        """Follow the session until all of *runs* have ended, or patience has."""
        url = f"{self._chance.choice(self._net.urls)}/v1/sessions/{session}/events"
        rest, self._counts["streams"] = b"", self._counts["streams"] + 1
        try:
            async with (
                asyncio.timeout(self._chance.uniform(0.2, 6)),
                self._net.http.get(url, headers=HEADERS) as response,
            ):
                async for chunk in response.content.iter_any():
                    *blocks, rest = (rest + chunk).split(b"\n\n")
                    for block in blocks:
                        lines = block.decode().split("\n")
                        if lines[0].startswith("id: ") and lines[1].removeprefix("event: ") in ENDS:
                            runs.discard(json.loads(lines[2].removeprefix("data: "))["run"])
                    if not runs:
                        return
        except TimeoutError:
            self._counts["streams dropped"] += 1
        except LOST as error:
            self._net.faults.append(f"a stream was lost: {error!r}")


class Churn:
    """The processes under churn, and what was seen of them."""

    def __init__(self, fleet: ChaosFleet, net: Net, records: Records, seed: int) -> None:
        self._fleet, self._net, self._records, self._seed = fleet, net, records, seed
        self._counts = Counts()
        self._memory: dict[str, list[tuple[float, int]]] = {each.name: [] for each in fleet.members}

    async def run(self, minutes: float, clients: int) -> tuple[list[str], list[str]]:
        """Churn for so long; return the lines of the report, and what was left behind."""
        await until(self._up, 60, "both processes say that they live")
        await self._visited(60 * min(1.0, minutes / 4), clients, "warm")
        before, open_before = await self._still()
        await self._visited(60 * minutes, clients, "churn")
        after, open_after = await self._still()
        lines = [f"- {self._counts} by {clients} clients in {minutes:g} minutes."]
        wrong = list(dict.fromkeys(self._net.faults))
        for name, found in self._memory.items():
            growth, line = _slope(name, found, minutes)
            lines += (line, f"- {name}: {before[name]} before, {after[name]} after it.")
            if growth > SLOPE and minutes >= MINUTES:
                wrong.append(f"{name}: grows by {growth / 1e6:.1f} MB/hour, more than {SLOPE / 1e6:g}")
            if more := Counter(after[name].census) - Counter(before[name].census):
                wrong.append(f"{name}: left behind: {dict(more)}")
            if after[name].files > before[name].files:
                wrong.append(f"{name}: {after[name].files - before[name].files} files left open")
        lines.append(f"- Postgres: {open_before} connections before, {open_after} after it.")
        if open_after > open_before:
            wrong.append(f"{open_after - open_before} connections to Postgres left open")
        return lines, wrong

    async def _up(self) -> bool:
        return all([await self._records.has(each.pid) for each in self._fleet.members])

    async def _visited(self, seconds: float, clients: int, what: str) -> None:
        """Have *clients* visit for so many seconds, and look at the memory every five."""
        begin = time.monotonic()
        people = [ChurnClient(self._net, chance(self._seed, what, n), self._counts) for n in range(clients)]
        async with asyncio.TaskGroup() as group:
            visits = [group.create_task(each.come(begin + seconds)) for each in people]
            while not all(visit.done() for visit in visits):
                await asyncio.wait(visits, timeout=5)
                for each in self._fleet.members if what == "churn" else ():
                    self._memory[each.name].append((time.monotonic() - begin, procs.memory(each.pid)))

    async def _still(self) -> tuple[dict[str, Still], int]:
        """Wait until nothing happens any more, and return what the processes hold then."""

        async def idle() -> bool:
            return not await self._records.running()

        await until(idle, 120, "all runs end", every=0.5)
        await asyncio.sleep(QUIET)
        held = {each.name: Still(await self._census(each), procs.files(each.pid)) for each in self._fleet.members}
        return held, await self._records.connections()

    async def _census(self, member: Member) -> dict[str, int]:
        """Return what a process has whenever one looks: some tasks are there for a moment each second."""
        looks = [await self._look(member) for _ in range(LOOKS)]
        return {name: min(look.get(name, 0) for look in looks) for name in looks[0]}

    async def _look(self, member: Member) -> dict[str, int]:
        """Have a process count its tasks and threads."""
        path = self._fleet.home.folder / f"census-{member.pid}.json"
        path.unlink(missing_ok=True)
        os.kill(member.pid, signal.SIGUSR1)

        async def counted() -> bool:
            return path.exists()

        await until(counted, 30, f"{member.name} counts its tasks and threads")
        await asyncio.sleep(BETWEEN)
        return json.loads(path.read_text("utf-8"))


def _slope(name: str, found: Sequence[tuple[float, int]], minutes: float) -> tuple[float, str]:
    """Return how the memory of a process grew once it was warm: in bytes an hour, and as a line of the report."""
    warm = [(at, size) for at, size in found if at >= WARM * 60 * minutes]
    slope, _ = linear_regression(*zip(*warm, strict=True))
    return 3600 * slope, (
        f"- {name}: {warm[0][1] / 1e6:.1f} MB after {WARM * minutes:g} minutes, {warm[-1][1] / 1e6:.1f} MB at the end: "
        f"{3600 * slope / 1e6:+.1f} MB/hour by linear regression over {len(warm)} samples."
    )


def main() -> int:
    """Have clients come and go; the exit code is 1 when something was left, or memory grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.churn", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write what was found into docs/benchmarks/processes.md")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="parley-churn-") as folder,
        postgres_server() as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        lines, wrong = runner.run(_churn(given, Path(folder), server.create()))
    found = "\n".join((machine().replace("make bench", "make churn"), "", *lines))
    print(found)
    if given.write and not wrong:
        write(PROCESSES, "churn", found)
    print("\n".join(wrong))
    return bool(wrong)


async def _churn(given: argparse.Namespace, folder: Path, database: str) -> tuple[list[str], list[str]]:
    async with asyncio.timeout(60 * (given.minutes + 10)), AsyncExitStack() as stack:
        home = Home(folder, database, await stack.enter_async_context(models(100)))
        fleet = await stack.enter_async_context(running(home, {"serve": "serve", "worker": "worker"}))
        patience = aiohttp.ClientTimeout(total=None, sock_connect=ANSWERED, sock_read=ANSWERED)
        http = aiohttp.ClientSession(timeout=patience, connector=aiohttp.TCPConnector(limit=0, force_close=True))
        net = Net(await stack.enter_async_context(http), [each.url for each in fleet.webs], chance(given.seed, "net"))
        return await Churn(fleet, net, Records(database), given.seed).run(given.minutes, given.clients)


if __name__ == "__main__":
    sys.exit(main())
