"""The MCP servers of a project in its tests: known and checked as when it is served, and never connected to."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent_core import ConfigError, Core
from agent_core.mcp.port import McpUnavailable, ServerLogins
from agent_core.servers import McpAnnotations, McpListing, McpServer, McpTool
from agent_core.tools.base import CallContext, Outcome, Tool
from app.files import load_servers
from app.mcp_file import read_servers

ServerTools = Mapping[str, Sequence[Tool]]
"""The tools that stand in for those of servers, by the names of these."""
_UNSET = "a-variable-that-is-not-set"
_NOWHERE = "https://unset.invalid/mcp"


def _placed(server: McpServer) -> McpServer:
    """Return *server* with an address where only variables give it one."""
    if _UNSET in (server.url or ""):
        server = replace(server, url=_NOWHERE)
    for name in ("token_url", "issuer"):
        if server.oauth is not None and _UNSET in (getattr(server.oauth, name) or ""):
            server = replace(server, oauth=replace(server.oauth, **{name: _NOWHERE}))
    return server


class PlayedServers:
    """The servers of the file at *path*, as the `McpConnections` of a test: those that are played are reached.

    Variables that the file names need not be set: tests have no tokens.
    """

    def __init__(self, path: Path, played: ServerTools) -> None:
        """*played* are the tools that play those of servers; raises ConfigError for a server that the file has not."""
        self.servers = [_placed(each) for each in read_servers(path, required=False, unset=_UNSET)]
        self._played = {server: {tool.spec.name: tool for tool in tools} for server, tools in played.items()}
        names = [each.name for each in self.servers]
        if strange := [name for name in played if name not in names]:
            listed = ", ".join(f"`{name}`" for name in names) or "none"
            raise ConfigError(f"`servers`: there is no MCP server `{strange[0]}` in `{path}`; it has: {listed}.")

    async def load(self, core: Core) -> None:
        """Store the servers, and ask those that are played what they offer; raise ConfigError if one cannot work."""
        await load_servers(core, self.servers)
        for name in self._played:
            await core.tools.servers.refresh(name)

    def attach(self, logins: ServerLogins) -> None:
        """Do nothing: no one logs in to what is played."""

    async def discover(self, server: McpServer) -> McpListing:
        if server.name not in self._played:
            raise McpUnavailable(
                f"The MCP server `{server.name}` is not connected to in tests; give `open_project` tools that play its "
                f"own, `servers={{{server.name!r}: [...]}}`."
            )
        tools = self._played[server.name].values()
        return McpListing(tools=tuple(sorted(map(_listed, tools), key=lambda each: each.name)), era="test")

    async def call(
        self,
        server: McpServer,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        headers: Mapping[str, str],  # noqa: ARG002 - of the port
        *,
        repeatable: bool = False,  # noqa: ARG002 - of the port
    ) -> Outcome:
        return await self._played[server.name][tool].call(arguments, context)

    def follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        """Do nothing: what is played stays as it is."""

    async def forget(self, name: str) -> None:
        """Do nothing, as in `close`."""

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def _listed(tool: Tool) -> McpTool:
    spec = tool.spec
    annotations = McpAnnotations(read_only=spec.effect == "read", idempotent=spec.idempotent or None)
    return McpTool(
        name=spec.name,
        description=spec.description,
        parameters=spec.parameters,
        title=spec.title,
        annotations=annotations,
    )
