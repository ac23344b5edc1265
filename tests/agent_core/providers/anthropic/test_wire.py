"""Claude over a real socket: what the SDK sends for us, and what comes of a server's answers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import MappingProxyType

from aiohttp import web

from agent_core.agent.window import WindowEntry
from agent_core.agents import Controls, Snapshot
from agent_core.messages import Message, Text
from agent_core.providers.anthropic import AnthropicProvider, anthropic
from agent_core.providers.base import CallFailed, Finished, ModelDelta, ModelTextDelta, Request, Started
from tests.agent_core.providers.anthropic.test_provider import begin, rich, sse, start, stop, text, words
from tests.cases import for_each
from tests.polling import PATIENCE

MODEL = "claude-opus-5"


class RawServer:
    """Answers every request with *status* and *body*, in pieces of *size*, and waits before its end if it must."""

    def __init__(
        self, body: bytes, *, status: int = 200, size: int = 0, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.body, self.status, self.size = body, status, size or max(1, len(body))
        self.headers = headers
        self.asked: list[web.Request] = []
        self.bodies: list[dict] = []
        self.hold = False
        self.left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.json())
        kind = "text/event-stream" if self.status == 200 else "application/json"
        response = web.StreamResponse(status=self.status, headers={"content-type": kind, **self.headers})
        await response.prepare(request)
        try:
            for at in range(0, len(self.body), self.size):
                await response.write(self.body[at : at + self.size])
            if self.hold:
                await asyncio.Event().wait()
        finally:
            self.left.set()
        return response


@asynccontextmanager
async def serving(server: RawServer) -> AsyncIterator[AnthropicProvider]:
    app = web.Application()
    app.router.add_post("/v1/messages", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    provider = anthropic(api_key="the-key", base_url=f"http://127.0.0.1:{runner.addresses[0][1]}", idle=20.0)
    try:
        await provider.prepare()
        yield provider
    finally:
        await provider.close()
        await runner.cleanup()


def question(provider: AnthropicProvider, instructions: str = "Be brief.") -> Request:
    entry = WindowEntry(1, Message("user", (Text("Hello"),)), provider.encoder(MODEL))
    return Request(MODEL, Snapshot(instructions, f"anthropic:{MODEL}", instructions, ()), [entry], Controls(), "s")


async def asked(provider: AnthropicProvider) -> list[ModelDelta]:
    async with asyncio.timeout(PATIENCE), aclosing(provider.stream(question(provider))) as stream:
        return [delta async for batch in stream for delta in batch]


def simple() -> bytes:
    return b"".join(sse(event) for event in [start(), *text(0, "Hi", "!"), *stop("end_turn")])


async def test_a_request_goes_out_as_the_sdk_sends_it():
    """The key, the version and the path are the SDK's, the body is ours, and it asks for a stream."""
    server = RawServer(simple())
    async with serving(server) as provider:
        found = await asked(provider)
    assert found[0] == Started("msg_1", "claude-opus-5")
    assert found[-1] == Finished("done", "end_turn")
    headers = server.asked[0].headers
    assert headers["authorization"] == "Bearer the-key"
    assert headers["anthropic-version"] == "2026-10-21"
    assert headers["content-type"] == "application/json"
    assert server.bodies[0]["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    assert server.bodies[0]["stream"] is True


@for_each("size", [1, 7, 4_096])
async def test_pieces_of_any_size_are_one_answer(size):
    """A stream that comes in small pieces ends as one that comes at once."""
    async with serving(RawServer(rich(), size=size)) as provider:
        found = await asked(provider)
    said = "".join(delta.text for delta in found if isinstance(delta, ModelTextDelta))
    assert said == "Zwölf \r\n🙂"
    assert found[-1] == Finished("tools", "tool_use")


@for_each(
    "status, body, kind, wait",
    [
        (529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "overloaded", None),
        (429, '{"type":"error","error":{"type":"rate_limit_error","message":"Slow"}}', "rate_limited", 7.0),
        (401, '{"type":"error","error":{"type":"authentication_error","message":"No"}}', "auth", None),
        (
            400,
            '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}',
            "context_overflow",
            None,
        ),
        (502, "<html>Bad gateway</html>", "error", None),
    ],
)
async def test_a_refused_request_is_a_failure(status, body, kind, wait):
    """An error answer is classified once, asked once, and honours the wait that it names."""
    server = RawServer(body.encode(), status=status, headers={"retry-after": "7"} if wait else {})
    async with serving(server) as provider:
        found = await asked(provider)
    assert len(server.asked) == 1
    assert len(found) == 1
    assert isinstance(found[0], CallFailed)
    assert (found[0].kind, found[0].retry_after) == (kind, wait)
    assert "the-key" not in found[0].message


@for_each("missing", [2, 20, len(sse(stop("end_turn")[1])), 400])
async def test_a_stream_that_breaks_off_is_a_failure(missing):
    """An answer whose connection ends before its last event, or within it, is broken, whatever was said."""
    async with serving(RawServer(simple()[:-missing])) as provider:
        found = await asked(provider)
    assert isinstance(found[0], Started)
    assert isinstance(found[-1], CallFailed) is (missing > 2), "a blank line alone may be missing"
    assert not isinstance(found[-1], CallFailed) or found[-1].kind == "network"


async def test_what_cannot_be_read_is_a_failure():
    """A server that sends nonsense, or JSON too deep to read, has failed; no loop raises."""
    for nonsense in (b"data: {\n\n", b'data: {"type":"x","y":' + b"[" * 9_000 + b"]" * 9_000 + b"}\n\n"):
        async with serving(RawServer(nonsense + simple())) as provider:
            found = await asked(provider)
        assert isinstance(found[-1], CallFailed)
        assert (found[-1].kind, found[-1].retryable) == ("error", True)


async def test_leaving_in_mid_stream_ends_the_call():
    """Closing the stream ends the request at once."""
    server = RawServer(
        b"".join(sse(event) for event in [start(), begin(0, {"type": "text", "text": ""}), *words(0, "a")])
    )
    server.hold = True
    async with serving(server) as provider, asyncio.timeout(PATIENCE):
        async with aclosing(provider.stream(question(provider))) as stream:
            async for _ in stream:
                break
        await server.left.wait()


async def test_prefixes_are_made_once():
    """The prefix of a snapshot is encoded once, and of many snapshots the oldest is evicted and encoded again."""
    async with serving(RawServer(simple())) as provider:
        start_of = provider._starts.of
        first = [start_of(question(provider).snapshot) for _ in range(2)]
        assert first[0] is first[1]
        for n in range(100):
            start_of(question(provider, f"{n}").snapshot)
        assert len(provider._starts._made) == 64
        again = start_of(question(provider).snapshot)
    assert again == first[0]
    assert again is not first[0]
