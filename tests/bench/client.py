"""The client of all sides: HTTP/1.1 on one kept connection, the text of server-sent events counted as it comes."""

import asyncio
import re
import time
from typing import cast

import httptools
import msgspec

from tests.bench.exchange import TOKEN
from tests.bench.wires import PARLEY, Marks

KEY = "the-operators-own-key"
BLANK = b"\n\n"
SEQ = b"id: "
WORD = TOKEN.encode()
SENT = re.compile(rb"@(\d{18})")


class Refused(RuntimeError):
    """The server answered with an error."""


class Answer:
    """One response: what was counted in it, and when its first delta came.

    *first* is the time of the first delta since `expect`, 0 before it; *ends* counts the answers that ended in order,
    and *newest* is the seq of the last fact.
    *disorder* counts the facts that did not come right after the one before, *late* the deltas that came with the
    whole message only.
    *transits* has, for each delta that was stamped, when it came and how many seconds that was after it was sent.
    """

    def __init__(self, marks: Marks, *, keep: bool) -> None:
        self.deltas = self.ends = self.newest = self.disorder = self.late = self._open = 0
        self.first = 0.0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.finished = False
        self.transits: list[tuple[float, float]] = []
        self._marks = marks
        self._kept: list[bytes] | None = [] if keep else None
        self._tail = b""
        self._begun = False
        self._news = asyncio.Event()

    @property
    def body(self) -> bytes:
        """The whole body, if it was kept."""
        return b"".join(self._kept or ())

    def expect(self) -> float:
        """Wait for a first delta again, and return the time from which it is waited for."""
        self.first = 0.0
        return time.monotonic()

    def feed(self, data: bytes) -> None:
        """Count what *data* brings; a frame that is not whole yet waits."""
        if not self._begun:
            self._begun = True
            self.wake()
        if self._kept is not None:
            self._kept.append(data)
            return
        *frames, self._tail = (self._tail + data).split(BLANK)
        now, marks = time.monotonic(), self._marks
        for frame in frames:
            if frame.startswith(SEQ):
                self._follow(int(frame[len(SEQ) : frame.index(b"\n")]))
            if marks.delta in frame:
                self._count(frame, frame.count(WORD), now)
            elif marks.end in frame:
                self._end()
            elif marks.whole is not None and marks.whole in frame:
                late = frame.count(WORD) - self._open
                self.late += max(0, late)
                self._count(frame, late, now)

    def _count(self, frame: bytes, found: int, now: float) -> None:
        """Count the deltas *found* in *frame*, which came joined, and see how long those that are stamped took."""
        if found <= 0:
            return
        if not self.first:
            self.first = now
            self.wake()
        self.deltas += found
        self._open += found
        if b"@" in frame:
            self.transits += [(now, now - int(sent) / 1e9) for sent in SENT.findall(frame)]

    def _follow(self, seq: int) -> None:
        self.disorder += self.newest not in (0, seq - 1)
        self.newest = seq

    def _end(self) -> None:
        self.ends += 1
        self._open = 0
        self.wake()

    def wake(self) -> None:
        self._news.set()

    async def until(self, *, ends: int | None = None) -> None:
        """Return once *ends* answers have ended; without it, once the response is whole."""
        while not self.finished and (ends is None or self.ends < ends):
            self._news.clear()
            await self._news.wait()

    async def begun(self) -> None:
        """Return once something of the body has come."""
        while not self._begun and not self.finished:
            self._news.clear()
            await self._news.wait()

    async def spoken(self) -> None:
        """Return once the first delta has come."""
        while not self.deltas and not self.finished:
            self._news.clear()
            await self._news.wait()


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer = Answer(PARLEY, keep=False)
        self._lost = asyncio.Event()

    @classmethod
    async def open(cls, port: int) -> "Connection":
        """Connect to the server on *port* of this machine."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def send(self, method: str, path: str, body: object = None, *, marks: Marks = PARLEY, keep: bool = False) -> Answer:
        """Send a request and return its answer, which is still to come; it is either kept or counted by *marks*."""
        content = b"" if body is None else msgspec.json.encode(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self._answer = answer = Answer(marks, keep=keep)
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
