"""The crash test with DBOS launched and notified of each run at once: processes are killed, at one transaction each."""

from pathlib import Path

import pytest

from tests.agent_core.engine.falling import fallen
from tests.agent_core.test_crash import SCENARIOS, Scenario
from tests.postgres import PostgresServer

pytestmark = pytest.mark.whole

EVERY = 7
"""Of so many kills one is enough here, odd so that sides alternate: `make chaos` has all, of all scenarios."""
RICHEST = "approved write"
"""The scenario with the most transactions, of all kinds."""


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, marks=() if each.name == RICHEST else pytest.mark.whole, id=each.name) for each in SCENARIOS],
)
async def test_a_kill_at_a_transaction(postgres: PostgresServer, tmp_path: Path, scenario: Scenario):
    """A worker that is killed before or after the commit of a transaction changes neither answers nor writes."""
    killed, workflows = await fallen(postgres, scenario, tmp_path, every=EVERY)
    assert killed > 0
    assert workflows > 0
