"""What an answer may cost the guarded fetch: time, bytes on the wire, and bytes once it is unpacked."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import binary, sampled_from

from agent_core.net.fetch import Bounds, Fetch, FetchFailed, FetchRefused, FetchTimedOut, FetchTooLarge
from agent_core.testing import FakeClock
from tests.agent_core.net.stage import PUBLIC, Names, Roads, Site, Write, last, moved, ok, serving
from tests.cases import for_each

zipped = partial(gzip.compress, mtime=0)  # the same bytes in every process that collects this
SMALL = Bounds(size=1000)
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
GZIP = "Content-Encoding: gzip"
EMPTY_BLOCKS = b"\0\0\0\xff\xff" * 10_000
"""Deflate that nothing comes out of."""


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site on loopback."""
    async with serving() as found:
        yield found


@pytest.fixture
async def fetch() -> AsyncIterator[Fetch]:
    """A fetch that knows it."""
    found = Fetch(resolve=Names(site_example=[[PUBLIC]]), dial=Roads())
    yield found
    await found.close()


def endless(head: bytes, piece: bytes) -> Write:
    """Answer with *piece* for ever."""

    async def write(reader, writer):
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()

    return write


@for_each("size", [0, 1, 1000])
async def test_an_answer_of_just_the_size(fetch, site, size):
    """As many bytes as are allowed are taken, packed or not."""
    site.answers |= {"/plain": ok(b"x" * size), "/packed": ok(zipped(b"x" * size), GZIP)}
    assert len((await fetch(site.url("/plain"), bounds=Bounds(size=size))).body) == size
    bounds = Bounds(size=max(size, len(zipped(b"x" * size))))
    assert len((await fetch(site.url("/packed"), bounds=bounds)).body) == size


@for_each(
    "answer",
    [
        ok(b"x" * 1001),
        CHUNKED + b"\r\n" + b"a\r\n0123456789\r\n" * 101 + b"0\r\n\r\n",
        endless(HEAD + b"\r\n", b"x" * 500),
        endless(CHUNKED + b"\r\n", b"1\r\nx\r\n" * 100),
        endless(HEAD + b"Content-Length: 99999999999999\r\n\r\n", b"x" * 500),
        ok(zipped(b"x" * 1001), GZIP),
        ok(zipped(b"x" * 600) * 2, GZIP),
        ok(zipped(b"") * 100, GZIP),
        endless(CHUNKED + GZIP.encode() + b"\r\n\r\n", b"14\r\n" + zipped(b"") + b"\r\n"),
    ],
)
async def test_an_answer_that_is_too_large(fetch, site, answer):
    """More bytes than are allowed are an error as soon as they come, however they come."""
    site.answers["/"] = answer
    with pytest.raises(FetchTooLarge, match=rf"`site\.example:{site.port}` answered with more than 1000 bytes"):
        await fetch(site.url(), bounds=SMALL)
    await site.left.wait()


@for_each("status", ["200 OK", "302 Found"])
async def test_a_large_head(fetch, site, status):
    """A head of more than 64 KiB is too large, also where the connection would have taken it, or a redirect has it."""
    site.answers["/"] = ok(b"", *["X: aaaaaaaa"] * 8_000, "Location: /", status=status)
    with pytest.raises(FetchTooLarge, match="with a head of more than 65536 bytes"):
        await fetch(site.url())
    site.answers["/"] = ok(b"", *["X: aaaaaaaa"] * 7_000)
    assert len((await fetch(site.url())).headers["x"]) == 10 * 7_000 - 2


async def test_a_bomb(fetch, site):
    """Fifty megabytes in fifty kilobytes are not unpacked: what is kept in memory is what is allowed."""
    pack = zlib.compressobj(9, wbits=31)
    bomb = b"".join([*(pack.compress(bytes(2**20)) for _ in range(50)), pack.flush()])
    assert len(bomb) < 2**16
    site.answers["/"] = ok(bomb, GZIP)
    await fetch.prepare()
    tracemalloc.start()
    with pytest.raises(FetchTooLarge):
        await fetch(site.url(), bounds=Bounds(size=2**20))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * 2**20


