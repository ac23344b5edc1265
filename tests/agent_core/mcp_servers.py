"""MCP servers for tests of their catalogue: connections that play what servers say, without a network."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from agent_core.mcp.port import McpUnavailable, ServerLogins
from agent_core.messages import Text
from agent_core.servers import McpAnnotations, McpListing, McpServer, McpTool
from agent_core.tools.base import CallContext, Done, Outcome, ToolError
from tests.polling import PATIENCE

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def mcp_tool(name: str, description: str = "Do it.", **fields: Any) -> McpTool:
    return McpTool(name=name, description=description, **{"parameters": OBJECT, **fields})


def listing(*tools: McpTool | str, **fields: Any) -> McpListing:
    made = tuple(mcp_tool(each) if isinstance(each, str) else each for each in tools)
    return McpListing(tools=made, **{"era": "2026-07-28", "title": "A server", "version": "1.0", **fields})


def reads(**hints: bool) -> McpAnnotations:
    return McpAnnotations(read_only=True, **hints)


class ScriptedServers:
    """Connections whose servers say what `says` has, by name: a listing, an error, or nothing for ever."""

    def __init__(self, **says: McpListing | str | None) -> None:
        self.says: dict[str, McpListing | str | None] = dict(says)
        self.discovered: list[str] = []
        self.calls: list[tuple[McpServer, str, dict[str, Any], Mapping[str, str]]] = []
        self.answers: dict[str, Outcome] = {}
        self.followed: dict[str, Callable[[], None]] = {}
        self.forgotten: list[str] = []
        self.seen: list[McpServer] = []
        self.closed = False
        self._news = asyncio.Event()

    def attach(self, logins: ServerLogins) -> None:
        self.logins = logins

    async def discover(self, server: McpServer) -> McpListing:
        self.discovered.append(server.name)
        self.seen.append(server)
        self._news.set()
        found = self.says.get(server.name, f"`{server.name}` does not answer; start it.")
        if found is None:
            await asyncio.Future[None]()
        if not isinstance(found, McpListing):
            raise McpUnavailable(str(found))
        return found

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
        self.repeatable = repeatable
        self.calls.append((server, tool, arguments, headers))
        context.progress(f"with {sorted(server.headers.values())}")
        if not isinstance(self.says.get(server.name), McpListing):
            return ToolError(f"`{server.name}` does not answer; start it.")
        return self.answers.get(tool, Done((Text(f"{tool} of {server.name}"),)))

    def follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        self.followed[server.name] = changed
        self._news.set()

    async def forget(self, name: str) -> None:
        self.followed.pop(name, None)
        self.forgotten.append(name)

    async def close(self) -> None:
        self.closed = True

    async def asked(self, n: int) -> None:
        """Return once servers were asked *n* times in all."""
        await self._until(lambda: len(self.discovered) >= n)

    async def follows(self, name: str) -> None:
        """Return once the server *name* is followed."""
        await self._until(lambda: name in self.followed)

    async def _until(self, wanted: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not wanted():
                self._news.clear()
                await self._news.wait()
