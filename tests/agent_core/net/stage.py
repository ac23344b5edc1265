"""A stage for the guarded fetch: sites on loopback, names that a test gives, and roads that lead there."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpcore2

PUBLIC = "93.184.216.34"
"""A public address; no test sends anything there, its roads lead to loopback."""
Write = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A server that answers with bytes, or by a function, per path; it keeps the requests."""

    port: int = 0
    answers: dict[str, bytes | Write] = field(default_factory=dict)
    raw: Write | None = None
    """Speaks instead, from the first byte on."""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection has ended."""
    serving: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = field(default_factory=dict)

    def url(self, path: str = "/", host: str = "site.example") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.serving[writer] = asyncio.current_task()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if self.raw is not None:
                await self.raw(reader, writer)
            while not (writer.is_closing() or self.raw):
                request = await _receive(reader)
                self.requests.append(request)
                answer = self.answers.get(request.path, ok(b"hello"))
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.left.set()


async def _receive(reader: asyncio.StreamReader) -> Request:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)


@asynccontextmanager
async def serving(**server: Any) -> AsyncGenerator[Site]:
    """Give a site that listens on loopback."""
    site = Site()
    listening = await asyncio.start_server(site.serve, "127.0.0.1", 0, **server)
    site.port = listening.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        listening.close()
        for writer in site.serving:
            writer.transport.abort()
        await asyncio.gather(*filter(None, site.serving.values()))


def ok(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Write an answer."""
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
    return head.encode() + b"\r\n\r\n" + body


def moved(location: str, status: int = 302) -> bytes:
    """Write a redirect."""
    return ok(b"", f"Location: {location}", status=f"{status} Moved")


def last(answer: bytes) -> Write:
    """Answer and close the connection."""

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return write


class Names:
    """A resolver that knows only the addresses of a name, one list for each lookup, the last repeats."""

    def __init__(self, **known: Sequence[Iterable[str]]) -> None:
        self.known = {re.sub("_(example|internal)$", r".\1", name): list(answers) for name, answers in known.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.known.get(host)
        if answers is None:
            raise OSError("no such name")
        return tuple(answers.pop(0) if len(answers) > 1 else answers[0])


class Roads(httpcore2.AsyncNetworkBackend):
    """Leads every address to loopback, at the same port or another, and remembers them; *closed* ones lead nowhere."""

    def __init__(self, closed: Iterable[str] = (), ports: Mapping[int, int] | None = None) -> None:
        self.taken: list[str] = []
        self._closed, self._ports = set(closed), ports or {}
        self._on: Any = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, timeout: Any = None, local_address: Any = None, socket_options: Any = None
    ) -> httpcore2.AsyncNetworkStream:
        self.taken.append(host)
        if host in self._closed:
            raise httpcore2.ConnectError("refused")
        return await self._on.connect_tcp("127.0.0.1", self._ports.get(port, port))
