"""One client that sends what costs a server the most for the least, or that is slow; and whom it delays."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from tests.bench.client import KEY
from tests.bench.measures import SHORT, streams
from tests.bench.sides import Side

NESTED = b'{"text": "x", "controls": ' + b"[" * 11_000 + b"]" * 11_000 + b"}"
VALUES = b'{"text": "x", "controls": [' + b"1," * 19_000 + b"1]}"
FIELDS = b"{" + b",".join(b'"%d": 1' % n for n in range(19_000)) + b"}"
TEXT = b'{"text": "' + b"x" * 400_000 + b'"}'


Client = Callable[[Side], Coroutine[Any, Any, None]]
"""What one client does to a server, without an end."""


async def delay(side: Side, client: Client, *, asks: int) -> tuple[float, float]:
    """Return the most seconds that *client* delayed a first text, and how long those took alone."""
    async with streams(side, 1) as (stream,):
        await stream.run(SHORT)
        alone = [await _first(stream) for _ in range(asks)]
        async with _beside(side, client):
            among = [await _first(stream) for _ in range(asks)]
    return max(max(among) - median(alone), 1e-6), median(alone)


@asynccontextmanager
async def _beside(side: Side, client: Client) -> AsyncIterator[None]:
    """Have *client* at work for as long as the block lasts."""
    working = asyncio.create_task(client(side))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait((working,))
    assert working.cancelled(), f"it ended by itself: {working.exception()}"


async def slow(side: Side) -> None:
    """Send a head and a body byte by byte, and read nothing of answers that have much to say."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_drip(side, b"GET /v1/agents HTTP/1.1\r\nX-Slow: " + b"x" * 10_000))
        group.create_task(_drip(side, _head(100_000) + b'{"text": "' + b"x" * 90_000))
        group.create_task(_hear_nothing(side))


async def _drip(side: Side, data: bytes) -> None:
    while True:
        _, writer = await asyncio.open_connection("127.0.0.1", side.port)
        try:
            for place in range(len(data)):
                if writer.transport.is_closing():
                    break
                writer.write(data[place : place + 1])
                await asyncio.sleep(0.005)
        finally:
            writer.transport.abort()


async def _hear_nothing(side: Side) -> None:
    """Ask for answers as streams, and read none of them."""
    while True:
        _, writer = await asyncio.open_connection("127.0.0.1", side.port)
        body = b'{"input": "Explain at length", "mode": "stream"}'
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            writer.write(_head(len(body), b"/v1/agents/assistant/runs") + body)
            await asyncio.sleep(1)
        finally:
            writer.transport.abort()


async def greedy(side: Side) -> None:
    """Send bodies that are long to read."""
    while True:
        for body in (NESTED, VALUES, FIELDS, TEXT):
            reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
            writer.write(_head(len(body)) + body)
            try:
                await reader.readuntil(b"\r\n\r\n")
            finally:
                writer.transport.abort()


def _head(length: int, path: bytes = b"/v1/sessions/x/messages") -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % path
    return head + b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n" % (KEY.encode(), length)


async def _first(stream) -> float:
    begin = time.monotonic()
    return (await stream.run(SHORT)).first - begin
