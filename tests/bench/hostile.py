"""A client that sends, without a pause, what costs a server the most for the least; and whom it delays."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from tests.bench.client import KEY
from tests.bench.measures import SHORT, streams
from tests.bench.sides import Side

NESTED = b'{"text": "x", "controls": ' + b"[" * 11_000 + b"]" * 11_000 + b"}"
VALUES = b'{"text": "x", "controls": [' + b"1," * 19_000 + b"1]}"
FIELDS = b"{" + b",".join(b'"%d": 1' % n for n in range(19_000)) + b"}"
TEXT = b'{"text": "' + b"x" * 400_000 + b'"}'


async def delay(side: Side, *, asks: int) -> tuple[float, float]:
    """Return the most seconds that one hostile client delayed a first text, and how long those took alone."""
    async with streams(side, 1) as (stream,):
        await stream.run(SHORT)
        alone = [await _first(stream) for _ in range(asks)]
        async with hostile(side):
            among = [await _first(stream) for _ in range(asks)]
    return max(max(among) - median(alone), 1e-6), median(alone)


@asynccontextmanager
async def hostile(side: Side) -> AsyncIterator[None]:
    """Have one client send such bodies for as long as the block lasts."""
    sending = asyncio.create_task(_send(side))
    try:
        yield
    finally:
        sending.cancel()
        await asyncio.wait((sending,))
    assert sending.cancelled(), f"it ended by itself: {sending.exception()}"


async def _send(side: Side) -> None:
    while True:
        for body in (NESTED, VALUES, FIELDS, TEXT):
            reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
            head = b"POST /v1/sessions/x/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            key = b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n" % (KEY.encode(), len(body))
            writer.write(head + key + body)
            try:
                await reader.readuntil(b"\r\n\r\n")
            finally:
                writer.transport.abort()


async def _first(stream) -> float:
    begin = time.monotonic()
    return (await stream.run(SHORT)).first - begin
