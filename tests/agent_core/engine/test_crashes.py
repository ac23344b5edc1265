"""The crash test, on workers of a Postgres: one dies at every append, and the next one finishes what it left."""

from collections.abc import Sequence
from functools import partial

import pytest
from sqlalchemy import text

from agent_core.core import Core
from agent_core.engine.dbos import DbosEngine
from agent_core.store.postgres import PostgresDatabase
from tests.agent_core.crashing import CrashingDatabase, Side
from tests.agent_core.engine.fleet import PACE
from tests.agent_core.test_crash import SCENARIOS, Executions, Process, Scenario, _check, _outcome
from tests.postgres import MORTAL, PostgresServer

pytestmark = pytest.mark.processes


class DyingEngine(DbosEngine):
    """A worker that, once its database is frozen, dies without a word; what is left of it is buried at once."""

    async def stop(self, grace: float) -> None:
        database = self.database
        assert isinstance(database, CrashingDatabase)
        if not database.crashed.is_set():
            await super().stop(grace)
            return
        self.pool.close()
        await self.liveness.stop()
        await self.pool.drop(grace)
        await self.doorbell.stop(grace)
        await database.inner.write(lambda connection: connection.execute(text("DELETE FROM worker")))


def begun(url: str, scenario: Scenario, ledger: Executions, at: int, side: Side) -> Process:
    """Begin a life of the product on the database at *url*."""
    database = CrashingDatabase(PostgresDatabase(url, **MORTAL), at, side)
    core = Core(
        database,
        providers={"scripted": scenario.model()},
        tools={tool.spec.name: tool for tool in ledger.tools()},
        default_model="scripted",
        engine=partial(DyingEngine, database=database, url=url, pace=PACE, end=print),
    )
    return Process(core, database, ledger)


EVERY = 5
"""One of so many appends is enough here: `make chaos` has all of them."""
SIDES: tuple[Side, ...] = ("before", "after")
NEVER: tuple[int, Side] = (0, "before")


async def lives(postgres: PostgresServer, scenario: Scenario, crashes: Sequence[tuple[int, Side]]) -> tuple[int, int]:
    """Live through *crashes* on one database, then once to a good end; return how many died, and the last's writes."""
    ledger = Executions()
    with postgres.database() as url:
        for died, (at, side) in enumerate((*crashes, NEVER)):
            process = begun(url, scenario, ledger, at, side)
            if await process.live(scenario):
                _check(scenario, ledger, await _outcome(process.core), crashed=died > 0)
                writes = process.database.writes  # the one that follows is the worker's leaving
                await process.core.stop()
                return died, writes
    raise AssertionError("the last life has no crash")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_crash_at_every_append(postgres: PostgresServer, scenario: Scenario, whole: bool):
    """A worker that dies at any append, before or after its commit, changes neither the answers nor the writes."""
    _, total = await lives(postgres, scenario, ())
    points: list[tuple[int, Side]] = [(at, side) for at in range(1, total + 1) for side in ("before", "after")]
    if not whole:  # the sides in turn
        points = [(at, SIDES[n % 2]) for n, at in enumerate(range(1, total + 1, EVERY))]
    for point in points:
        assert (await lives(postgres, scenario, (point,)))[0] == 1


@pytest.mark.whole
@pytest.mark.parametrize(
    "scenario",
    SCENARIOS,
    ids=lambda scenario: scenario.name,
)
async def test_a_crash_during_recovery(postgres: PostgresServer, scenario: Scenario):
    """A second worker that dies while it recovers what the first one left changes nothing either."""
    _, total = await lives(postgres, scenario, ())
    for at in range(1, total + 1, EVERY):
        died, _ = await lives(postgres, scenario, ((total - 2, "after"), (at, "before")))
        assert died
