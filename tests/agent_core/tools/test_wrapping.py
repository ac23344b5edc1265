"""Definitions around tools of MCP servers: found by the server and its own name of the tool."""

import pytest

from agent_core.agents import ToolDefinition
from agent_core.errors import InvalidInput
from agent_core.listings import names_of, spec_of
from agent_core.mcp.served import NoSecrets, ServedTool
from agent_core.servers import McpServer
from agent_core.tools.base import Tool
from agent_core.tools.toolset import McpConfig, Wrapped, Wrapping
from tests.agent_core.mcp_servers import ScriptedServers, mcp_tool
from tests.cases import for_each

KIND = Wrapping(McpConfig, lambda: ["shop", "a__b"])


def served() -> dict[str, Tool]:
    names = names_of([("shop", ["get_order", "orders.list"]), ("a__b", ["c"])])
    servers = {name: McpServer(name=name) for name in ("shop", "a__b")}
    return {
        name: ServedTool(
            spec_of(servers[server], mcp_tool(tool), name), servers[server], tool, ScriptedServers(), NoSecrets()
        )
        for (server, tool), name in names.items()
    }


def defined(server: str, tool: str) -> ToolDefinition:
    return ToolDefinition(name="x", kind="mcp", description="Do it.", config={"server": server, "tool": tool})


@for_each("server, tool", [("shop", "get_order"), ("shop", "orders.list"), ("a__b", "c")])
def test_a_tool_is_found_by_its_servers_own_name(server: str, tool: str):
    """A name that ends in a hash is found as any other."""
    found = KIND.tool(defined(server, tool), served())
    assert isinstance(found, Wrapped)
    assert isinstance(found.inner, ServedTool)
    assert (found.inner.server.name, found.inner.tool) == (server, tool)


def test_a_tool_of_another_server_is_not_found():
    """No name that two servers could share leads to the other one's tool, and a tool may come later."""
    assert KIND.tool(defined("a", "b__c"), served()) is None
    assert KIND.tool(defined("shop", "soon"), served()) is None


def test_an_unknown_server_is_refused_when_it_is_saved():
    """The field is named, and the likely server."""
    KIND.check(defined("shop", "soon"))
    with pytest.raises(InvalidInput, match="did you mean `shop`") as refused:
        KIND.check(defined("shopp", "get_order"))
    assert refused.value.path == "config.server"
