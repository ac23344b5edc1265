"""What strangers cost in memory: a fresh server before, beside and after very many hostile connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from app.api.guard import MAX_BODIES, MESSAGE
from tests import polling
from tests.e2e.conftest import StartServer
from tests.e2e.raw import deaf_reader, held, post
from tests.e2e.server import Server
from tests.e2e.test_kill import ASK
from tests.e2e.visitors import opened_by, token_for

pytestmark = pytest.mark.whole

FEW, MANY = 160, 1_000
SPARE = 50
DEAF = 10
MEGABYTE = 1_000_000
EACH = 64_000
"""Bytes that a connection costs at most beside its body, as docs/operations.md states."""
KEPT = 1.25
"""What a byte of an unfinished body costs at most, likewise."""
NOISE = 16 * MEGABYTE
"""Bytes by which a server grows while it does its first work."""
ROUNDING = 4 * MEGABYTE
"""Bytes by which two readings differ, for memory is taken in blocks."""
SILENT = b""
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 30_000


async def test_strangers_cost_a_bounded_amount_of_memory(start_server: StartServer, hostile: int):
    """Silent ones, heads and bodies that never end, and readers that do not read cost so much at most, and only once.

    What more of them cost is read between a small wave and a large one, so that a server's first work is in neither. A
    second large wave costs no more than the first one did: what that took can be used again.
    """
    sizes = (hostile // 4, hostile, hostile)
    server = start_server(rate=0, PARLEY_MAX_CONNECTIONS=str(hostile + SPARE))
    heights: list[int] = []
    async with server.client() as operator:
        tokens = [await token_for(operator, f"stranger-{n}", "assistant") for n in range(max(2, hostile // 20))]
        async with server.client(tokens[0]) as visitor:
            read = await opened_by(visitor)
            answer = await visitor.post(f"{read}/messages", json={"text": ASK})
            assert answer.status_code == 202, answer.text
            assert (await visitor.get(f"{read}/events?until=idle")).status_code == 200
        before = server.memory
        for size in sizes:
            async with wave(server, tokens, read, size):
                await polling.until_async(lambda size=size: connected(operator, size, SPARE + size))
                assert (await operator.get("/readyz")).status_code == 200
                heights.append(server.memory)
            await polling.until_async(lambda: connected(operator, 0, DEAF))
        after = server.memory
    said = ", ".join(f"{each / MEGABYTE:.0f} MB" for each in (before, *heights, after))
    print(f"memory before, beside {sizes} hostile connections, and after: {said}")
    small, large, again = heights
    assert small - before < most(sizes[0]) + NOISE
    assert large - small < most(hostile) - most(sizes[0]) + ROUNDING
    assert again - large < ROUNDING + (large - small) / 4
    assert after < max(heights) + ROUNDING


def most(hostile: int) -> float:
    """Return the bytes that so many hostile connections cost at most."""
    return hostile * EACH + KEPT * min(MAX_BODIES.everyone, (hostile - 2 * (hostile // 3)) * MESSAGE)


@asynccontextmanager
async def wave(server: Server, tokens: list[str], read: str, many: int) -> AsyncIterator[None]:
    """Hold so many connections while the block runs: a third silent, a third with heads, the others with bodies."""
    writers = [*await held(server, SILENT, many // 3), *await held(server, HEAD, many // 3)]
    deaf = [deaf_reader(server, f"{read}/events?after=0", tokens[0]) for _ in range(DEAF)]
    bodies, body = many - len(writers) - len(deaf), b'{"text": "' + b"x" * (MESSAGE - 30)
    try:
        for n, token in enumerate(tokens):
            own = bodies // len(tokens) + (n < bodies % len(tokens))
            writers += await held(server, post(f"{read}/messages", body, key=token, length=MESSAGE), own)
        yield
    finally:
        for writer in writers:
            writer.transport.abort()
        for each in deaf:
            each.close()


async def connected(operator: httpx.AsyncClient, least: int, most: int) -> bool:
    """Return whether the server has so many connections."""
    text = (await operator.get("/metrics")).text
    found = next(line for line in text.splitlines() if line.startswith("parley_connections "))
    return least <= float(found.split()[1]) <= most


@pytest.fixture
def hostile(request: pytest.FixtureRequest) -> int:
    """How many hostile connections there are at once."""
    return MANY if request.config.getoption("--whole") else FEW
