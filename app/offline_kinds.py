"""The kinds of defined tools outside of a server: definitions are checked as there, and no tool is called."""

from collections.abc import Callable, Collection, Mapping

from agent_core import InvalidInput, NotFound
from agent_core.agents import ROUTER_TOOLS, ToolDefinition
from agent_core.clock import SystemClock
from agent_core.net.fetch import Fetch
from agent_core.runtime.agent_checks import check_definition
from agent_core.servers import PREFIX
from agent_core.tools.base import Tool
from agent_core.tools.http import HttpKind
from agent_core.tools.toolset import KindFactory, McpConfig, PythonConfig, Wrapping
from app.own_tools.toolset import shipped_names


class OfflineKinds:
    """Checks definitions; *check_url* raises `FetchRefused` for an address that is not asked, see `TargetGuard`."""

    def __init__(self, check_url: Callable[[str], None]) -> None:
        http = HttpKind(Fetch(), _no_secrets, SystemClock(), check_url)
        self._kinds: dict[str, KindFactory] = {
            "http": http,
            "python": Wrapping(PythonConfig),
            "mcp": Wrapping(McpConfig),
        }

    def check(self, definition: ToolDefinition, tools: Mapping[str, Tool]) -> None:
        """Raise `InvalidInput` for what a server with *tools* would refuse; MCP servers may have more."""
        try:
            check_definition(definition, self._kinds[definition.kind], tools)
        except InvalidInput as error:
            is_served = str(definition.config.get("tool")).startswith(PREFIX)
            if not (error.path == "config.tool" and is_served):
                raise


def taken_names() -> frozenset[str]:
    """Return the names that no definition can have: those of the tools that ship, and of the router's."""
    return shipped_names() | frozenset(ROUTER_TOOLS)


async def _no_secrets(names: Collection[str]) -> Mapping[str, str]:
    raise NotFound("secret", ", ".join(names))
