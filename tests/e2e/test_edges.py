"""Strangers with raw sockets: each bound below, at and far above it, while another's stream goes on unharmed."""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from tests import polling
from tests.e2e.conftest import StartServer
from tests.e2e.follower import Follower, ends
from tests.e2e.problems import refused
from tests.e2e.raw import deaf_reader, first_answer, get, held, post
from tests.e2e.server import KEY, Server
from tests.e2e.test_kill import ASK, WHOLE, opened
from tests.polling import PATIENCE

FEW, MANY = 50, 1_000
SPARE = 40
MEGABYTE = 1_000_000
MESSAGES, RUNS = "/v1/sessions/x/messages", "/v1/agents/x/runs"
MESSAGE_BYTES, OTHER_BYTES = 409_600, 64_000
PROBES = 15
MAX_TIMES, MAX_SECONDS = 100, PATIENCE / 2
"""The longest that a bystander waits while others misbehave, as often as alone, and in any case: not much more than a
busy machine does by itself. The bench has the bound of 100 ms for one hostile client, where nothing else runs."""


@pytest.fixture(scope="module")
def hostile(request: pytest.FixtureRequest) -> int:
    """How many hostile connections there are at once."""
    return MANY if request.config.getoption("--whole") else FEW


@pytest.fixture(scope="module")
def server(start_shared: StartServer, hostile: int) -> Server:
    """A server with room for the hostile connections and a few more, whose model takes two seconds for an answer."""
    return start_shared(rate=200, PARLEY_MAX_CONNECTIONS=str(hostile + SPARE))


class Bystander:
    """Someone who asks small things, and follows an answer, while others misbehave."""

    def __init__(self, client: httpx.AsyncClient, probe: httpx.AsyncClient, session: str, follower: Follower) -> None:
        self.client, self.session, self.follower, self._probe = client, session, follower, probe

    async def latency(self) -> float:
        """Return the median seconds of small requests, one after the other."""
        return statistics.median([await self.ask() for _ in range(PROBES)])

    async def ask(self) -> float:
        """Return the seconds of a small request."""
        began = time.perf_counter()
        assert (await self._probe.get(self.session)).status_code == 200
        return time.perf_counter() - began

    async def watch(self, took: list[float]) -> None:
        """Ask without a pause, and note in *took* how long each request has taken, the unfinished one too."""
        while True:
            began = time.perf_counter()
            took.append(0.0)
            try:
                await self.ask()
            finally:
                took[-1] = time.perf_counter() - began


@asynccontextmanager
async def bystander(server: Server, what: str) -> AsyncIterator[Bystander]:
    """Give someone who is answered while the block runs; print how long small things took, alone and in it.

    What counts is the longest that one took meanwhile. At the end the answer must be whole, on one connection.
    """
    async with server.client() as client, server.client() as probe:
        session = await opened(client)
        here = Bystander(client, probe, session, Follower(server, f"{session}/events", ends))
        alone = await here.latency()
        await client.post(f"{session}/messages", json={"text": ASK})
        await here.follower.until(lambda frames: bool(frames.of("step.started")))
        took: list[float] = []
        watching = asyncio.create_task(here.watch(took))
        try:
            yield here
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        frames = await here.follower.end()
        assert [answer.text for answer in frames.answers] == [WHOLE]
        assert here.follower.connections == 1
        among = f"{max(took) * 1000:.1f} ms at most, {statistics.median(took) * 1000:.1f} ms as a rule"
        print(f"{what}: a bystander waits {among}, {alone * 1000:.1f} ms alone; {len(took)} requests")
        assert max(took) < max(MAX_SECONDS, MAX_TIMES * alone), what


def nested(levels: int) -> bytes:
    return b'{"text": "x", "controls": ' + b"[" * levels + b"]" * levels + b"}"


