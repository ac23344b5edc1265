"""A small application with bounds on its connections, whose clock is moved by hand, and clients of it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from app.api.wire import Problem
from app.serving.connections import ConnectionBounds, Connections
from app.serving.readers import Readers
from app.serving.server import SLICE, Server, config, listening

LIMIT = 20
SMALL = ConnectionBounds(connections=4, head_bytes=2_000, unread_bytes=100_000)
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Edge:
    """A server with bounds, and what its application saw."""

    def __init__(self, bounds: ConnectionBounds) -> None:
        self.time = 1_000.0
        self.connections = Connections(bounds, clock=lambda: self.time)
        self.left = asyncio.Event()
        self.port = 0
        self.clients: list[EdgeClient] = []
        self.headers: list[tuple[bytes, bytes]] = []

    async def __call__(self, scope, receive, send) -> None:
        match scope["path"]:
            case "/early":
                await _answer(send, b"early")
            case "/stream":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                while (await _ready(receive)) is None:
                    await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
                self.left.set()
            case _:
                size, more = 0, True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        self.left.set()
                        return
                    size, more = size + len(message.get("body", b"")), message.get("more_body", False)
                self.headers = scope["headers"]
                await _answer(send, b"%d" % size)

    async def open(self) -> "EdgeClient":
        self.clients.append(EdgeClient(self, *await asyncio.open_connection("127.0.0.1", self.port)))
        return self.clients[-1]

    def refused(self, reason: str) -> float:
        """Return how many connections were refused for *reason*, as the metric has it."""
        return self.connections.refused.labels(reason)._value.get()


class EdgeClient:
    """One connection."""

    def __init__(self, edge: Edge, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.edge, self.reader, self.writer = edge, reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Return the status and the body of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
        return int(head.split()[1]), await self.reader.readexactly(int(length.partition(b": ")[2]))

    async def end(self, seconds: int = 120, *, drip: Callable[[], bytes] = bytes) -> tuple[bytes, int]:
        """Return what comes until the server closes, and after how many seconds of its clock, each with a *drip*."""
        reading, took = asyncio.create_task(self.reader.read()), 0
        while not reading.done() and took < seconds:
            took += 1
            self.edge.time += 1
            self.writer.write(drip())
            self.edge.connections.look()
            for _ in range(5):
                await asyncio.sleep(0)
        assert reading.done(), f"it is open after {seconds} s"
        return await reading, took


async def _answer(send, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _ready(receive) -> object:
    """Return the disconnect, if there was one."""
    try:
        async with asyncio.timeout(0.001):
            while (message := await receive())["type"] != "http.disconnect":
                pass
            return message
    except TimeoutError:
        return None


@asynccontextmanager
async def edge(bounds: ConnectionBounds = SMALL) -> AsyncIterator[Edge]:
    """Give a served application."""
    made, up = Edge(bounds), asyncio.Event()
    async with asyncio.timeout(LIMIT):
        with listening("127.0.0.1", 0) as sock:
            made.port = sock.getsockname()[1]
            server = Server(
                config(made, made.connections), readers=Readers(), connections=made.connections, started=up.set
            )
            serving = asyncio.create_task(server.serve(sockets=[sock]))
            await up.wait()
            try:
                yield made
            finally:
                for client in made.clients:
                    client.writer.close()
                server.handle_exit(signal.SIGTERM, None)
                await serving


async def until(holds: Callable[[], bool]) -> None:
    """Return once *holds* does, looking each time that the loop has nothing else to do."""
    for _ in range(1_000_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never holds")


async def flood(client: EdgeClient, times: int = 3_000) -> None:
    """Send a hundred megabytes, or *times* 32 kB."""
    for _ in range(times):
        await client.send(b"x" * SLICE)


def problem_of(answer: bytes) -> Problem:
    """Return the one problem that *answer* is."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    found = msgspec.json.decode(body, type=Problem, strict=True)
    assert found.status == int(head.split()[1])
    return found
