"""Processes that die: each plays a scenario and is killed at one of its transactions, while DBOS is notified of all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import text

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.events import ToolCompleted
from agent_core.messages import text_of
from tests.agent_core.crashing import Side
from tests.agent_core.engine.fleet import PATIENCE, Fleet, there
from tests.agent_core.engine.mortal import FORKED, heir, mortal, play, tools
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import idle, only
from tests.agent_core.test_crash import WHERE, Executions, Outcome, Scenario, _check
from tests.postgres import PostgresServer

AT_ONCE = 6
PENDING = text(
    "SELECT count(*) FROM dbos.workflow_status JOIN worker ON worker.id = executor_id "
    "WHERE worker.pid = :pid AND status = 'PENDING'"
)
BURIED = text("UPDATE worker SET beat_at = 1 WHERE pid = :pid")
LEFT = "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"


async def fallen(postgres: PostgresServer, scenario: Scenario, folder: Path, *, every: int = 1) -> tuple[int, int]:
    """Have a process killed before and after each of its transactions, or *every* so many of them, from the last one.

    Check that no reader notices. Return how many were killed, and how many segments DBOS had of them.
    """
    async with prepared(postgres, scenario, folder / f"ledger-{scenario.name}") as place:
        total = await place.falls(0, "after")
        points: list[tuple[int, Side]] = [(at, side) for at in range(total, 0, -1) for side in ("after", "before")]
        async with asyncio.TaskGroup() as group:
            tasks = {point: group.create_task(place.falls(*point)) for point in points[::every]}
        survived = {point: task.result() for point, task in tasks.items() if task.result()}
        assert not survived, f"of {scenario.name} these were not killed: {survived}"
        return len(tasks), place.workflows


@dataclass
class Field:
    """A database on which processes die; *workflows* counts what DBOS had begun for them."""

    url: str
    scenario: Scenario
    ledger: Path
    web: Core
    workflows: int = 0
    _busy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def falls(self, at: int, side: Side) -> int:
        """Have a process die at write *at*, check that no reader notices, and return 0; else the number of writes."""
        async with self._busy:
            address = f"test:{side}:{at}"
            results, given = FORKED.Pipe(duplex=False)
            process = FORKED.Process(
                target=mortal, args=(self.url, self.scenario.name, address, self.ledger, at, side, given)
            )
            await asyncio.to_thread(process.start)
            given.close()
            await asyncio.to_thread(process.join, PATIENCE)
            died = process.exitcode == -9
            assert died or process.exitcode == 0
            with results:
                writes = 0 if died else results.recv()
            if died:
                await self._bury(process.pid or 0)
            process.close()
            await self._check(address, crashed=died)
            return writes

    async def _bury(self, pid: int) -> None:
        """Let the time pass after which the others take the process for dead."""

        def work(connection) -> int:
            pending = connection.execute(PENDING, {"pid": pid}).scalar_one()
            connection.execute(BURIED, {"pid": pid})
            return pending

        pending = await self.web._store.write(work)
        self.workflows += pending

    async def _check(self, address: str, *, crashed: bool) -> None:
        async with asyncio.timeout(PATIENCE):
            session = await play(self.web, self.scenario, address)
            facts = await idle(self.web, session)
        check_log(facts)
        messages = (await self.web.messages(session)).items
        outcome = Outcome(
            tuple(text_of(message.parts) for message in messages if message.role == "assistant"),
            [run.status for run in (await self.web.runs(session=session)).items],
            sum(body.outcome == "unknown" for body in only(facts, ToolCompleted)),
        )
        written = self.ledger.read_text().split() if self.ledger.exists() else []
        _check(self.scenario, Executions(written=[s for s in written if s == session]), outcome, crashed=crashed)


@asynccontextmanager
async def prepared(postgres: PostgresServer, scenario: Scenario, ledger: Path) -> AsyncIterator[Field]:
    """Give a database with a process that takes messages in, and one that drives what others leave."""
    with postgres.database() as url:
        fleet = Fleet(url)
        line, other = FORKED.Pipe()
        process = FORKED.Process(target=heir, args=(url, scenario.name, ledger, other))
        await asyncio.to_thread(process.start)
        other.close()
        try:
            web = await fleet.join(lambda _: [], kind="web", tools=tuple(tools(ledger).values()))
            own = {"hooks": scenario.hooks, "tool_limit": scenario.tool_limit, "router": scenario.router}
            used = ("look", "book", "seat", WHERE)
            await web.agents.create(Definition(name="a", instructions="", tools=used, **own))
            assert await asyncio.to_thread(line.poll, PATIENCE)
            assert line.recv() == "ready"
            yield Field(url, scenario, ledger, web)
            await there(web, LEFT, 0)
        finally:
            line.close()
            await asyncio.to_thread(process.join)
            process.close()
            await fleet.stop()
