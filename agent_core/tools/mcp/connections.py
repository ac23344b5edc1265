"""Connections to MCP servers, pooled by the server's name; the SDK is imported with the first of them."""

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_core.clock import Clock, SystemClock
from agent_core.domain.mcp import McpListing, McpServer
from agent_core.net.fetch import Fetch
from agent_core.tools.base import CallContext, Outcome, ToolError
from agent_core.tools.mcp.port import McpUnavailable

if TYPE_CHECKING:
    import httpx2

    from agent_core.tools.mcp.link import Link

IDLE = 300.0
"""Seconds after which a connection that no call uses is closed: a session, or a child process."""
_PARTS = ("carriers", "link", "oauth")


class McpConnected:
    """The `McpConnections` of one process and event loop; HTTP goes through the guard of *fetch*.

    The texts of the servers that are passed have their secrets filled in; their values get into no log and no error.
    """

    def __init__(self, fetch: Fetch, *, clock: Clock | None = None, idle: float = IDLE) -> None:
        self._fetch, self._clock, self._idle = fetch, clock or SystemClock(), idle
        self._links: dict[str, asyncio.Task[Link]] = {}
        self._servers: dict[str, McpServer] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Task[httpx2.AsyncBaseTransport] | None = None
        self._closed = False

    async def discover(self, server: McpServer) -> McpListing:
        """Return what *server* offers now; raises `McpUnavailable`, within seconds."""
        return await (await self._link(server)).discover()

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
        """Call *tool* of *server*, see the port."""
        try:
            link = await self._link(server)
        except McpUnavailable as error:
            return ToolError(str(error))
        return await link.call(tool, arguments, context, headers, repeatable=repeatable)

    def follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        """Call *changed* when the list of *server* has changed, or may have, until `forget`; replaces the one before.

        A lost connection is made again, after pauses that grow to five minutes.
        """
        if self._closed:
            return
        before = self._following.get(server.name)
        if before is not None:
            before.cancel()
            self._end(before)
        self._following[server.name] = asyncio.create_task(self._follow(server, changed))

    async def forget(self, name: str) -> None:
        """Close the connections to the server *name*."""
        following, link = self._following.pop(name, None), self._links.pop(name, None)
        self._servers.pop(name, None)
        if following is not None:
            following.cancel()
            await asyncio.wait((following,))
        if link is not None:
            await _close(link)

    async def close(self) -> None:
        """Close all connections; no task, socket or process is left."""
        self._closed = True
        await asyncio.gather(*(self.forget(name) for name in {*self._links, *self._following}))
        while self._ending:
            await asyncio.wait(self._ending)
        if self._transport is not None:
            await (await self._transport).aclose()

    async def _link(self, server: McpServer) -> "Link":
        if self._closed:
            raise McpUnavailable(f"The MCP server `{server.name}` is not asked: this process is ending.")
        if self._servers.get(server.name) != server:
            before = self._links.pop(server.name, None)
            if before is not None:
                self._end(asyncio.create_task(_close(before)))
            self._servers[server.name] = server
            self._links[server.name] = asyncio.create_task(self._made(server))
        link = self._links[server.name]
        try:
            return await asyncio.shield(link)
        except McpUnavailable:
            if self._links.get(server.name) is link:
                del self._links[server.name], self._servers[server.name]
            raise

    async def _made(self, server: McpServer) -> "Link":
        carriers, link, oauth = await asyncio.to_thread(_parts)
        if server.transport == "stdio":
            carrier = carriers.ChildCarrier(server, self._clock)
        else:
            tokens = oauth.tokens_of(server, self._fetch, self._clock)
            carrier = carriers.HttpCarrier(server, await self._guarded(), tokens)
        return link.Link(server, carrier, self._clock, self._idle)

    async def _guarded(self) -> "httpx2.AsyncBaseTransport":
        if self._transport is None:
            self._transport = asyncio.create_task(self._fetch.transport())
        return await asyncio.shield(self._transport)

    async def _follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        await (await self._link(server)).follow(changed)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _parts() -> tuple[Any, ...]:
    """Import what brings the SDK: nearly half a second, which a process without servers never pays."""
    return tuple(import_module(f"agent_core.tools.mcp.{name}") for name in _PARTS)


async def _close(making: "asyncio.Task[Link]") -> None:
    await asyncio.wait((making,))
    if not making.cancelled() and making.exception() is None:
        await making.result().close()
