"""Connections to MCP servers, pooled by the server's name; the SDK is imported with the first of them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_core.clock import Clock, SystemClock, within
from agent_core.mcp.port import McpUnavailable, ServerLogins
from agent_core.net.fetch import Fetch
from agent_core.servers import McpListing, McpServer
from agent_core.tools.base import CallContext, Outcome, ToolError

if TYPE_CHECKING:
    import httpx2

    from agent_core.mcp.client import Link


IDLE = 300.0
"""Seconds after which a connection that no call uses is closed: a session, or a child process."""
_PARTS = ("stdio", "client", "login_tokens")
_SPARE = 10.0
"""Seconds beyond a call's own timeout after which a connection that is given up does not wait for it."""
_REMEMBERED = 4
"""How many earlier values of one server are known as such."""


@dataclass(slots=True, eq=False)
class _HeldLink:
    """The connection to *server*, and what uses it: *calls*, of which the last *began* then; *free* is when none do."""

    server: McpServer
    making: "asyncio.Task[Link] | None"
    calls: int = 0
    began: int = 0
    free: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, eq=False)
class _NewsFollower:
    """The *task* that follows the news of *server*, and what it calls."""

    server: McpServer
    task: asyncio.Task[None]
    changed: Callable[[], None]


class McpConnected:
    """The `McpConnections` of one process and event loop; HTTP goes through the guard of *fetch*.

    The texts of the servers that are passed have their secrets filled in; their values get into no log and no error.
    A server that is passed with another value under the same name gets another connection; the one before is closed
    when its calls have ended. Calls that still pass the earlier value get a connection of that value meanwhile.
    """

    def __init__(self, fetch: Fetch, *, clock: Clock | None = None, idle: float = IDLE) -> None:
        self._fetch, self._clock, self._idle = fetch, clock or SystemClock(), idle
        self._links: dict[str, _HeldLink] = {}
        self._earlier: dict[str, list[_HeldLink]] = {}
        self._retiring: set[_HeldLink] = set()
        self._following: dict[str, _NewsFollower] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Task[httpx2.AsyncBaseTransport] | None = None
        self._closed = False
        self._logins: ServerLogins | None = None

    def attach(self, logins: ServerLogins) -> None:
        """Use *logins* for servers that are logged in to."""
        self._logins = logins

    async def discover(self, server: McpServer) -> McpListing:
        """Return what *server* offers now; raises `McpUnavailable`, within seconds."""
        async with self._using(server, newest=True) as link:
            return await link.discover()

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
            async with self._using(server, newest=False) as link:
                return await link.call(tool, arguments, context, headers, repeatable=repeatable)
        except McpUnavailable as error:
            return ToolError(str(error))

    def follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        """Call *changed* when the list of *server* has changed, or may have, until `forget`; replaces the one before.

        A lost connection is made again, after pauses that grow to five minutes.
        """
        if self._closed:
            return
        before = self._following.get(server.name)
        if before is not None:
            before.task.cancel()
            self._end(before.task)
        task = asyncio.create_task(self._follow(server, changed))
        self._following[server.name] = _NewsFollower(server, task, changed)

    async def forget(self, name: str) -> None:
        """Close the connections to the server *name*; one that calls still use, when they have ended."""
        following, held = self._following.pop(name, None), self._links.pop(name, None)
        self._earlier.pop(name, None)
        if following is not None:
            following.task.cancel()
            await asyncio.wait((following.task,))
        if held is not None:
            retired = self._retire(held)
            if not held.calls:
                await asyncio.wait((retired,))

    async def close(self) -> None:
        """Close all connections; no task, socket or process is left."""
        self._closed = True
        await asyncio.gather(*(self.forget(name) for name in {*self._links, *self._following}))
        for held in self._retiring:
            held.free.set()
        while self._ending:
            await asyncio.wait(self._ending)
        if self._transport is not None:
            await (await self._transport).aclose()

    @asynccontextmanager
    async def _using(self, server: McpServer, *, newest: bool) -> "AsyncGenerator[Link]":
        """Give the connection to *server*, which stays open meanwhile."""
        held = self._held(server, newest=newest)
        held.calls += 1
        held.began = self._clock.now()
        held.free.clear()
        try:
            yield await self._opened(held)
        finally:
            held.calls -= 1
            if not held.calls:
                held.free.set()

    def _held(self, server: McpServer, *, newest: bool) -> _HeldLink:
        """Return what holds the connection to *server*; the newest from now on, unless it is known as an earlier one.

        With *newest* that does not matter: the value was read just now, and it may be the earlier one again.
        """
        if self._closed:
            raise McpUnavailable(f"The MCP server `{server.name}` is not asked: this process is ending.")
        name, current = server.name, self._links.get(server.name)
        if current is not None and current.server == server:
            return current
        earlier = self._earlier.get(name, [])
        known = next((each for each in earlier if each.server == server), None)
        if known is not None and not newest:
            if known.making is None:
                known.making = asyncio.create_task(self._made(server))
                self._retire(known)
            return known
        held = self._links[name] = _HeldLink(server, asyncio.create_task(self._made(server)))
        if current is not None:
            self._earlier[name] = [*(each for each in earlier if each is not known), current][-_REMEMBERED:]
            self._retire(current)
        following = self._following.get(name)
        if following is not None and following.server != server:
            self.follow(server, following.changed)
        return held

    async def _opened(self, held: _HeldLink) -> "Link":
        assert held.making is not None, "It is made before it is used, and dropped when nothing uses it."
        try:
            return await asyncio.shield(held.making)
        except McpUnavailable:
            if self._links.get(held.server.name) is held:
                del self._links[held.server.name]
            raise

    def _retire(self, held: _HeldLink) -> asyncio.Task[None]:
        """Close the connection of *held* when its last call has ended, or should have."""
        self._retiring.add(held)
        task = asyncio.create_task(self._retired(held))
        self._end(task)
        return task

    async def _retired(self, held: _HeldLink) -> None:
        longest = (held.server.timeout_s + _SPARE) * 1000
        while held.calls and not held.free.is_set() and (left := held.began + longest - self._clock.now()) > 0:
            with suppress(TimeoutError):
                async with within(self._clock, left / 1000):
                    await held.free.wait()
        self._retiring.discard(held)
        making, held.making = held.making, None
        if making is not None:
            await _close(making)

    async def _made(self, server: McpServer) -> "Link":
        stdio, client, login_tokens = await asyncio.to_thread(_parts)
        if server.transport == "stdio":
            carrier = stdio.ChildCarrier(server, self._clock)
        else:
            tokens = login_tokens.tokens_of(server, self._fetch, self._clock, self._logins)
            carrier = stdio.HttpCarrier(server, await self._guarded(), tokens)
        return client.Link(server, carrier, self._clock, self._idle)

    async def _guarded(self) -> "httpx2.AsyncBaseTransport":
        if self._transport is None:
            self._transport = asyncio.create_task(self._fetch.transport())
        return await asyncio.shield(self._transport)

    async def _follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        await (await self._opened(self._held(server, newest=True))).follow(changed)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _parts() -> tuple[Any, ...]:
    """Import what brings the SDK: nearly half a second, which a process without servers never pays."""
    return tuple(import_module(f"agent_core.mcp.{name}") for name in _PARTS)


async def _close(making: "asyncio.Task[Link]") -> None:
    await asyncio.wait((making,))
    if not making.cancelled() and making.exception() is None:
        await making.result().close()