async def test_a_bomb_that_nothing_comes_out_of(fetch, site):
    """What unpacks to nothing is counted as it comes."""
    head = CHUNKED + GZIP.encode() + b"\r\n\r\n"
    opening = zipped(b"")[:10]
    piece = b"%x\r\n%s\r\n" % (len(EMPTY_BLOCKS), EMPTY_BLOCKS)
    site.answers["/"] = endless(head + b"a\r\n" + opening + b"\r\n", piece)
    with pytest.raises(FetchTooLarge):
        await fetch(site.url(), bounds=Bounds(size=1_000_000))


@for_each(
    "encoding",
    [
        "br", "zstd", "deflate", "compress", "x-gzip", "gzip, gzip", "gzip,deflate", "br, gzip", "identity, gzip",
        "gzip\r\nContent-Encoding: gzip", "gzip;q=1", "GZIP, BR", "*", "exi", ",".join(["gzip"] * 50),
    ],
)  # fmt: skip
async def test_encodings_that_were_not_asked_for(fetch, site, encoding):
    """Only gzip is asked for; another encoding, and one in another, is not unpacked."""
    site.answers["/"] = ok(zipped(zipped(b"hi")), f"Content-Encoding: {encoding}")
    with pytest.raises(FetchFailed, match="in an encoding that it was not asked for"):
        await fetch(site.url())
    assert site.requests[0].headers["accept-encoding"] == "gzip"


@for_each("encoding", ["gzip", "GZip", "identity", ""])
async def test_encodings_that_are_taken(fetch, site, encoding):
    """Gzip, of one or more members, and none."""
    packed = zipped(b"hi ") + zipped(b"you") if encoding.lower() == "gzip" else b"hi you"
    site.answers["/"] = ok(packed, f"Content-Encoding: {encoding}")
    assert (await fetch(site.url())).body == b"hi you"


@pytest.mark.parametrize("body", [b"no gzip", zipped(b"hi" * 99)[:-9], zipped(b"hi") + b"more", b"\x1f\x8b"])
async def test_what_says_that_it_is_gzip(fetch, site, body):
    """An answer that is no gzip, or gzip that was cut, is an error and not half an answer."""
    site.answers["/"] = ok(body, GZIP)
    with pytest.raises(FetchFailed, match="says that its answer is gzip, and it is not"):
        await fetch(site.url())


