"""What the database and the ledger say: read past the product, by the tables alone."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

import msgspec
import psycopg

from agent_core.store.codes import TYPES

T = TypeVar("T")
ENDS = {"run.completed", "run.failed", "run.cancelled"}
FACTS = """
SELECT s.id, e.seq, e.type, e.time, e.data, r.id FROM event e JOIN session s ON s.key = e.session
LEFT JOIN run r ON r.key = e.run ORDER BY e.session, e.seq
"""
OWNED = """
SELECT r.id, r.epoch FROM run r JOIN worker w ON w.id = r.owner WHERE w.pid = %s AND r.status = 'running'
"""
ACTIVITY = """
SELECT pid, pg_blocking_pids(pid), application_name, state, wait_event, now() - xact_start, now() - state_change, query
FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """A row of the log."""

    seq: int
    type: str
    run: str | None
    time: float
    data: dict[str, Any]

    def __str__(self) -> str:
        data = msgspec.json.encode(self.data).decode()[:300]
        return f"{self.seq:5} {self.time:.3f} {self.type:18} {self.run or '-'} {data}"


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run in the hands of a process, and the epoch that it has it under."""

    run: str
    epoch: int


class Records:
    """The database of a storm, as anybody with its address can read it."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def sessions(self) -> dict[str, list[Fact]]:
        """Return the whole log of each session."""
        found: dict[str, list[Fact]] = {}
        for session, seq, code, at, data, run in await self._rows(FACTS):
            fact = Fact(seq, TYPES[code], run, at / 1000, msgspec.json.decode(data))
            found.setdefault(session, []).append(fact)
        return found

    async def held_by(self, pid: int) -> list[HeldRun]:
        """Return the runs that the process *pid* drives, or drove when it was killed."""
        return [HeldRun(run, epoch) for run, epoch in await self._rows(OWNED, pid)]

    async def workers(self) -> dict[int, tuple[str, str]]:
        """Return id and kind of each process that the database knows, by its pid."""
        return {pid: (id, kind) for pid, id, kind in await self._rows("SELECT pid, id, kind FROM worker")}

    async def has(self, pid: int) -> bool:
        """Return whether the process *pid* has sent a heartbeat."""
        return pid in await self.workers()

    async def running(self) -> int:
        """Return how many runs have not ended."""
        ((count,),) = await self._rows("SELECT count(*) FROM run WHERE status IN ('queued', 'running')")
        return count

    async def still(self, held: Sequence[HeldRun]) -> int:
        """Return how many of *held* were not taken over and have not ended."""
        rows = await self._rows(
            "SELECT id, epoch FROM run WHERE status = 'running' AND id = ANY(%s)", [each.run for each in held]
        )
        return sum(HeldRun(run, epoch) in held for run, epoch in rows)

    async def activity(self) -> str:
        """Return a line for each transaction that is open, with those that it waits for."""
        rows = await self._rows(ACTIVITY)
        return "\n".join(" ".join(" ".join(str(each).split())[:150] for each in row) for row in rows)

    async def connections(self) -> int:
        """Return how many connections the database has, this one left out."""
        ((count,),) = await self._rows(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return count

    async def _rows(self, query: LiteralString, *given: object) -> list[tuple[Any, ...]]:
        def read() -> list[tuple[Any, ...]]:
            with psycopg.connect(self._url, connect_timeout=5) as connection:
                return connection.execute(query, given).fetchall()

        return await asyncio.to_thread(read)


async def until(true: Callable[[], Any], seconds: float, what: str, *, every: float = 0.1) -> float:
    """Ask *true*, which is awaited, again and again until it is; return the seconds that took, at most *seconds*."""
    begin = time.monotonic()
    while not await true():
        assert time.monotonic() - begin < seconds, f"{what}: not within {seconds:g} s"
        await asyncio.sleep(every)
    return time.monotonic() - begin
