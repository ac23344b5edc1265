"""The byte pipe over real sockets, with both vendors' SDKs: failures, silence, cuts, and connections used again."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web
from anthropic import AsyncAnthropic
from anthropic import DefaultAioHttpClient as AnthropicHttp
from openai import AsyncOpenAI
from openai import DefaultAioHttpClient as OpenAIHttp

from agent_core.clock import SystemClock
from agent_core.providers.base import CallFailed, Finished, ModelDelta, ModelTextDelta
from agent_core.providers.client import Sdk, SdkClient
from agent_core.providers.failing import failed
from tests.cases import for_each
from tests.polling import PATIENCE

KEY = "Zebra.7731/quagga+okapi"
WHOLE = b"data: one\n\ndata: two\n\ndata: end\n\n"
SAID: list[ModelDelta] = [ModelTextDelta(0, "one"), ModelTextDelta(0, "two"), Finished("done")]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Words:
    """A wire of words: each event is one, and `end` is the last."""

    def __init__(self) -> None:
        self.over = False

    def take(self, events: Sequence[bytes]) -> list[ModelDelta]:
        self.over = self.over or b"end" in events
        return [Finished("done") if event == b"end" else ModelTextDelta(0, event.decode()) for event in events]

    def end(self) -> list[ModelDelta]:
        return [] if self.over else [failed("network", "cut")]


class SdkLine:
    """A client of one SDK, and the server it talks to; *bodies* are what was posted, *peers* from which ports."""

    def __init__(self, client: SdkClient) -> None:
        self.client = client
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.peers: list[int] = []

    async def ask(self) -> list[ModelDelta]:
        async with asyncio.timeout(PATIENCE):
            return [delta async for batch in self.client.stream("/words", b'{"a": 1}', Words()) for delta in batch]

    async def failure(self) -> CallFailed:
        [*_, last] = await self.ask()
        assert isinstance(last, CallFailed)
        assert KEY not in last.message
        return last


Dial = Callable[..., Awaitable[SdkLine]]


def made(sdk: str, url: str) -> Callable[[], Sdk]:
    client, http_of = (AsyncAnthropic, AnthropicHttp) if sdk == "anthropic" else (AsyncOpenAI, OpenAIHttp)

    def make() -> Sdk:
        http = http_of()
        return Sdk(client(api_key=KEY, base_url=url, max_retries=0, http_client=http), http)

    return make


@pytest.fixture(params=["anthropic", "openai"])
async def dial(request: pytest.FixtureRequest) -> AsyncIterator[Dial]:
    """Start a server that answers so, and return a line to it through each SDK in turn."""
    async with AsyncExitStack() as stack:

        async def start(answer: Answer, *, idle: float = 20.0) -> SdkLine:
            async def answered(asked: web.Request) -> web.StreamResponse:
                assert asked.transport is not None
                line.bodies.append(await asked.read())
                line.headers.append(dict(asked.headers))
                line.peers.append(asked.transport.get_extra_info("peername")[1])
                return await answer(asked)

            app = web.Application()
            app.router.add_post("/words", answered)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            line = SdkLine(SdkClient("acme", made(request.param, url), idle=idle))
            stack.push_async_callback(line.client.close)
            return line

        yield start


def stream(*pieces: bytes, headers: dict[str, str] | None = None) -> Answer:
    """Answer with *pieces*, each in a chunk of its own."""

    async def answer(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **(headers or {})})
        await response.prepare(asked)
        for piece in pieces:
            await response.write(piece)
        return response

    return answer


def refusal(status: int, body: object, headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


async def test_the_body_goes_out_as_it_is(dial):
    """What was made ready is posted byte for byte, asked for as a plain stream of events."""
    line = await dial(stream(WHOLE))
    assert await line.ask() == SAID
    assert line.bodies == [b'{"a": 1}']
    assert line.headers[0]["Accept"] == "text/event-stream"
    assert line.headers[0]["Accept-Encoding"] == "identity"


SHAPES = {
    "anthropic": ({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow."}}, "rate_limit_error"),
    "openai": ({"error": {"message": "Slow.", "type": "requests", "code": "rate_limit_exceeded"}}, "requests"),
    "flat": ({"object": "error", "message": "Slow.", "type": "TooMany", "code": 429}, "TooMany"),
    "plain": ({"error": "Slow."}, "429"),
}
DATE = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
WAITS = {"ms": {"retry-after-ms": "1500", "retry-after": "9"}, "seconds": {"retry-after": "300"}, "none": {}}


@pytest.mark.whole
@for_each("shape", SHAPES)
@for_each("wait, seconds", [("ms", 1.5), ("seconds", 300.0), ("none", None)])
async def test_a_refusal_is_read_in_every_shape(dial, shape, wait, seconds):
    """An error before the first byte is reported with its message and the wait it asks for; no request is repeated."""
    body, word = SHAPES[shape]
    line = await dial(refusal(429, body, WAITS[wait]))
    found = await line.failure()
    assert (found.kind, found.retry_after) == ("rate_limited", seconds)
    assert "Slow." in found.message and word in found.message  # noqa: PT018 - one sentence has both
    assert len(line.bodies) == 1


async def test_a_wait_until_a_date_is_read(dial):
    """A wait given as a date is converted to seconds."""
    found = await (await dial(refusal(503, {}, {"retry-after": DATE}))).failure()
    assert found.kind == "overloaded"
    assert found.retry_after is not None
    assert 0 < found.retry_after <= 3600  # it was made when the tests were collected


async def test_an_echoed_key_is_redacted(dial):
    """The key is in no text of a failure, neither before the stream nor within it."""
    line = await dial(refusal(401, {"error": {"message": f"Unknown key {KEY}."}}))
    assert (await line.failure()).kind == "auth"
    assert "Unknown key [secret]" in (await line.failure()).message


async def test_a_web_page_means_a_wrong_base_url(dial):
    """A web page with status 200 is no broken connection: it is reported as a misconfiguration, first and later."""
    page = stream(b"<!doctype html><title>Sign in</title>", headers={"content-type": "text/html; charset=utf-8"})
    line = await dial(page)
    for _ in range(2):
        found = await line.failure()
        assert (found.kind, found.retryable) == ("misconfigured", False)
        assert "web page" in found.message


async def test_silence_is_a_failure(dial):
    """A server that says nothing for longer than is allowed has broken off, and what it said is kept."""
    gone = asyncio.Event()

    async def silent(asked: web.Request) -> web.StreamResponse:
        response = await stream(b"data: one\n\n")(asked)
        await gone.wait()
        return response

    line = await dial(silent, idle=0.2)
    said = await line.ask()
    gone.set()
    assert said[0] == ModelTextDelta(0, "one")
    assert isinstance(said[1], CallFailed)
    assert (said[1].kind, "silent for 0.2 s" in said[1].message) == ("network", True)


async def test_silence_before_the_answer_is_a_failure(dial):
    """A server that takes the request and does not answer it has broken off as well."""
    gone = asyncio.Event()

    async def silent(_: web.Request) -> web.StreamResponse:
        await gone.wait()
        return web.Response()

    found = await (await dial(silent, idle=0.2)).failure()
    gone.set()
    assert (found.kind, "silent for 0.2 s" in found.message) == ("network", True)


async def test_pings_are_no_silence(dial):
    """A server that shows that it is there may take longer than the longest silence."""

    async def slow(asked: web.Request) -> web.StreamResponse:
        response = await stream(b"data: one\n\n")(asked)
        for _ in range(12):
            await SystemClock().sleep(0.1)  # real time: how long it takes is what is tested
            await response.write(b": ping\n\n")
        await response.write(b"data: end\n\n")
        return response

    assert await (await dial(slow, idle=0.9)).ask() == [ModelTextDelta(0, "one"), Finished("done")]


@for_each("sdk", ["anthropic", "openai"])
async def test_a_refused_connection_is_reported_as_such(sdk):
    """A server that refuses connections is not reported as a silent one."""
    client = SdkClient("acme", made(sdk, "http://127.0.0.1:1"), idle=20)
    found = await SdkLine(client).failure()
    await client.close()
    assert (found.kind, found.retryable) == ("network", True)
    assert "ConnectionRefused" in found.message
    assert "silent" not in found.message


async def test_a_closed_connection_is_reported_as_such(dial):
    """A connection that is closed without an answer is no silence either."""

    async def hang_up(asked: web.Request) -> web.StreamResponse:
        assert asked.transport is not None
        asked.transport.abort()
        return web.Response()

    found = await (await dial(hang_up)).failure()
    assert found.kind == "network"
    assert "broke" in found.message


async def test_a_body_that_is_cut_is_a_failure(dial):
    """A connection that breaks in the middle of a chunk fails the call; what came before is kept."""

    async def cut(asked: web.Request) -> web.StreamResponse:
        assert asked.transport is not None
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        asked.transport.write(head + b"b\r\ndata: one\n\n\r\nff\r\ndata: tw")
        asked.transport.close()
        return web.Response()

    said = await (await dial(cut)).ask()
    assert said[0] == ModelTextDelta(0, "one")
    assert isinstance(said[-1], CallFailed)
    assert said[-1].kind == "network"
    assert len(said) == 2


async def test_a_stream_that_just_ends_is_asked_for_its_end(dial):
    """Whether an answer is whole without its last event is for its wire to say."""
    assert [type(delta) for delta in await (await dial(stream(b"data: one\n\n"))).ask()] == [ModelTextDelta, CallFailed]
    assert await (await dial(stream(WHOLE.rstrip()))).ask() == SAID


async def test_a_compressed_stream_is_read(dial):
    """A proxy that compresses although it was not asked to is understood."""
    packed = gzip.compress(WHOLE)
    pieces = [packed[n : n + 5] for n in range(0, len(packed), 5)]
    line = await dial(stream(*pieces, headers={"content-encoding": "gzip"}))
    assert await line.ask() == SAID
    assert await line.ask() == SAID


async def test_letting_go_ends_the_servers_stream(dial):
    """A run that is stopped ends its model call at the server, at once."""
    ended = asyncio.Event()

    async def endless(asked: web.Request) -> web.StreamResponse:
        response = await stream()(asked)
        try:
            while True:
                await response.write(b"data: one\n\n")
                await asyncio.sleep(0)
        finally:
            ended.set()

    line = await dial(endless)
    async with asyncio.timeout(PATIENCE):
        async with aclosing(line.client.stream("/words", b"{}", Words())) as answer:
            await anext(answer)
        await ended.wait()


async def test_a_whole_answer_leaves_its_connection_for_the_next(dial):
    """Connections are used again after whole answers, also when the end of the body comes after the last event."""
    said = asyncio.Event()

    async def late(asked: web.Request) -> web.StreamResponse:
        response = await stream(WHOLE)(asked)
        await said.wait()
        said.clear()
        return response

    line = await dial(late)
    for _ in range(3):
        assert await line.ask() == SAID
        said.set()
        await asyncio.gather(*line.client._leaving)
    assert len(set(line.peers)) == 1


async def test_a_connection_with_more_to_come_is_not_used_again(dial, monkeypatch):
    """A server that does not end its body after the last event loses the connection, and the next answer is clean."""
    monkeypatch.setattr("agent_core.providers.client._LAST_SECONDS", 0.05)
    gone = asyncio.Event()

    async def lingering(asked: web.Request) -> web.StreamResponse:
        response = await stream(WHOLE)(asked)
        await gone.wait()
        return response

    line = await dial(lingering)
    for _ in range(2):
        assert await line.ask() == SAID
        await asyncio.gather(*line.client._leaving)
    gone.set()
    assert len(set(line.peers)) == 2


async def test_an_answer_of_one_json_object_reaches_the_wire(dial):
    """A server that answers with JSON in place of a stream is read, its errors too."""
    seen: list[bytes] = []

    class Whole(Words):
        def take(self, events: Sequence[bytes]) -> list[ModelDelta]:
            seen.extend(events)
            return []

    line = await dial(refusal(200, {"error": {"message": "No."}}))
    async for _ in line.client.stream("/words", b"{}", Whole()):
        continue
    assert json.loads(seen[0]) == {"error": {"message": "No."}}


async def test_a_client_is_made_once_and_asked_side_by_side(dial):
    """Calls that come at once share one client, and none waits for another's answer."""
    line = await dial(stream(WHOLE))
    assert await asyncio.gather(*(line.ask() for _ in range(20))) == [SAID] * 20
    assert await line.client.prepare() is await line.client.prepare()


