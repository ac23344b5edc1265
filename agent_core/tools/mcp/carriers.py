"""What carries messages to an MCP server: HTTP requests through the guard, or the pipes of a child process."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from agent_core.clock import Clock
from agent_core.servers import McpServer
from agent_core.tools.mcp.http_client import MAX_BODY, ServerAuth, Tokens, http_client
from agent_core.tools.mcp.port import McpUnavailable
from agent_core.tools.mcp.stdio import LastWords, child_process

_FIRST_PAUSE, _MAX_PAUSE = 0.5, 30.0
_STEADY = 60_000
"""Milliseconds after which a process that ends has not died at its start."""


class HttpCarrier:
    """HTTP to one server; *transport* is the guarded one of all servers."""

    per_call = True
    words = ""

    def __init__(self, server: McpServer, transport: httpx2.AsyncBaseTransport, tokens: Tokens | None) -> None:
        if not server.url:
            raise McpUnavailable(f"The MCP server `{server.name}` has no `url`.")
        self._url, self._tokens = server.url, tokens
        self._streams, self._received = 0, False
        self._auth = ServerAuth(tokens)
        self._client = http_client(server, transport, self._auth, self._hears)

    def streams(self) -> AbstractAsyncContextManager[Any]:
        return streamable_http_client(self._url, http_client=self._client, max_sse_event_size=MAX_BODY)

    async def ready(self) -> None:
        """Return at once: a request costs the server nothing."""

    def opens(self, lost: Callable[[], None]) -> None:  # noqa: ARG002 - a process is what can be lost
        """Take note of a new client; a session that is lost is found by its next request."""
        self._received = False

    @property
    def tokens(self) -> Sequence[str]:
        return tuple(self._auth.sent)

    @property
    def deaf(self) -> bool:
        return self._received and not self._streams

    def _hears(self, begins: bool) -> None:  # noqa: FBT001 - what happened
        self._streams += 1 if begins else -1
        self._received = self._received or begins

    async def close(self) -> None:
        await self._client.aclose()
        if self._tokens is not None:
            await self._tokens.close()


class ChildCarrier:
    """The pipes of a child process, which is started for each client, and with growing pauses after it died."""

    per_call, deaf, tokens = False, False, ()

    def __init__(self, server: McpServer, clock: Clock) -> None:
        if not server.command:
            raise McpUnavailable(f"The MCP server `{server.name}` has no `command`.")
        self._server, self._clock = server, clock
        self._words = LastWords(server)
        self._lost: Callable[[], None] | None = None
        self._deaths, self._started, self._died = 0, 0, 0

    @property
    def words(self) -> str:
        return self._words.text

    def streams(self) -> AbstractAsyncContextManager[Any]:
        return self._process()

    async def ready(self) -> None:
        pause = min(_MAX_PAUSE, _FIRST_PAUSE * 2 ** (self._deaths - 2)) if self._deaths > 1 else 0.0
        left = pause - (self._clock.now() - self._died) / 1000
        if left > 0:
            await self._clock.sleep(left)
        self._words = LastWords(self._server)
        self._started = self._clock.now()

    def opens(self, lost: Callable[[], None]) -> None:
        self._lost = lost

    async def close(self) -> None:
        """Do nothing: each process belongs to its client."""

    @asynccontextmanager
    async def _process(self) -> AsyncGenerator[Any]:
        lost, open_ = self._lost, True

        def ended() -> None:
            if not open_:
                return
            self._died = self._clock.now()
            self._deaths = 1 if self._died - self._started >= _STEADY else self._deaths + 1
            if lost is not None:
                lost()

        try:
            async with child_process(self._server, self._words, ended) as streams:
                try:
                    yield streams
                finally:
                    open_ = False
        finally:
            open_ = False
