"""An MCP server as a child process: its lines in and out, bounded, and no process left at the end.

The SDK's own transport takes time that grows with the square of a line's length, and has no bound for it.
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
import mcp_types as wire
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from agent_core.clock import Clock
from agent_core.mcp.http_client import MAX_BODY, ServerAuth, Tokens, http_client
from agent_core.mcp.port import McpUnavailable, masked
from agent_core.messages import visible
from agent_core.net.sse import legible
from agent_core.servers import McpServer

MAX_MESSAGE = 4_000_000
"""Bytes of one line, as of one answer over HTTP."""
_CHUNK = 65_536
_GRACE = 2.0
"""Seconds that a process has to end after its input has, and again after SIGTERM."""
_LOOK = 0.01
_LOGGED = 200
"""Lines of its standard error that are logged of one process."""
MAX_ERROR = 64_000
"""Bytes of a line of it that are read; `_LINE` characters are shown, once its secrets are masked."""
_LINE = 500
_AT_ONCE = 200
"""Lines that are read before other tasks have their time."""
_CUT = b"\0"
_HEAD = re.compile(rb'^\{"jsonrpc":\s?"2\.0",\s?"id":\s?(\d+)\s?,')
_TAIL = re.compile(rb'"id":\s?(\d+)\s?\}\s*$')
_EDGE = 200

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
_log = structlog.get_logger("parley.mcp")


class LastWords:
    """What a server wrote to its standard error: the first lines are logged, the last are for when it has ended."""

    def __init__(self, server: McpServer) -> None:
        self._server, self._lines, self._count = server, deque[bytes](maxlen=3), 0

    @property
    def text(self) -> str:
        return " ".join(filter(None, map(self._shown, self._lines)))

    def add(self, line: bytes) -> None:
        if not line.strip():
            return
        self._lines.append(line)
        self._count += 1
        if self._count <= _LOGGED:
            _log.info("mcp.stderr", server=self._server.name, text=self._shown(line))
        elif self._count == _LOGGED + 1:
            _log.info("mcp.stderr_cut", server=self._server.name, lines=_LOGGED)

    def _shown(self, line: bytes) -> str:
        if line.startswith(_CUT):
            return f"[a line of more than {MAX_ERROR // 1000} kB]"
        return masked(self._server, visible(line.decode(errors="replace")).strip())[:_LINE]


@asynccontextmanager
async def child_process(server: McpServer, words: LastWords, ended: Callable[[], None]) -> AsyncGenerator[Streams]:
    """Run *server* for as long as the `async with` lasts; *ended* is called when it ends before that.

    It gets only `HOME`, `PATH` and their like of this process's environment. Raises OSError when it cannot start.
    """
    process = await asyncio.create_subprocess_exec(
        server.command or "",
        *server.args,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=get_default_environment() | server.env,
        cwd=server.cwd,
        start_new_session=True,
    )
    try:
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sending, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(_read(process, incoming, ended)),
            asyncio.create_task(_write(process, outgoing)),
            asyncio.create_task(_errors(process, words)),
        ]
        try:
            yield received, sending
        finally:
            for stream in (incoming, received, sending, outgoing):
                stream.close()
            try:
                await _stopped_for_sure(process)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        _signal(process, signal.SIGKILL)  # also what it started and left
        transport: Any = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()


async def _read(
    process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception], ended: Callable[[], None]
) -> None:
    assert process.stdout is not None
    lines = _Lines(MAX_MESSAGE)
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        async with incoming:
            while chunk := await process.stdout.read(_CHUNK):
                for number, line in enumerate(lines.of(chunk), 1):
                    if number % _AT_ONCE == 0:
                        await asyncio.sleep(0)
                    if (message := _message(line)) is not None:
                        await incoming.send(message)
    ended()


async def _write(process: Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError, anyio.ClosedResourceError):
        async for each in outgoing:
            data = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(data.encode() + b"\n")
            await process.stdin.drain()


async def _errors(process: Process, words: LastWords) -> None:
    assert process.stderr is not None
    lines = _Lines(MAX_ERROR)
    while chunk := await process.stderr.read(_CHUNK):
        for number, line in enumerate(lines.of(chunk), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            words.add(line)


class _Lines:
    """Cuts what comes into lines; of one beyond *longest* bytes only its two ends are kept, joined, after a NUL."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that *chunk* ends."""
        first, *rest = chunk.split(b"\n")
        self._add(first)
        for each in rest:
            yield self._line()
            self._add(each)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        self._parts.append(part)
        if self._size > self._longest:
            whole = b"".join(self._parts)
            self._parts = [whole[:_EDGE], whole[-_EDGE:]]

    def _line(self) -> bytes:
        line, too_long = b"".join(self._parts), self._size > self._longest
        self._parts, self._size = [], 0
        return _CUT + line if too_long else line


