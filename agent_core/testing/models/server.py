"""The fake models as an HTTP server."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import msgspec
from aiohttp import web

from agent_core.clock import Clock, SystemClock
from agent_core.providers.base import CallFailed
from agent_core.testing.clock import Level
from agent_core.testing.models.asked import Answer, Head, ModelCall, Script, Stall, WholeResponse, Wire, read
from agent_core.testing.models.caching import TAIL, Bill, Caches, ModelPrompt, of_messages, tokens
from agent_core.testing.models.failing import (
    Reply,
    RuleBroken,
    failure,
    refusal,
    request_header,
    shaped,
    too_large,
    too_long,
)
from agent_core.testing.models.failing import servers_too_long as worded
from agent_core.testing.models.rules import Chain, check_request, sign_item
from agent_core.testing.models.score import Beats, End, Score, Sender, Sign, Take
from agent_core.testing.models.wires import Quirks, Renderings
from agent_core.testing.scripted import Pause, ScriptExhausted, Sleep, fail, finish

_SINCE = "2026-01-01T00:00:00Z"
_SINCE_SECONDS = 1_767_225_600


def listed(wire: Wire, models: Sequence[str], one: str | None) -> dict[str, Any] | None:
    """Return the list of *models*, or *one* of them, None when it is not there."""
    if one is not None:
        return _model(wire, one) if one in models else None
    data = [_model(wire, model) for model in models]
    if wire == "messages":
        first, last = (models[0], models[-1]) if models else (None, None)
        return {"data": data, "has_more": False, "first_id": first, "last_id": last}
    return {"object": "list", "data": data}


def _model(wire: Wire, model: str) -> dict[str, Any]:
    if wire != "messages":
        return {"id": model, "object": "model", "created": _SINCE_SECONDS, "owned_by": "parley-fake-models"}
    return {
        "type": "model",
        "id": model,
        "display_name": model,
        "created_at": _SINCE,
        "lifecycle": "active",
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
    }


MAX_BODY = 256 * 1024 * 1024
"""Bytes of a request; the vendors take 32 MB and less."""
_GRACE = 0.01
"""Seconds that running streams have when the server ends; 0 would be for ever."""
_WARMED: Answer = (finish("length"),)
"""The answer to a request that only writes the cache: it takes none of the script."""
WIRES: dict[str, Wire] = {"/v1/messages": "messages", "/v1/responses": "responses", "/v1/chat/completions": "chat"}


@dataclass(frozen=True, slots=True)
class Options:
    """How the server differs from the vendors' own.

    *quirks* of the Chat wire. *split*: all streams in pieces of so many bytes. *minimum*: tokens below which nothing is
    cached, None for each model's own. *sealed*: starts of the names of the models whose thinking is checked, None for
    all. *models*: what `GET /v1/models` lists; any model is played. *contexts*: a prompt's most tokens by model, ""
    for all others, counted as they are billed. *largest*: the most bytes of a request. *verified*: whether OpenAI
    gives this organization summaries of thinking.
    """

    quirks: Quirks = field(default_factory=Quirks)
    split: int = 0
    minimum: int | None = None
    sealed: Collection[str] | None = None
    models: tuple[str, ...] = ("claude-sonnet-5-5", "claude-haiku-5-5", "gpt-6.1-sol", "gpt-6-luna")
    contexts: Mapping[str, int] = field(default_factory=dict[str, int])
    largest: int | None = None
    verified: bool = True


@dataclass(slots=True)
class _OpenCall:
    """One model call while it is answered."""

    request: web.Request
    model_call: ModelCall
    head: Head
    take: Take
    begun: Callable[[], None]


class FakeModels:
    """Serve *script* on 127.0.0.1 from `async with` to its end; *port* 0 takes a free one.

    *script* is a list of answers, one per model call, or a function from the request to its answer. *rate* is deltas a
    second, 0 is flat out. *check* validates requests and thinking as the vendors do, *cache* counts cache reads and
    writes by their rules on *clock*, *record* keeps the requests in *asked*; with all three off little is done per
    request (benches). Keep an answer and use it again: it is rendered once. *open* counts the streams that run now.
    """

    def __init__(
        self,
        script: Script,
        *,
        port: int = 0,
        rate: float = 0,
        clock: Clock | None = None,
        record: bool = True,
        check: bool = True,
        cache: bool = True,
        options: Options = Options(),
    ) -> None:
        self.asked: list[ModelCall] = []
        self.open = 0
        self._script, self._port, self._rate = script, port, rate
        self._clock: Clock = clock or SystemClock()
        self._record, self._check, self._options = record, check, options
        self._caches = Caches(minimum=options.minimum) if cache else None
        self._renderings = Renderings(options.quirks, options.split)
        self._level, self._played = Level(), 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Return `http://127.0.0.1:PORT`: Anthropic's base URL; OpenAI's is this and `/v1`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def calls(self) -> int:
        """Return how many model calls there were, refused ones included."""
        return self._level.value

    async def reached(self, n: int = 1) -> None:
        """Return once there were *n* model calls or more."""
        await self._level.reached(n)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_BODY)
        for path, wire in WIRES.items():
            app.router.add_post(path, self._model_call(wire))
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{id}", self._models)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_GRACE)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _model_call(self, wire: Wire) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            name = f"req_{secrets.token_hex(12)}"
            raw = await request.read()
            try:
                model_call, head = read(wire, raw, _headers(request), self._clock.now(), dict(request.query))
            except msgspec.DecodeError as error:
                return _response(refusal(wire, RuleBroken(f"The request body is not valid JSON: {error}"), name))
            if self._record:
                self.asked.append(model_call)
            self._level.set(self.calls + 1)
            try:
                call = self._prepare(request, model_call, head, name.removeprefix("req_"))
                answer = self._answer(model_call, head)
            except RuleBroken as refused:
                return _response(self._shaped(wire, refusal(wire, refused, name)))
            self.open += 1
            try:
                return await self._play(call, self._renderings.score(model_call, head, answer))
            finally:
                self.open -= 1

        return serve

    def _shaped(self, wire: Wire, reply: Reply) -> Reply:
        """Return *reply*, an error, as the server that is played says it."""
        return shaped(self._options.quirks.server, reply) if wire == "chat" else reply

    def _prepare(self, request: web.Request, call: ModelCall, head: Head, own: str) -> _OpenCall:
        """Check the request, count what it costs, and make what its answer is filled in with; raises `RuleBroken`."""
        options, sealed = self._options, self._options.sealed
        if options.largest is not None and len(call.raw) > options.largest:
            raise too_large(call.wire)
        positions = of_messages(call.body) if call.wire == "messages" and (self._check or self._caches) else []
        if self._check:
            check_request(call, positions, sealed, server=options.quirks.server, verified=options.verified)
        bill, begun = Bill(tokens(call.raw)), _nothing
        if self._caches is not None:
            prompt = ModelPrompt(call.wire, call.model, call.body)
            priced = self._caches.price(prompt, self._clock.now(), positions=positions or None)
            bill, begun = priced.bill, partial(self._caches.write, priced)
        most = options.contexts.get(head.model, options.contexts.get(""))
        if most is not None and bill.total > most:
            words = worded(options.quirks.server, bill.total, most) if call.wire == "chat" else None
            raise too_long(call.wire, bill.total, most, words)
        sign: Sign = Chain(head.model, positions).sign
        if call.wire == "responses":
            sign = lambda _, __: sign_item(head.model)  # noqa: E731
        take = Take(head, own.encode(), self._clock.now() // 1000, bill, sign)
        return _OpenCall(request, call, head, take, begun)

    def _answer(self, call: ModelCall, head: Head) -> Answer:
        if call.wire == "messages" and head.max_tokens == 0:
            return _WARMED
        if callable(self._script):
            try:
                return self._script(call)
            except ScriptExhausted as error:
                raise RuleBroken(str(error)) from error
        n = self._played
        if n >= len(self._script):
            raise RuleBroken(
                f"Model call {n + 1} has no answer, the script of the fake models ends at {len(self._script)}: "
                "add one, or use a function of the request."
            )
        self._played += 1
        return self._script[n]

    async def _play(self, call: _OpenCall, score: Score) -> web.StreamResponse:
        stream = call.head.stream
        response = web.StreamResponse(headers=_stream_headers(call) if stream else None)
        response.enable_chunked_encoding()
        sender = Sender(call.request, response, call.take, self._clock)
        begun = False
        for move in score.moves:
            match move:
                case Beats():
                    if not begun:
                        begun = True
                        call.begun()
                    if stream:
                        await sender.send(move, move.rate or self._rate, score.split)
                case Pause():
                    await move.event.wait()
                case Sleep():
                    await self._clock.sleep(move.seconds)
                case Stall():
                    await _until_the_client_leaves()
                case CallFailed():
                    reply = failure(call.model_call.wire, move, call.head.model, _name(call))
                    return _response(self._shaped(call.model_call.wire, reply))
                case WholeResponse():
                    return web.Response(status=move.code, body=move.body, headers=dict(move.headers))
                case End():
                    if stream and move.how != "broken":
                        await sender.end()
                        return response
                    return await _whole(call, score, move)
        raise AssertionError("A score has an end.")

    async def _count_tokens(self, request: web.Request) -> web.Response:
        name = f"req_{secrets.token_hex(12)}"
        try:
            model_call, _ = read("messages", await request.read(), _headers(request), self._clock.now())
            positions = of_messages(model_call.body)
            if self._check:
                check_request(model_call, positions, self._options.sealed, counting=True)
        except RuleBroken as refused:
            return _response(refusal("messages", refused, name))
        except msgspec.DecodeError as error:
            return _response(refusal("messages", RuleBroken(f"The request body is not valid JSON: {error}"), name))
        count = sum(position.tokens for position in positions) + TAIL
        return web.json_response({"input_tokens": count}, headers=request_header("messages", name))

    async def _models(self, request: web.Request) -> web.Response:
        wire: Wire = "messages" if "anthropic-version" in request.headers else "chat"
        body = listed(wire, self._options.models, request.match_info.get("id"))
        if body is None:
            lost = CallFailed("misconfigured", fail().message, retryable=False)
            return _response(failure(wire, lost, request.match_info["id"], f"req_{secrets.token_hex(12)}"))
        return web.json_response(body)


async def _whole(call: _OpenCall, score: Score, end: End) -> web.Response:
    """Answer in one piece, or not at all."""
    if end.failed is not None:
        return _response(failure(call.model_call.wire, end.failed, call.head.model, _name(call)))
    if end.how != "whole":
        if call.request.transport is not None:
            call.request.transport.close()
        await _until_the_client_leaves()
    headers = request_header(call.model_call.wire, _name(call))
    return web.Response(body=score.body(call.take), content_type="application/json", headers=headers)


async def _until_the_client_leaves() -> None:
    """Wait until cancelled: the server cancels the task of a client that has disconnected."""
    await asyncio.get_running_loop().create_future()


def _headers(request: web.Request) -> dict[str, str]:
    return {key.lower(): value for key, value in request.headers.items()}


def _stream_headers(call: _OpenCall) -> dict[str, str]:
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    return headers | request_header(call.model_call.wire, _name(call))


def _name(call: _OpenCall) -> str:
    return f"req_{call.take.own.decode()}"


def _response(reply: Reply) -> web.Response:
    headers = dict(reply.headers)
    return web.Response(status=reply.status, body=reply.body, content_type="application/json", headers=headers)


def _nothing() -> None:
    return None
