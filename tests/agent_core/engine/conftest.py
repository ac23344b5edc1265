"""A fleet of processes on a fresh database."""

from collections.abc import AsyncIterator

import pytest

from tests.agent_core.engine.fleet import Fleet


@pytest.fixture
async def fleet(postgres_url: str) -> AsyncIterator[Fleet]:
    """Several processes of one Postgres, stopped at the end."""
    fleet = Fleet(postgres_url)
    yield fleet
    await fleet.stop()
