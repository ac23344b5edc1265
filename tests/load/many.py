"""Parley as several processes: the real commands on one Postgres, asked and measured as one."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from pathlib import Path

from tests.bench.client import Connection
from tests.bench.sides import Side
from tests.bench.wires import PARLEY, Marks
from tests.chaos.fleet import Home, Member
from tests.chaos.records import Records, until
from tests.load import procs

# The instructions of the bench's agent, too.
AGENT = """
name: assistant
model: null
instructions: Be brief.
tools: [calculate]
"""


class Many(Side):
    """The processes of one Parley: asked at each of their doors by turns, their CPU summed.

    *database* gets the seconds that the processes of Postgres have computed, each time that ours are asked for.
    """

    def __init__(self, webs: Sequence[Member], workers: Sequence[Member], postmaster: int) -> None:
        self.name, self.port = "parley", webs[0].port
        self.webs, self.workers = webs, workers
        self.database: list[float] = []
        self._postmaster = postmaster
        self._doors = cycle(webs)

    def marks(self, agent: str) -> Marks:
        return PARLEY

    async def cpu(self) -> float:
        self.database.append(sum(map(procs.cpu, (self._postmaster, *procs.children(self._postmaster)))))
        return sum(map(procs.cpu, self.pids))

    @property
    def pids(self) -> list[int]:
        """The product's processes."""
        return [each.pid for each in (*self.webs, *self.workers)]

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        connection = await Connection.open(next(self._doors).port)
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def many(home: Home, webs: int, workers: int, postmaster: int) -> AsyncIterator[Many]:
    """Start so many *webs*, which drive nothing, and *workers*, which serve nothing."""
    parley, records = str(Path(sys.executable).with_name("parley")), Records(home.database)
    async with AsyncExitStack() as stack:
        doors = [Member(f"web{n}", "web", home, [parley, "serve", "--web-only"]) for n in range(webs)]
        hands = [Member(f"worker{n}", "worker", home, [parley, "worker"]) for n in range(workers)]
        for member in (*doors, *hands):
            await member.start()
            stack.push_async_callback(member.close)
        for member in (*doors, *hands):
            await until(lambda member=member: records.has(member.pid), 60, f"{member.name} says that it lives")
        yield Many(doors, hands, postmaster)
