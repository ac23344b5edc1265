"""The port to MCP servers: what the catalogue of servers, and their tools, ask of the connections."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agent_core.errors import ParleyError
from agent_core.servers import McpListing, McpServer
from agent_core.tools.base import CallContext, Outcome
from agent_core.tools.mcp.logins import ServerLogins


class McpUnavailable(ParleyError):
    """A server cannot be reached, or does not speak the protocol; the message names the server and the remedy.

    *status* is the HTTP status, if that is what it answered with.
    """

    code = "mcp_unavailable"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class McpConnections(Protocol):
    """Connections to MCP servers, pooled: they outlive runs and come back after a server's restart."""

    def attach(self, logins: ServerLogins) -> None:
        """Use *logins* for servers that are logged in to; called before any other."""
        ...

    async def discover(self, server: McpServer) -> McpListing:
        """Return what *server* offers now; raises `McpUnavailable`, within seconds."""
        ...

    async def call(
        self,
        server: McpServer,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        headers: Mapping[str, str],
        *,
        repeatable: bool = False,
    ) -> Outcome:
        """Call *tool*, by the server's own name, with *headers* beside the server's; its failures are outcomes.

        A server that asks the person something gives `Elicitation`, and is called again with the answer in *context*.
        Servers of before 2026-07-28 ask in the middle of a call: that can be made again only if it is *repeatable*, as
        it reads or is idempotent. Another one waits for the answer, for minutes and in this process; once it waits no
        more, its end is unknown.
        """
        ...

    def follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        """Call *changed* whenever *server* says that its list of tools has changed, until `forget`."""
        ...

    async def forget(self, name: str) -> None:
        """Close the connections to the server *name*."""
        ...

    async def close(self) -> None:
        """Close all connections; no task or process of theirs is left."""
        ...
