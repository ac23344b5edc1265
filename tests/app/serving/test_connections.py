"""Bounds on connections, tried byte by byte against a small application; the clock is moved by hand."""

import asyncio
import inspect
import socket
from contextlib import suppress

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.serving import connections as edges
from app.serving.connections import ConnectionBounds, Connections
from app.serving.server import Connection, refusal
from app.settings import network
from tests.app.serving.edge import GET, edge, flood, problem_of, until
from tests.cases import for_each


@for_each("size", [2_001, 40_000, 1_000_000])
@for_each("place", ["target", "header", "headers"])
async def test_a_head_has_a_bound(place: str, size: int):
    """A request line and headers of more bytes answer 431, whether or not they ever end; a smaller head is served."""
    async with edge() as made:
        for count in (1_000, size):
            client = await made.open()
            await client.send(
                {
                    "target": b"GET /" + b"a" * count + b" HTTP/1.1\r\n",
                    "header": GET + b"X: " + b"a" * count + b"\r\n",
                    "headers": GET + b"X: 1234567890\r\n" * (count // 15),
                }[place]
                + (b"\r\n" if size != 1_000_000 or count == 1_000 else b"")
            )
            if count == 1_000:
                assert await client.answer() == (200, b"0")
        found = problem_of((await client.end())[0])
        assert (found.status, found.code) == (431, "headers_too_large")
        assert made.refused("head_size") == 1


async def test_the_fields_of_a_head_are_counted():
    """More than 128 header fields answer 431, however short they are."""
    async with edge(ConnectionBounds()) as made:
        client = await made.open()
        await client.send(GET + b"a:b\r\n" * 127 + b"\r\n")
        assert await client.answer() == (200, b"0")
        await client.send(GET + b"a:b\r\n" * 128 + b"\r\n")
        assert problem_of((await client.end())[0]).status == 431


CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n"


@for_each(
    "before, endless",
    [(b"0\r\n", b"a:b\r\n" * 8), (b"0\r\na:", b"b" * 40), (b"0\r\n", b"a" * 40), (b"1;", b"x" * 40)],
)
async def test_what_is_around_chunks_has_a_bound(before: bytes, endless: bytes):
    """Trailers or a chunk's extension of more bytes or fields answer 431, though they never end; small ones do not."""
    async with edge() as made:
        client = await made.open()
        await client.send(CHUNKED + b"0\r\n" + b"a:b\r\n" * 128 + b"\r\n")
        assert await client.answer() == (200, b"3")
        await client.send(CHUNKED + b"1;x\r\nd\r\n" * 2_000 + before + endless * 1_250)
        found = problem_of((await client.end(5))[0])
        assert (found.status, found.code) == (431, "headers_too_large")
        assert made.refused("trailers") == 1
        await made.left.wait()


async def test_trailers_are_no_headers():
    """A field after a body is not among the headers that the application sees, also while it reads the body."""
    async with edge() as made:
        client = await made.open()
        await client.send(CHUNKED + b"0\r\nX-Late: 1\r\n\r\n")
        assert await client.answer() == (200, b"3")
        assert [name for name, _ in made.headers] == [b"host", b"transfer-encoding"]


async def test_what_comes_after_a_refusal_has_a_bound():
    """A refused client that sends on for more than a megabyte is cut off, before the time for it is over."""
    async with edge(ConnectionBounds()) as made:
        client = await made.open()
        await client.send(b"garbage\r\n\r\n")
        assert problem_of(await client.reader.read()).code == "invalid_http"
        with pytest.raises(ConnectionError):
            await flood(client, 1_000)


async def test_a_head_that_drips_is_ended():
    """A head that is not complete after ten seconds answers 408, however it drips, also before a later request."""
    async with edge() as made:
        client = await made.open()
        drip = iter(GET * 10)
        answer, took = await client.end(drip=lambda: bytes([next(drip)]))
        assert problem_of(answer).code == "timeout"
        assert 11 <= took <= 13
        client = await made.open()
        await client.send(GET + b"\r\n")
        assert await client.answer() == (200, b"0")
        answer, took = await client.end(drip=lambda: b"\r\n")  # allowed before a request, and no request
        assert problem_of(answer).status == 408
        assert 11 <= took <= 13
        assert made.refused("head_time") == 2


async def test_idle_connections_are_closed_without_a_word():
    """A connection that never asks is closed after ten seconds, one that asked after 75."""
    async with edge() as made:
        answer, took = await (await made.open()).end()
        assert answer == b""
        assert 11 <= took <= 13
        client = await made.open()
        await client.send(GET + b"\r\n")
        await client.answer()
        answer, took = await client.end()
        assert answer == b""
        assert 76 <= took <= 78


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"


@for_each("rate, ends", [(0, True), (100, True), (900, True), (2_000, False)])
async def test_a_body_comes_at_a_least_rate(rate: int, *, ends: bool):
    """After ten seconds a body must have come at a kilobyte a second; else the answer is 408, and the request ends."""
    async with edge() as made:
        client = await made.open()
        await client.send(POST)
        if ends:
            answer, took = await client.end(drip=lambda: b"x" * rate)
            assert problem_of(answer).code == "timeout"
            assert 11 <= took <= 13
            await made.left.wait()
            assert made.refused("body_time") == 1
            return
        reading = asyncio.create_task(client.answer())
        for _ in range(100_000 // rate):
            await client.send(b"x" * rate)
            made.time += 1
            for _ in range(5):
                await asyncio.sleep(0)
            made.connections.look()
        assert await reading == (200, b"100000")


async def test_connections_are_counted():
    """As many as are allowed are served; one more answers 503 with when to try again, until one has left."""
    async with edge() as made:
        clients = [await made.open() for _ in range(4)]
        for client in clients:
            await client.send(GET + b"\r\n")
            assert (await client.answer())[0] == 200
        fifth = await made.open()
        answer = await fifth.reader.read()
        assert (problem_of(answer).code, b"retry-after: 10" in answer) == ("unavailable", True)
        fifth.writer.close()
        clients[0].writer.close()
        await until(lambda: made.connections.count <= 3)
        again = await made.open()
        await again.send(GET + b"\r\n")
        assert (await again.answer())[0] == 200
        assert made.refused("full") == 1


async def test_refused_connections_take_no_room(monkeypatch):
    """Refused connections that stay open take no place of a served one; more of them than are kept are cut at once."""
    monkeypatch.setattr(edges, "REFUSED", 2)
    async with edge() as made:
        clients = [await made.open() for _ in range(9)]
        await until(lambda: made.refused("full") == 5)
        assert made.connections.count == 4
        for client in clients[4:6]:
            assert problem_of(await client.reader.read()).code == "unavailable"
        for client in clients[6:]:
            with suppress(ConnectionError):
                assert await client.reader.read() == b""
        clients[0].writer.close()
        await until(lambda: made.connections.count == 3)
        again = await made.open()
        await again.send(GET + b"\r\n")
        assert (await again.answer())[0] == 200


def test_the_refused_of_one_address_lock_no_one_out():
    """An address that opens more connections than all may have takes its own share of them, and no more."""
    connections = Connections(ConnectionBounds(connections=8, per_address=4), clock=lambda: 0.0)
    held = [Nothing() for _ in range(20)]
    assert [connections.enter(each, "203.0.113.7") for each in held] == [None] * 4 + ["address"] * 16
    assert connections.enter(Nothing(), "203.0.113.8") is None


class Nothing:
    def look(self, now: float) -> None:
        pass


@for_each(
    "first, other, counted",
    [
        ("203.0.113.7", "203.0.113.7", True),
        ("203.0.113.7", "203.0.113.8", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("127.0.0.1", "127.0.0.1", False),
        ("::1", "::1", False),
        ("10.1.2.3", "10.1.2.3", False),
        ("::ffff:172.18.0.1", "172.18.0.1", False),
        ("fd00::1", "fd00::1", False),
        ("198.51.100.7", "198.51.100.7", False),
    ],
)
def test_connections_of_one_address_are_counted(first: str, other: str, *, counted: bool):
    """An IPv4 address, or a /64 of IPv6, has its own bound; this machine, private networks, trusted proxies do not."""
    connections = Connections(ConnectionBounds(per_address=1), trusted=[network("198.51.100.0/24")], clock=lambda: 0.0)
    held, late = Nothing(), Nothing()
    assert connections.enter(held, first) is None
    assert connections.enter(late, other) == ("address" if counted else None)
    connections.leave(late)
    connections.leave(held)
    assert connections.enter(held, other) is None
    assert problem_of(refusal("address")).code == "rate_limited"
    for header in (b"x-content-type-options: nosniff\r\n", b"cache-control: no-store\r\n"):
        assert header in refusal("address")


async def test_what_is_no_http_is_answered_as_a_problem():
    """Bytes that are no HTTP/1.1 request answer 400 as a problem, and the connection is closed."""
    async with edge() as made:
        for garbage in (b"garbage\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"):
            client = await made.open()
            await client.send(garbage)
            assert problem_of(await client.reader.read()).code == "invalid_http"
            client.writer.close()
        assert made.refused("not_http") == 3


async def test_requests_before_an_answer_are_bounded():
    """Some pipelined requests are answered in turn; thousands are not kept, and the connection ends."""
    async with edge() as made:
        client = await made.open()
        await client.send((GET + b"\r\n") * 10)
        assert [await client.answer() for _ in range(10)] == [(200, b"0")] * 10
        await client.send((GET + b"\r\n") * 10_000)
        with suppress(ConnectionError):  # what was not read is answered with a reset
            assert (await client.end())[0].count(b"HTTP/1.1 200") <= 17
        assert made.refused("pipeline") == 1


async def test_a_body_that_no_one_wants_is_passed_over():
    """After an early answer the rest of the body is passed over for ten seconds; then the connection can go on."""
    async with edge() as made:
        client = await made.open()
        head = b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\n"
        await client.send(head)
        assert await client.answer() == (200, b"early")
        await client.send(b"x" * 50_000 + GET + b"\r\n")
        assert await client.answer() == (200, b"0")
        await client.send(head)
        assert await client.answer() == (200, b"early")
        answer, took = await client.end()
        assert answer == b""
        assert 11 <= took <= 13
        assert made.refused("unread") == 1
        endless = await made.open()
        await endless.send(head.replace(b"50000", b"9999999999"))
        assert await endless.answer() == (200, b"early")
        with pytest.raises(ConnectionError):
            await flood(endless)


async def test_a_client_that_does_not_read_is_closed():
    """An answer waits 30 seconds for its reader; then the connection is cut, and what wrote the answer ends."""
    async with edge() as made:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", made.port))
        deaf.send(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")

        def left() -> bool:
            made.time += 1
            made.connections.look()
            return made.left.is_set()

        await until(left)
        deaf.close()
        assert made.refused("reader") == 1


def test_the_names_of_uvicorn_that_the_protocol_uses():
    """What `Connection` overrides and reads exists in the installed uvicorn, with the same meaning of its flags."""
    for name in ("on_message_begin", "on_headers_complete", "on_message_complete", "on_response_complete"):
        assert callable(getattr(HttpToolsProtocol, name))
        assert f"def {name}(self)" in inspect.getsource(Connection)
    for name in ("on_header", "on_body"):
        named = [list(inspect.signature(getattr(each, name)).parameters) for each in (HttpToolsProtocol, Connection)]
        assert named[0] == named[1]
    made = inspect.getsource(HttpToolsProtocol)
    for name in ("parser", "transport", "flow", "cycle", "pipeline", "scope", "headers", "url", "client"):
        assert f"self.{name}" in made
    assert "on_response=self.on_response_complete" in made
    cycle = inspect.getsource(RequestResponseCycle)
    for name in ("disconnected", "message_event", "response_started", "response_complete"):
        assert f"self.{name}" in cycle
