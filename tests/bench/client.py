"""The client of both sides: HTTP/1.1 on one kept connection, server-sent events counted as they come."""

import asyncio
import time
from typing import cast

import httptools
import msgspec

DELTA = b"event: text.delta\n"
ENDED = b"event: run.completed\n"
KEY = "the-operators-own-key"


class Refused(RuntimeError):
    """The server answered with an error."""


class Answer:
    """One response: what was counted in it, and when its first delta came.

    *first* is the time of the first delta since `expect`, 0 before it; *ends* counts the runs that ended.
    """

    def __init__(self, *, keep: bool) -> None:
        self.deltas = self.ends = 0
        self.first = 0.0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.finished = False
        self._kept: list[bytes] | None = [] if keep else None
        self._tail = b""
        self._begun = False
        self._news = asyncio.Event()

    @property
    def body(self) -> bytes:
        """The whole body, if it was kept."""
        return b"".join(self._kept or ())

    def expect(self) -> float:
        """Wait for a first delta anew, and return the time from which it is waited for."""
        self.first = 0.0
        return time.perf_counter()

    def feed(self, data: bytes) -> None:
        """Count what *data* brings; a mark is a whole line, so the line that is not whole yet waits."""
        if self._kept is not None:
            self._kept.append(data)
        self._begun = True
        data = self._tail + data
        deltas, ends = data.count(DELTA), data.count(ENDED)
        self._tail = data[data.rfind(b"\n") + 1 :]
        if deltas:
            self.first = self.first or time.perf_counter()
            self.deltas += deltas
        self.ends += ends
        self.wake()

    def wake(self) -> None:
        self._news.set()

    async def until(self, *, ends: int | None = None) -> None:
        """Return once *ends* runs have ended; without it, once the response is whole."""
        while not self.finished and (ends is None or self.ends < ends):
            self._news.clear()
            await self._news.wait()

    async def begun(self) -> None:
        """Return once something of the body has come."""
        while not self._begun and not self.finished:
            self._news.clear()
            await self._news.wait()


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer = Answer(keep=False)
        self._lost = asyncio.Event()

    @classmethod
    async def open(cls, port: int) -> "Connection":
        """Connect to the server on *port* of this machine."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def send(self, method: str, path: str, body: object = None, *, keep: bool = False) -> Answer:
        """Send a request and return its answer, which is still to come."""
        content = b"" if body is None else msgspec.json.encode(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self._answer = answer = Answer(keep=keep)
        assert self._transport is not None
        self._transport.write(head.encode() + b"\r\n" + content)
        return answer

    async def fetch(self, method: str, path: str, body: object = None) -> dict[str, str]:
        """Send a request and return its JSON."""
        answer = self.send(method, path, body, keep=True)
        await answer.until()
        if answer.status >= 300:
            raise Refused(f"{method} {path}: {answer.status} {answer.body.decode()}")
        return msgspec.json.decode(answer.body)

    async def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()
            await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        self.on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._answer.feed(data)

    def on_message_complete(self) -> None:
        self._answer.finished = True
        self._answer.wake()