def valued(values: int) -> bytes:
    """Return the body of a run with so many *values*: messages of an object and two texts each."""
    return json.dumps({"messages": [{"role": "user", "text": "x"}] * (values // 3)}).encode()


def sized(size: int) -> bytes:
    return b'{"text": "' + b"x" * (size - 12) + b'"}'


def titled(size: int) -> bytes:
    return b'{"title": "' + b"x" * (size - 13) + b'"}'


# A request to a session or an agent that is not there, and how it is answered: 404 where the body passes every bound.
BODIES: dict[str, tuple[bytes, int]] = {
    "100 levels": (post(MESSAGES, nested(99), key=KEY), 404),
    "101 levels": (post(MESSAGES, nested(100), key=KEY), 422),
    "11,000 nested lists": (post(MESSAGES, nested(11_000), key=KEY), 422),
    "11,000 nested lists without a key": (post(MESSAGES, nested(11_000)), 401),
    "11,000 nested lists for no route": (post("/nothing", nested(11_000)), 404),
    "11,000 nested lists for another method": (post("/healthz", nested(11_000)), 405),
    "200,000 nested lists": (post(MESSAGES, b"[" * 200_000, key=KEY), 422),
    "19,000 values": (post(RUNS, valued(19_000), key=KEY), 404),
    "30,000 values": (post(RUNS, valued(30_000), key=KEY), 422),
    "a whole message": (post(MESSAGES, sized(100_012), key=KEY), 404),
    "the most bytes of a message, as an unknown field": (post(MESSAGES, titled(MESSAGE_BYTES), key=KEY), 422),
    "a byte more than a message": (post(MESSAGES, sized(MESSAGE_BYTES + 1), key=KEY), 413),
    "a message of 5 MB": (post(MESSAGES, sized(5 * MEGABYTE), key=KEY), 413),
    "a body of 5 MB without a key": (post(MESSAGES, sized(5 * MEGABYTE)), 401),
    "an announced terabyte": (post(MESSAGES, b"{", key=KEY, length=10**12), 413),
    "the most bytes of another body": (post("/v1/sessions", b" " * OTHER_BYTES, key=KEY), 400),
    "a byte more than that": (post("/v1/sessions", b" " * (OTHER_BYTES + 1), key=KEY), 413),
    "unknown fields": (post(MESSAGES, json.dumps(dict.fromkeys(map(str, range(19_000)), 1)).encode(), key=KEY), 422),
    "NUL in 19,000 values": (post(RUNS, valued(19_000).replace(b'"x"', b'"\\u0000"'), key=KEY), 422),
}
HEADS: dict[str, tuple[bytes, int]] = {
    "a head of 30 kB": (get("/healthz", b"X: " + b"a" * 30_000), 200),
    "a head of 33 kB": (get("/healthz", b"X: " + b"a" * 33_000), 431),
    "a head of 5 MB": (get("/healthz", b"X: " + b"a" * 5 * MEGABYTE), 431),
    "a path of 1 MB": (get("/" + "a" * MEGABYTE), 431),
    "128 fields": (get("/healthz", *[b"X: y"] * 126), 200),
    "50,000 fields": (get("/healthz", *[b"X: y"] * 50_000), 431),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "two lengths": (post(MESSAGES, b"{}", b"Content-Length: 3"), 400),
}


@pytest.mark.whole
@pytest.mark.parametrize("edge", [BODIES, HEADS], ids=["bodies", "heads"])
async def test_what_is_too_much_is_refused_while_others_go_on(server: Server, edge: dict[str, tuple[bytes, int]]):
    """Each bound is exact, each refusal a short problem, and a stream that goes on meanwhile loses nothing."""
    async with bystander(server, "hostile requests"):
        for what, (request, status) in edge.items():
            answer = await first_answer(server, request)
            assert answer.status_code == status, (what, answer.text)
            if status != 200:
                assert answer.headers["content-type"] == "application/problem+json", what
                assert len(answer.content) <= 8_000, what


@pytest.mark.whole
async def test_many_hostile_requests_at_once(server: Server, hostile: int):
    """As many connections with bodies at each bound, all at once, delay no one for long and cost bounded memory."""
    before = server.memory
    worst = [each for each, status in BODIES.values() if status in {422, 413, 401} and len(each) < 500_000]
    async with bystander(server, f"{hostile} hostile requests"):
        answers = await asyncio.gather(*(first_answer(server, worst[n % len(worst)]) for n in range(hostile)))
        assert {answer.status_code for answer in answers} == {401, 413, 422}
    print(f"memory: {before / MEGABYTE:.0f} MB before, {server.memory / MEGABYTE:.0f} MB after")
    # The bodies that may be held at once, and what the allocator keeps of them.
    assert server.memory - before < 200 * MEGABYTE


BEGUN: dict[str, bytes] = {
    "silent": b"",
    "heads": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
    "bodies": post(MESSAGES, sized(60_000), key=KEY, length=MESSAGE_BYTES),
    "unsigned": b"POST /slack/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n" + b"x" * 60_000,
}


@pytest.mark.whole
@pytest.mark.parametrize("kind", BEGUN)
async def test_many_connections_that_wait(server: Server, hostile: int, kind: str):
    """Connections that send half a request and wait delay no one, and cost bounded memory while they wait."""
    before = server.memory
    async with bystander(server, f"{hostile} connections with {kind}"):
        writers = await held(server, BEGUN[kind], hostile)
        async with server.client() as client:
            assert (await client.get("/healthz")).status_code == 200
        grown = server.memory - before
        print(f"memory: {before / MEGABYTE:.0f} MB before, {grown / MEGABYTE:.0f} MB more")
        assert grown < 200 * MEGABYTE
        for writer in writers:
            writer.transport.abort()


async def test_one_connection_more_than_there_may_be(server: Server, hostile: int):
    """Beyond the most connections one more gets 503 with when to come back, until some have left."""
    async with bystander(server, "all connections taken") as here:
        writers = await held(server, b"", hostile + SPARE)
        try:
            for _ in range(20):
                late = await first_answer(server, get("/widget/parley.js"))
                refused(late, 503, "unavailable")
                assert late.headers["retry-after"] == "10"
        finally:
            for writer in writers:
                writer.transport.abort()
        await until(lambda: first_answer(server, get("/nothing")), lambda answer: answer.status_code == 404)
        counted = (await here.client.get("/metrics")).text
    assert 'parley_connections_refused_total{reason="full"}' in counted


@pytest.mark.whole
async def test_clients_that_do_not_read_their_answers(server: Server, hostile: int):
    """Streams that are opened and never read hold up no one."""
    async with bystander(server, "deaf readers") as here:
        deaf = [deaf_reader(server, f"{here.session}/events", KEY) for _ in range(min(hostile, 100))]
        assert (await here.client.get("/readyz")).status_code == 200
        for each in deaf:
            each.close()


@pytest.mark.whole
async def test_slow_heads_end_with_a_reason(server: Server):
    """A head that is not complete in time is answered 408 as a problem, and the log says so once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(BEGUN["heads"])
    async with asyncio.timeout(PATIENCE):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in answer
    await polling.until(lambda: "head_time" in server.output)


async def until(
    ask: Callable[[], Awaitable[httpx.Response]], holds: Callable[[httpx.Response], bool]
) -> httpx.Response:
    """Return the first answer that is as wanted."""
    for _ in range(2_000):
        if holds(answer := await ask()):
            return answer
    raise AssertionError(f"the answer stays {answer.status_code}")
