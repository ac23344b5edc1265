"""The tools of MCP servers among those of an agent: which servers it has, and which of their tools are missing."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, cast

from agent_core.agents import Definition, is_glob
from agent_core.errors import InvalidInput
from agent_core.mcp.served import ServedTool
from agent_core.servers import PREFIX
from agent_core.tools.base import Tool
from agent_core.tools.toolset import unknown_server


class Servers(Protocol):
    """The MCP servers that are defined, by their names."""

    @property
    def names(self) -> Collection[str]: ...

    @property
    def unreached(self) -> Mapping[str, str]:
        """The servers of which nothing is known yet, or that are disabled, each with the reason in a sentence."""
        ...

    async def known(self, names: Collection[str], /) -> Collection[str]:
        """Return the names of all servers; when one of *names* is not among them it is looked for again."""
        ...


class NoServers:
    """A core without MCP servers."""

    names: Collection[str] = ()
    unreached: Mapping[str, str] = {}

    async def known(self, _names: Collection[str], /) -> Collection[str]:
        return ()


def is_dynamic(definition: Definition) -> bool:
    """Return whether the agent's tools may change without a new version of it."""
    return bool(definition.mcp_servers) or any(is_glob(tool) or tool.startswith(PREFIX) for tool in _names(definition))


def served_by(servers: Collection[str], catalog: Collection[str] | Mapping[str, Tool]) -> Sequence[str]:
    """Return the names of the tools of *servers* in *catalog*, sorted; none when it has names alone."""
    if not servers or not isinstance(catalog, Mapping):
        return []
    tools = cast("Mapping[str, Tool]", catalog)
    return sorted(name for name, tool in tools.items() if isinstance(tool, ServedTool) and tool.server.name in servers)


def check_servers(definition: Definition, names: Collection[str]) -> None:
    """Raise `InvalidInput` for a server of the agent that is not among *names*."""
    for place, server in enumerate(definition.mcp_servers):
        if server not in names:
            raise InvalidInput(f"mcp_servers[{place}]", unknown_server(server, names))
        if server in definition.mcp_servers[:place]:
            raise InvalidInput(f"mcp_servers[{place}]", f"`{server}` is there twice.")


def is_of(tool: str, servers: Collection[str]) -> bool:
    """Return whether the name *tool* is one of a tool of one of *servers*, whether it is there or not."""
    return tool.startswith(PREFIX) and any(tool.startswith(f"{PREFIX}{server}__") for server in servers)


def absent(definition: Definition, catalog: Mapping[str, Tool], servers: Servers) -> Mapping[str, str]:
    """Return the servers whose tools the agent should have and lacks, each with the reason in a sentence."""
    globs = [tool.partition("*")[0].partition("?")[0].partition("[")[0] for tool in _names(definition) if is_glob(tool)]
    reasons: dict[str, str] = {}
    for name, why in servers.unreached.items():
        begins = f"{PREFIX}{name}__"
        meant = any(begins.startswith(glob) or glob.startswith(begins) for glob in globs if glob.startswith(PREFIX[:5]))
        if name in definition.mcp_servers or meant:
            reasons[name] = why
    for name in definition.mcp_servers:
        if name not in servers.names:
            reasons[name] = f"There is no MCP server `{name}` any more; define it, or take it out of the agent."
    for tool in _names(definition):
        if not is_glob(tool) and tool not in catalog and tool.startswith(PREFIX):
            server = next((each for each in sorted(servers.names) if is_of(tool, (each,))), None)
            if server is not None and server not in reasons:
                reasons[server] = servers.unreached.get(server, f"The MCP server `{server}` has no tool `{tool}` now.")
    return reasons


def _names(definition: Definition) -> Sequence[str]:
    return [tool for tool in definition.tools if isinstance(tool, str)]
