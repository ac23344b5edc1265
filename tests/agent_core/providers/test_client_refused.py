"""Answers that are errors, read by us before an SDK makes an object of them: odd, cut and endless ones."""

import asyncio
import sys

import pytest
from aiohttp import web

from agent_core.providers import client as pipe
from agent_core.providers.base import CallFailed
from tests.agent_core.providers.test_client_wire import SAID, WHOLE, Answer, SdkLine, Words, dial, refusal, stream

__all__ = ["dial"]


def odd(status: int, body: bytes, *, length: int | None = None) -> Answer:
    """Answer with just these bytes; *length* is what is announced."""

    async def answer(asked: web.Request) -> web.StreamResponse:
        assert asked.transport is not None
        size = len(body) if length is None else length
        lines = [f"HTTP/1.1 {status} Odd", "Content-Type: application/json", f"Content-Length: {size}"]
        lines += ["Connection: close", "", ""]
        asked.transport.write("\r\n".join(lines).encode() + body)  # type: ignore[attr-defined]
        asked.transport.close()
        return web.Response()

    return answer


async def refused(dial, answer: Answer, *, known: bool) -> tuple[SdkLine, CallFailed]:
    """Return how a request fails that is answered so; the head of a *known* one was learned from one before."""
    answers = [answer, stream(WHOLE)] if known else [answer]

    async def next_one(asked: web.Request) -> web.StreamResponse:
        return await answers.pop()(asked)

    line = await dial(next_one)
    if known:
        assert await line.ask() == SAID
        assert line.client._heads
    found = await line.failure()
    assert not line.client._heads, "an answer that is an error forgets the head"
    return line, found


each = pytest.mark.parametrize("known", [False, True])


@each
async def test_a_cut_error_keeps_its_status(dial, known):
    """A refusal whose body was cut is classified by its status, and by what arrived of the body."""
    _, found = await refused(dial, odd(401, b'{"error": {"mess', length=100), known=known)
    assert (found.kind, found.retryable) == ("auth", False)


@each
async def test_words_in_another_encoding(dial, known):
    """An error in Latin-1 is JSON all the same: its code decides."""
    body = '{"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "café"}}'.encode(
        "latin-1"
    )
    _, found = await refused(dial, odd(429, body), known=known)
    assert (found.kind, "caf\ufffd" in found.message) == ("quota", True)


@pytest.mark.sampled(6)
@each
@pytest.mark.parametrize("status", [300, 302, 304])
async def test_neither_an_answer_nor_a_way_on(dial, known, status):
    """A status that is no success and leads nowhere is a refusal, never an answer without words."""
    _, found = await refused(dial, odd(status, b"" if status == 304 else b'{"error": "no way"}'), known=known)
    assert str(status) in found.message
    assert not found.retryable


@pytest.mark.sampled(2)
@each
@pytest.mark.parametrize("limit", ["_REFUSAL_SECONDS", "_MAX_REFUSAL"])
async def test_an_error_without_end(dial, known, limit, monkeypatch):
    """An error whose body never ends, slow or not, is classified by its status."""
    monkeypatch.setattr(pipe, limit, 0.2 if limit == "_REFUSAL_SECONDS" else 10)
    gone = asyncio.Event()

    async def endless(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=529)
        await response.prepare(asked)
        await response.write(b"overloaded " * 10)
        await gone.wait()
        return response

    line, found = await refused(dial, endless, known=known)
    gone.set()
    assert (found.kind, len(line.bodies)) == ("overloaded", 2 if known else 1)


@pytest.mark.whole
@each
async def test_deep_json(dial, known):
    """An error of many thousand levels is text."""
    _, found = await refused(dial, odd(400, b"[" * 20_000), known=known)
    assert found.kind == "invalid"


@pytest.mark.sampled(2)
@each
@pytest.mark.parametrize("moved", [False, True])
async def test_a_request_is_let_go_when_the_answer_comes(dial, known, moved):
    """The conversation that was sent is not held while its answer streams, wherever it was sent on to."""
    go, moves = asyncio.Event(), [False] if known else []

    async def slow(asked: web.Request) -> web.StreamResponse:
        if moves.pop():
            raise web.HTTPTemporaryRedirect("/words")
        response = await stream(b"data: one\n\n")(asked)
        await go.wait()
        await response.write(b"data: end\n\n")
        return response

    line = await dial(slow)
    if known:
        go.set()
        await line.ask()
        go.clear()
    moves += [False, True] if moved else [False]
    body = b"".join([b'{"a": ', b"1}"])
    reading = line.client.stream("/words", body, Words())
    await anext(reading)
    assert sys.getrefcount(body) == 2  # ours, and that of the question
    go.set()
    assert [batch async for batch in reading]


async def test_a_refusal_makes_no_object_of_the_sdks(dial):
    """What an SDK would raise is not made: the answer itself tells."""
    line = await dial(refusal(400, {"error": {"message": "No."}}))
    assert (await line.failure()).message.startswith("`acme` answered 400")
