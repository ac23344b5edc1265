"""Readers who never read, requests that never end, and very many of both: no other client notices."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.follower import ends
from tests.e2e.frames import Frames
from tests.e2e.raw import deaf_reader, get
from tests.e2e.server import KEY, Server
from tests.e2e.test_kill import ASK, RUNS, WHOLE, ask, id_of, opened
from tests.polling import PATIENCE

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def quick_server(start_shared: StartServer) -> Server:
    """A server that answers flat out, for those that do not stop it."""
    return start_shared(rate=0)


@contextmanager
def deaf_readers(server: Server, path: str, many: int) -> Iterator[list[socket.socket]]:
    """Open so many streams of *path* without reading them."""
    with ExitStack() as stack:
        yield [stack.enter_context(deaf_reader(server, path, KEY)) for _ in range(many)]


async def answers(client: httpx.AsyncClient, session: str, many: int) -> None:
    """Have so many long answers written in *session*, one after the other."""
    for _ in range(many):
        run = await client.post(RUNS, json={"input": ASK, "session": id_of(session)})
        assert run.json()["output"]["text"] == WHOLE


async def test_readers_who_never_read_cost_bounded_memory(quick_server: Server):
    """Twenty unread streams buffer a bounded part of an answer, and do not hold up other readers."""
    server = quick_server
    async with server.client() as client:
        session = await opened(client)
        with deaf_readers(server, f"{session}/events", 20):
            await answers(client, session, 5)
            before = server.memory
            await answers(client, session, 25)
            assert server.memory - before < 8 * MEGABYTE
            frames = Frames()
            async with client.stream("GET", f"{session}/events?until=idle") as response:
                async for _ in frames.read(response):
                    pass
            assert [answer.text for answer in frames.answers] == [WHOLE] * 30


@pytest.mark.whole
async def test_ctrl_c_with_readers_who_never_read(start_server: StartServer):
    """Unread streams do not delay a shutdown, which is clean."""
    server = start_server(rate=0)
    async with server.client() as client:
        session = await opened(client)
        with deaf_readers(server, f"{session}/events", 5):
            await answers(client, session, 20)
            assert await asyncio.to_thread(server.interrupt) == 0
    assert server.afterwards == ""


async def test_ctrl_c_with_a_caller_who_never_finishes(server: Server):
    """A request whose body never comes keeps no stop from being done in time and in peace."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = get(RUNS, b"Authorization: Bearer " + KEY.encode(), b"Content-Length: 100").replace(b"GET", b"POST", 1)
        connection.sendall(head + b'{"input": ')
        async with server.client() as client:
            assert (await client.get("/healthz")).status_code == 200
        assert await asyncio.to_thread(server.interrupt) == 0
    assert server.afterwards == ""


@pytest.mark.whole
async def test_three_hundred_readers_of_one_answer(start_server: StartServer):
    """Three hundred streams of one session get the same bytes, whole, while the server answers others at once."""
    server = start_server(rate=0)
    async with server.client() as client:
        session = await opened(client)
        everybody_is_there = asyncio.Barrier(301)
        readers = [
            asyncio.create_task(read_stream(server, f"{session}/events", everybody_is_there)) for _ in range(300)
        ]
        await asyncio.wait_for(everybody_is_there.wait(), PATIENCE)
        posted = await client.post(f"{session}/messages", json={"text": ASK})
        assert posted.status_code == 202
        async with asyncio.timeout(PATIENCE):
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.get(f"{session}/messages")).status_code == 200
        streams = set(await asyncio.wait_for(asyncio.gather(*readers), 3 * PATIENCE))
        assert len(streams) == 1, "two readers received different bytes"
        frames = Frames()
        for block in streams.pop().decode().split("\n\n")[:-1]:
            frames.add(block)
        assert [answer.text for answer in frames.answers] == [WHOLE]
        assert await asyncio.to_thread(server.interrupt) == 0


async def read_stream(server: Server, path: str, everybody_is_there: asyncio.Barrier) -> bytes:
    """Return the bytes of a stream up to the end of its first run."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**20)
    try:
        writer.write(get(path, b"Authorization: Bearer " + KEY.encode()))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        said = b""
        while b"\n\nid: 2\n" not in said:
            said += await chunk(reader)
        await everybody_is_there.wait()
        while b"event: run.completed" not in said:
            said += await chunk(reader)
        return said
    finally:
        writer.close()


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """Return the next chunk of a chunked answer."""
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2))[:-2]


@pytest.mark.whole
@pytest.mark.parametrize("many", [100, pytest.param(300, marks=pytest.mark.whole)])
async def test_many_conversations_at_once(quick_server: Server, many: int):
    """A hundred or more runs that begin together are all answered, each to its own reader."""
    server = quick_server
    limits = httpx.Limits(max_connections=None)
    async with server.client(limits=limits, timeout=PATIENCE) as client:
        bodies = [{"input": f"What is {n} + {n}?"} for n in range(many)]
        runs = await asyncio.gather(*(client.post(RUNS, json=body) for body in bodies))
        for n, run in enumerate(runs):
            assert run.json()["status"] == "completed", run.text
            assert f"{n} + {n} is {2 * n}." in run.json()["output"]["text"]
        assert len({run.json()["session"] for run in runs}) == many


@pytest.mark.whole
async def test_a_reader_who_pauses_misses_nothing(quick_server: Server):
    """A reader who looks away for many answers has every fact when they look again, and the newest text."""
    server = quick_server
    async with server.client() as client:
        session, _ = await ask(client)
        frames, count = Frames(), 0
        async with client.stream("GET", f"{session}/events") as response:
            await frames.until(response, ends)
            await answers(client, session, 30)
            while count < 30:
                await frames.until(response, ends)
                count += 1
        assert [answer.text for answer in frames.answers] == [WHOLE] * 31
        newest = (await client.get(f"{session}/messages", params={"limit": 100})).json()["items"][-1]
        assert newest["seq"] < frames.seq
