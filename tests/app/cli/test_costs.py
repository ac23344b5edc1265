"""`parley cost`: sums of what was spent."""

import asyncio
import json

import httpx
import pytest

from tests.app.processes import Serving
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole


async def test_the_command_asks_the_running_server(serving: Serving):
    """The demonstration has no price: its calls are counted apart; a day that is none is named."""
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as client:
        await client.post("/v1/agents/assistant/runs", json={"input": "Hello"})
    sums, agents, undated = await asyncio.gather(
        serving.shell.said("cost", "--by", "agent"),
        serving.shell.said("cost", "--by", "agent", "--json"),
        serving.shell.refused("cost", "--from", "soon"),
    )
    heading, *rows = sums.splitlines()
    assert heading.split()[:3] == ["AGENT", "RUNS", "CALLS"]
    assert [each.split()[0] for each in rows] == ["assistant"]
    assert "without a price" in rows[0]
    assert json.loads(agents)["name"] == "assistant"
    assert "`from`" in undated