def _message(line: bytes) -> SessionMessage | None:
    """Return the message of *line*; None for a line that is none, as servers print them by mistake.

    An answer that is too long becomes an error of the same request, when its id is found.
    """
    if line.startswith(_CUT):
        found = _HEAD.match(line[1:]) or _TAIL.search(line)
        if found is None:
            return None
        error = wire.ErrorData(
            code=wire.INTERNAL_ERROR, message=f"the answer is larger than {MAX_MESSAGE // 1_000_000} MB"
        )
        return SessionMessage(wire.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return SessionMessage(wire.jsonrpc_message_adapter.validate_json(legible(line), by_name=False))
    except ValueError:
        return None


async def _stopped_for_sure(process: Process) -> None:
    """End *process*; one that is waited for no longer is killed, and has ended before the cancellation goes on."""
    stopping, cancelled = asyncio.create_task(_stopped(process)), None
    while not stopping.done():
        try:
            await asyncio.wait((stopping,))
        except asyncio.CancelledError as error:
            cancelled = error
            _signal(process, signal.SIGKILL)
    if cancelled is not None:
        raise cancelled


async def _stopped(process: Process) -> None:
    """End *process*: its input ends, then it is asked to, then it is killed."""
    if process.stdin is not None:
        process.stdin.close()
    if await _gone(process):
        return
    _signal(process, signal.SIGTERM)
    if not await _gone(process):
        _signal(process, signal.SIGKILL)
        await _gone(process)


async def _gone(process: Process) -> bool:
    """Return whether *process* ended within the grace; `wait()` also waits for pipes that its children hold open."""
    looks = int(_GRACE / _LOOK)
    while process.returncode is None and looks:
        looks -= 1
        await asyncio.sleep(_LOOK)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


_FIRST_PAUSE, _MAX_PAUSE = 0.5, 30.0
_STEADY = 60_000
"""Milliseconds after which a process that ends has not died at its start."""


class HttpCarrier:
    """HTTP to one server; *transport* is the guarded one of all servers."""

    per_call = True
    """Whether a client of the modern era is made for each call: over HTTP that costs nothing."""
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
        """Return the newest access tokens that went to the server, which it may repeat."""
        return tuple(self._auth.sent)

    @property
    def deaf(self) -> bool:
        """Return whether the stream of news has ended; the SDK opens it again, and gives up without a word."""
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
        """Return the last that the server wrote to its standard error."""
        return self._words.text

    def streams(self) -> AbstractAsyncContextManager[Any]:
        return self._process()

    async def ready(self) -> None:
        """Return when a process may be started: one that died waits before it starts again."""
        pause = min(_MAX_PAUSE, _FIRST_PAUSE * 2 ** (self._deaths - 2)) if self._deaths > 1 else 0.0
        left = pause - (self._clock.now() - self._died) / 1000
        if left > 0:
            await self._clock.sleep(left)
        self._words = LastWords(self._server)
        self._started = self._clock.now()

    def opens(self, lost: Callable[[], None]) -> None:
        """Call *lost* when the client that is opened next is of no more use."""
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