async def test_a_forwarded_request_has_its_length(dial: Dial):
    """A server that sends each request on gets the same from us each time: a body with its length, not in chunks."""

    async def answer(asked: web.Request) -> web.StreamResponse:
        if asked.query_string:
            return await stream(WHOLE)(asked)
        raise web.HTTPTemporaryRedirect("/words?here")

    line = await dial(answer)
    assert [await line.ask() for _ in range(3)] == [SAID] * 3
    assert line.bodies == [b'{"a": 1}'] * 6
    first, *others = [{name.lower(): value for name, value in each.items()} for each in line.headers]
    assert [
        each for each in (first, *others) if not (each["content-length"] == "8" and "transfer-encoding" not in each)
    ] == []
    assert [each for each in others if each != first] == []


@for_each("asked_before", [0, 1])
async def test_a_redirect_to_another_host_is_not_followed(dial: Dial, asked_before: int):
    """What a request carries (headers, query, conversation) is for the server of the base URL; the remedy is named."""

    async def answer(asked: web.Request) -> web.StreamResponse:
        if len(line.bodies) <= asked_before:
            return await stream(WHOLE)(asked)
        raise web.HTTPTemporaryRedirect(f"http://localhost:{asked.url.port}/words?token={KEY}")

    line = await dial(answer)
    for _ in range(asked_before):
        assert await line.ask() == SAID
    failure = await line.failure()
    assert (failure.kind, len(line.bodies)) == ("misconfigured", asked_before + 1)
    assert "redirects to another host; set its base_url to it: http://localhost" in failure.message


async def test_no_url_is_logged(dial: Dial, caplog: pytest.LogCaptureFixture):
    """A query may hold a key; HTTP clients log URLs at INFO, unless their level was set."""
    caplog.set_level(logging.INFO)
    logging.getLogger("httpx2").setLevel(logging.NOTSET)
    line = await dial(stream(WHOLE))
    assert await line.ask() == SAID
    said = [record.getMessage() for record in caplog.records if record.name != "aiohttp.access"]
    assert not [each for each in said if "/words" in each]
