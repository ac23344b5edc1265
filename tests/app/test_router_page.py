"""docs/tool-router.md against the product: its example is an agent, its texts and numbers are the code's."""

import re
from pathlib import Path

import httpx
import yaml

from agent_core.agent.router import MAX_FOUND, closed, not_found_yet
from agent_core.agents import MAX_TOOL_LIMIT, PLAIN_DEFAULTS, ROUTER_TOOLS
from agent_core.core import Core
from agent_core.listings import resource_of
from agent_core.providers.base import find
from tests.agent_core.history import spec

PAGE = (Path(__file__).parents[2] / "docs" / "tool-router.md").read_text("utf-8")
EXAMPLE, NATIVE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


async def test_the_page_tells_the_truth(client: httpx.AsyncClient, core: Core):
    """The example's prompt has the router's tools; what a refused call says, names and numbers are as written there."""
    made = await client.post("/v1/agents", json=yaml.safe_load(EXAMPLE))
    assert made.status_code == 201, made.text
    agent = (await core.agents.prototype("clerk")).agent
    assert set(ROUTER_TOOLS) <= {each.name for each in agent.snapshot.tools}
    assert [each.name for each in agent.snapshot.routed] == ["calculate"]
    shut, searched = (" ".join(lines) for lines in _quoted())
    assert shut.replace("get_order", "calculate").replace("order", "calculate") == closed(agent, "calculate", ())
    assert searched == not_found_yet("get_order")
    assert str(PLAIN_DEFAULTS.tool_limit) in PAGE
    assert f"{MAX_TOOL_LIMIT:,}" in PAGE
    for name in ("list_order", "get_orders", "orders_list", "orders.create", "getOrder", "get_order_status"):
        assert f"`{name}`" in PAGE
        assert resource_of(spec(name)) == "order"


def test_the_native_example_is_one():
    """Its model loads tools, by the table that the page names."""
    made = yaml.safe_load(NATIVE)
    assert made["router"] == "native"
    assert find(made["model"]).tool_search
    assert {"name", "instructions", "mcp_servers"} <= made.keys()
    assert f"up to {MAX_FOUND}" in PAGE


def _quoted() -> list[list[str]]:
    """Return the lines of each block of the page that quotes what a model reads."""
    blocks = re.findall(r"^(?:> .*\n)+", PAGE, re.MULTILINE)
    return [[line.removeprefix("> ") for line in block.splitlines()] for block in blocks]
