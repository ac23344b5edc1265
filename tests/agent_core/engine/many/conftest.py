"""What the core does between people, once more by what drives it on Postgres: the engine of many, and the bus.

The other tests of the core have the engine of one process, on both databases: see `docs/decisions/0028`.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_core import Core
from agent_core.engine.dbos import DbosEngine
from agent_core.store.database import Database
from agent_core.store.postgres.bus import PostgresBus
from agent_core.store.postgres.database import PostgresDatabase
from tests.agent_core.engine.fleet import PACE
from tests.conftest import MakeCore, OpenDatabase


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is about SQLite alone."""
    here = Path(__file__).parent
    items[:] = [each for each in items if each.path.parent != here or not each.get_closest_marker("sqlite")]


class Once(DbosEngine):
    """An engine that may be stopped again, when its database is closed."""

    async def stop(self, grace: float) -> None:
        if not self.pool.is_closed:
            await super().stop(grace)


@pytest.fixture
def opened() -> list[Database]:
    """The databases that the next cores are to stand on."""
    return []


@pytest.fixture
def open_database(opened: list[Database], postgres_url: str) -> OpenDatabase:
    """Open the database that the core's engine and bus have too."""
    return lambda: opened.pop() if opened else PostgresDatabase(postgres_url)


@pytest.fixture
def make_core(make_core: MakeCore, opened: list[Database], postgres_url: str) -> MakeCore:
    """Build cores as `parley serve` does on Postgres, but for DBOS, of which a process can have only one."""

    async def make(*given: Any, **options: Any) -> Core:
        database = PostgresDatabase(postgres_url)
        opened.append(database)
        engine = partial(Once, database=database, url=postgres_url, pace=PACE, end=pytest.fail)
        return await make_core(*given, **{"engine": engine, "bus": PostgresBus(postgres_url, database), **options})

    return make