@for_each(
    "answer",
    [
        b"", b"\r\n\r\n", b"SSH-2.0-OpenSSH_9.9\r\n", b"220 mail ESMTP\r\n", b"HTTP/1.1\r\n\r\n", HEAD,
        b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 99 OK\r\n\r\n", b"HTTP/1.1 1000 OK\r\n\r\n",
        HEAD + b"no header\r\n\r\n", HEAD + b"X\0: a\r\n\r\n", HEAD + b": a\r\n\r\n", HEAD + b"X: a\0b\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\nx", HEAD + b"Content-Length: x\r\n\r\nx",
        HEAD + b"Content-Length: 9\r\n\r\nx",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", HEAD + b"Content-Length : 1\r\n\r\nx",
        CHUNKED + b"\r\nzz\r\n", CHUNKED + b"\r\n5\r\nab", CHUNKED + b"\r\n" + b"f" * 30 + b"\r\n",
        CHUNKED + b"\r\n-5\r\nabcde\r\n", CHUNKED + b"\r\n5\r\nabcdeXX0\r\n\r\n",
        CHUNKED + b"\r\n0\r\n" + b"X: a\r\n" * 20_000, CHUNKED + b"\r\n1;" + b"x" * 2**18 + b"\r\na\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", HEAD + b"X: " + b"a" * 2**20 + b"\r\n\r\n",
        HEAD + b"X: a\r\n" * 200_000 + b"\r\n", b"HTTP/1.1 " + b"2" * 2**20,
        b"HTTP/1.1 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)  # fmt: skip
async def test_what_is_no_answer(fetch, site, answer):
    """What is no HTTP, has a head without end or ends too early is an error that says nothing of what it was."""
    site.answers["/"] = last(answer)
    with pytest.raises(FetchFailed) as failed:
        await fetch(site.url("/"))
    assert str(failed.value).startswith((f"`site.example:{site.port}` answered", "The connection to `site.example"))


@given(
    binary(max_size=60),
    sampled_from([b"", HEAD, HEAD + b"Content-Length: 3\r\n", CHUNKED, CHUNKED + b"\r\n", HEAD + b"\r\n"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
async def test_any_bytes(fetch, site, body, head):
    """Whatever bytes come, there is an answer or an error of the fetch, and nothing else."""
    site.answers["/"] = last(head + body)
    try:
        found = await fetch(site.url())
    except FetchFailed:
        return
    assert len(found.body) <= len(body)


async def slept(clock: FakeClock, site: Site, bounds: Bounds, *, body: bytes = b"") -> "asyncio.Task[object]":
    """Ask, and return when the site has been asked and time is what is waited for."""
    fetch = Fetch(resolve=Names(site_example=[[PUBLIC]]), dial=Roads(), clock=clock)
    method = "POST" if body else "GET"
    asking = asyncio.create_task(fetch(site.url(), method=method, body=body, bounds=bounds))
    await clock.slept(2)
    return asking


def sending(asked: asyncio.Event, *pieces: bytes) -> Write:
    """Send *pieces* and then nothing, and keep the connection open."""

    async def write(reader, writer):
        for piece in pieces:
            writer.write(piece)
        await writer.drain()
        asked.set()
        await reader.read()

    return write


async def test_a_site_that_says_nothing(site):
    """Without a head in its time there is an error, and the connection is closed."""
    clock, asked = FakeClock(), asyncio.Event()
    site.answers["/"] = sending(asked)
    asking = await slept(clock, site, Bounds(seconds=30, first_byte=5))
    await asked.wait()
    clock.advance(5)
    with pytest.raises(FetchTimedOut, match=rf"`site\.example:{site.port}` did not answer within 5 s"):
        await asking
    await site.left.wait()


@pytest.mark.parametrize("said", [(HEAD,), (b"H",), (b"HTTP/1.1 100 Continue\r\n\r\n",) * 99, (HEAD, b"X: a\r\n" * 99)])
async def test_a_head_without_end(site, said):
    """Half a head, and any number of heads before it, are no head."""
    clock, asked = FakeClock(), asyncio.Event()
    site.answers["/"] = sending(asked, *said)
    asking = await slept(clock, site, Bounds(seconds=30, first_byte=5))
    await asked.wait()
    clock.advance(5)
    with pytest.raises(FetchTimedOut):
        await asking
    await site.left.wait()


async def test_an_answer_that_never_ends(site):
    """An answer that comes byte by byte is an error when its whole time is over."""
    clock, asked = FakeClock(), asyncio.Event()
    site.answers["/"] = sending(asked, HEAD + b"Content-Length: 9\r\n\r\n", b"x")
    asking = await slept(clock, site, Bounds(seconds=30, first_byte=40))
    await asked.wait()
    clock.advance(30)
    with pytest.raises(FetchTimedOut, match="did not answer in full within 30 s"):
        await asking
    await site.left.wait()


async def test_redirects_share_one_time(site):
    """All redirects together have the time of one fetch."""
    clock, asked = FakeClock(), asyncio.Event()
    site.answers |= {"/": moved("/then"), "/then": sending(asked)}
    asking = await slept(clock, site, Bounds(seconds=30, first_byte=40))
    await asked.wait()
    clock.advance(30)
    with pytest.raises(FetchTimedOut):
        await asking


async def test_a_site_that_does_not_listen(site):
    """A body that is not read times out."""
    clock, asked, over = FakeClock(), asyncio.Event(), asyncio.Event()

    async def deaf(reader, writer):
        asked.set()
        await over.wait()

    site.raw = deaf
    asking = await slept(clock, site, Bounds(seconds=30, first_byte=5), body=b"x" * 20_000_000)
    await asked.wait()
    clock.advance(5)
    with pytest.raises(FetchTimedOut):
        await asking
    over.set()


async def test_a_fetch_continues_after_errors(fetch, site):
    """Errors use up no connections: there are as many left as before."""
    site.answers |= {
        "/cut": last(HEAD + b"Content-Length: 9\r\n\r\nx"),
        "/large": ok(b"x" * 1001),
        "/away": moved("http://0/"),
    }
    for path, error in [("/cut", FetchFailed), ("/large", FetchTooLarge), ("/away", FetchRefused)] * 60:
        with pytest.raises(error):
            await fetch(site.url(path), bounds=SMALL)
    assert (await fetch(site.url())).status == 200
