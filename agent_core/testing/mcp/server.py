"""What a made-up MCP server answers, whatever carries the messages."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, Self, cast

from aiohttp import web

from agent_core.testing.clock import Level
from agent_core.testing.mcp.logins import FakeLogins
from agent_core.testing.mcp.script import (
    Ask,
    FakeCall,
    FakeProtocolError,
    FakeTool,
    InputRequired,
    McpAsked,
    Send,
    opened,
)

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
Era = Literal["both", "modern", "legacy"]
_ID_KEY = "io.modelcontextprotocol/subscriptionId"
_INFO_KEY = "io.modelcontextprotocol/serverInfo"
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
UNKNOWN_METHOD, UNSUPPORTED = -32601, -32022


def failed(name: object, code: int, message: str, data: object = None) -> dict[str, Any]:
    """Return a JSON-RPC error."""
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": name, "error": error}


def object_of(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under *key*, an empty one where there is none."""
    member = value.get(key)
    return cast("dict[str, Any]", member) if isinstance(member, dict) else {}


class Protocol:
    """Answers JSON-RPC requests of both eras with the *tools*, which tests may change at any time.

    *page* is how many tools a page of the list has, 0 for all. *listing* replaces the answers to `tools/list`, by
    cursor, to lie with. *asked* are the messages that came. *news* is whether it says when its list changes.
    """

    def __init__(
        self,
        tools: list[FakeTool],
        *,
        era: Era,
        name: str,
        instructions: str | None,
        page: int,
        listing: Callable[[str | None], dict[str, Any]] | None,
    ) -> None:
        self.tools, self.era, self.name, self.instructions = tools, era, name, instructions
        self.page, self.listing = page, listing
        self.news = True
        self.asked: list[McpAsked] = []
        self.cancelled: list[str] = []
        self._running: dict[tuple[str, object], asyncio.Task[Any]] = {}
        self._listening: dict[tuple[str, object], Send] = {}
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = count(1)

    @property
    def listening(self) -> int:
        """Return how many `subscriptions/listen` are open."""
        return len(self._listening)

    def noted(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Record a message that came."""
        self.asked.append(McpAsked(message.get("method", ""), object_of(message, "params"), headers))

    def is_modern(self, message: Mapping[str, Any]) -> bool:
        """Return whether *message* is one of the modern era."""
        return message.get("method") == "server/discover" or _VERSION_KEY in object_of(
            object_of(message, "params"), "_meta"
        )

    def receive(self, peer: str, message: Mapping[str, Any]) -> None:
        """Take a notification, or the answer to a question of ours, of the client *peer*."""
        if message.get("method") == "notifications/cancelled":
            task = self._running.get((peer, message["params"].get("requestId")))
            if task is not None:
                task.cancel()
        waiting = self._waiting.pop(str(message.get("id")), None) if "method" not in message else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message.get("result") or {"action": "error", "error": message.get("error")})

    async def answer(
        self, peer: str, message: dict[str, Any], headers: Mapping[str, str], send: Send, die: Callable[[], None]
    ) -> dict[str, Any] | None:
        """Return the answer to a request; None when its client cancelled it."""
        key = (peer, message["id"])
        work = asyncio.ensure_future(self._result(key, message, headers, send, die))
        self._running[key] = work
        try:
            return {"jsonrpc": "2.0", "id": message["id"], "result": await work}
        except FakeProtocolError as error:
            return failed(message["id"], error.code, error.message, error.data)
        except asyncio.CancelledError:
            self.cancelled.append(message["method"])
            if not work.cancelled() and not work.done():  # the client has left
                work.cancel()
                raise
            return None
        finally:
            del self._running[key]
            self._listening.pop(key, None)

    async def changed(self) -> None:
        """Notify the clients of the modern era that the list of tools has changed."""
        for (_, name), send in list(self._listening.items()):
            params = {"_meta": {_ID_KEY: name}}
            await send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params})

    async def _result(
        self,
        key: tuple[str, object],
        message: dict[str, Any],
        headers: Mapping[str, str],
        send: Send,
        die: Callable[[], None],
    ) -> dict[str, Any]:
        modern, params = self.is_modern(message), object_of(message, "params")
        self._check_era(message["method"], modern=modern)
        match message["method"]:
            case "server/discover":
                return self._finished(self._described({"supportedVersions": [MODERN]}), cached=True, modern=True)
            case "initialize":
                return self._described({"protocolVersion": LEGACY})
            case "ping":
                return {}
            case "tools/list":
                return self._finished(self._list(params.get("cursor")), cached=True, modern=modern)
            case "tools/call":
                call = self._call(params, headers, send, die, modern=modern)
                return self._finished(await self._called(call), cached=False, modern=modern)
            case "subscriptions/listen" if modern:
                return await self._listen(key, send)
            case other:
                raise FakeProtocolError(UNKNOWN_METHOD, f"Method not found: {other}")

    def _check_era(self, method: str, *, modern: bool) -> None:
        if modern and self.era == "legacy":
            raise FakeProtocolError(UNKNOWN_METHOD, f"Method not found: {method}")
        if not modern and self.era == "modern":
            raise FakeProtocolError(UNSUPPORTED, "Unsupported protocol version", {"supported": [MODERN]})

    def _described(self, more: dict[str, Any]) -> dict[str, Any]:
        info = {"name": self.name, "title": self.name.title(), "version": "1.0"}
        capabilities = {"tools": {"listChanged": self.news}}
        description = {"capabilities": capabilities, **more}
        description |= {"serverInfo": info} if "protocolVersion" in more else {"_meta": {_INFO_KEY: info}}
        return {**description, **({"instructions": self.instructions} if self.instructions else {})}

    def _finished(self, result: dict[str, Any], *, cached: bool, modern: bool) -> dict[str, Any]:
        if not modern:
            return result
        more = {"ttlMs": 0, "cacheScope": "private"} if cached else {}
        return {"resultType": "complete", **more, **result}

    def _list(self, cursor: str | None) -> dict[str, Any]:
        if self.listing is not None:
            return self.listing(cursor)
        begin = int(cursor or 0)
        end = begin + (self.page or len(self.tools))
        shown = [tool.listed for tool in self.tools[begin:end]]
        return {"tools": shown, **({"nextCursor": str(end)} if end < len(self.tools) else {})}

    def _call(
        self,
        params: Mapping[str, Any],
        headers: Mapping[str, str],
        send: Send,
        die: Callable[[], None],
        *,
        modern: bool,
    ) -> FakeCall:
        answers = {**opened(params.get("requestState")), **object_of(params, "inputResponses")}
        token = object_of(params, "_meta").get("progressToken")
        arguments = object_of(params, "arguments")
        return FakeCall(params["name"], arguments, headers, modern, token, send, self._asker(send), die, answers)

    async def _called(self, call: FakeCall) -> dict[str, Any]:
        tool = next((each for each in self.tools if each.name == call.name), None)
        if tool is None:
            raise FakeProtocolError(-32602, f"Unknown tool: {call.name}")
        try:
            return await tool.result(call)
        except InputRequired as asks:
            return {"resultType": "input_required", "inputRequests": asks.requests, "requestState": asks.state}

    def _asker(self, send: Send) -> Ask:
        """Return the function that asks the client during a call, as the legacy era does."""

        async def ask(params: dict[str, Any]) -> dict[str, Any]:
            name = f"ask-{next(self._numbers)}"
            self._waiting[name] = asyncio.get_running_loop().create_future()
            await send({"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": params})
            return await self._waiting[name]

        return ask

    async def _listen(self, key: tuple[str, object], send: Send) -> dict[str, Any]:
        self._listening[key] = send
        params = {"notifications": {"toolsListChanged": True}, "_meta": {_ID_KEY: key[1]}}
        await send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
        return await asyncio.get_running_loop().create_future()


_PATH = "/mcp"
_GRACE = 0.01


@dataclass(frozen=True, slots=True)
class _Follower:
    """The stream of a session on which the server says what is new; *gone* is when the session is forgotten."""

    stream: web.StreamResponse
    gone: asyncio.Event


class FakeMcp:
    """Serve *tools* on 127.0.0.1 from `async with` to its end; *port* 0 takes a free one.

    *era* is which protocol eras it speaks. *page* is how many tools a page of its list has, 0 for all; *listing*
    replaces the answers to `tools/list`, by cursor, for a server that lies. Tests change `tools` at any time, and say
    so with `changed`; `status` is an HTTP status that all requests get instead of an answer, and `answered` makes what
    calls of tools get once they have run. `admits` decides by the
    headers which requests are let in, the others get 401; `protected_by` is the authorization server that it names.
    With *logins* it is served on the same port, and gives the tokens that are let in. `lacks` is a scope for want of
    which requests are refused.
    """

    def __init__(
        self,
        tools: Sequence[FakeTool] = (),
        *,
        era: Era = "both",
        name: str = "fake",
        instructions: str | None = None,
        page: int = 0,
        listing: Callable[[str | None], dict[str, Any]] | None = None,
        port: int = 0,
        logins: FakeLogins | None = None,
    ) -> None:
        self.status: int | None = None
        self.answered: Callable[[], web.Response] | None = None
        self.admits: Callable[[Mapping[str, str]], bool] = lambda _headers: True
        self.protected_by: str | None = None
        self.lacks: str | None = None
        self._logins = logins
        self.streams = 0
        self.protocol = Protocol(list(tools), era=era, name=name, instructions=instructions, page=page, listing=listing)
        self._port = port
        self._runner: web.AppRunner | None = None
        self._sessions: dict[str, _Follower | None] = {}
        self._names, self._level = count(1), Level()

    @property
    def url(self) -> str:
        """Return the endpoint."""
        return f"http://127.0.0.1:{self._port}{_PATH}"

    @property
    def host(self) -> str:
        """Return `127.0.0.1:PORT`, for what allows requests to inner hosts."""
        return f"127.0.0.1:{self._port}"

    @property
    def tools(self) -> list[FakeTool]:
        """Return the tools; a test may change the list."""
        return self.protocol.tools

    @property
    def asked(self) -> list[McpAsked]:
        """Return the messages that came, oldest first."""
        return self.protocol.asked

    @property
    def sessions(self) -> int:
        """Return how many sessions of the legacy era are open."""
        return len(self._sessions)

    @property
    def followers(self) -> int:
        """Return how many clients are listening for changes now, in either era."""
        return self.protocol.listening + sum(stream is not None for stream in self._sessions.values())

    def asked_for(self, method: str) -> list[McpAsked]:
        """Return the messages of *method* that came."""
        return [each for each in self.asked if each.method == method]

    async def reached(self, n: int = 1) -> None:
        """Return once *n* messages or more came."""
        await self._level.reached(n)

    async def changed(self) -> None:
        """Notify all clients that listen that the list of tools has changed."""
        await self.protocol.changed()
        message = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        for each in list(self._sessions.values()):
            if each is not None:
                await each.stream.write(_event(message))

    def forget_sessions(self) -> None:
        """Know no session any more, as after a restart."""
        for each in self._sessions.values():
            if each is not None:
                each.gone.set()
        self._sessions.clear()

    async def start(self) -> None:
        """Listen, on the same port as before."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", _PATH, self._serve)
        app.router.add_get(f"/.well-known/oauth-protected-resource{_PATH}", self._protected)
        if self._logins is not None:
            app.router.add_routes(self._logins.routes())
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_GRACE)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024).start()
        self._port = self._runner.addresses[0][1]
        if self._logins is not None:
            self._logins.host, self.admits = self.host, self._logins.admits
            self.protected_by = self._logins.issuer

    async def stop(self) -> None:
        """Stop listening, break off what runs and forget all sessions."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self.forget_sessions()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _protected(self, _request: web.Request) -> web.Response:
        if self.protected_by is None:
            return web.Response(status=404)
        return web.json_response({"resource": self.url, "authorization_servers": [self.protected_by]})

    def _challenge(self) -> dict[str, str]:
        """Return how a refusal names the metadata, if there are any (RFC 9728)."""
        if self.protected_by is None:
            return {}
        place = f"http://{self.host}/.well-known/oauth-protected-resource{_PATH}"
        return {"WWW-Authenticate": f'Bearer error="invalid_token", scope="tools", resource_metadata="{place}"'}

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.status is not None:
            return web.Response(status=self.status, text=f"It is {self.status}.")
        if not self.admits({key.lower(): value for key, value in request.headers.items()}):
            return web.Response(status=401, text="Who are you?", headers=self._challenge())
        if self.lacks is not None:
            challenge = {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{self.lacks}"'}
            return web.Response(status=403, text="Not with this token.", headers=challenge)
        match request.method:
            case "POST":
                return await self._post(request)
            case "GET":
                return await self._follow(request)
            case "DELETE":
                self._delete(request.headers.get("mcp-session-id", ""))
                return web.Response(status=204)
            case _:
                return web.Response(status=405)

    def _delete(self, session: str) -> None:
        follower = self._sessions.pop(session, None)
        if follower is not None:
            follower.gone.set()

    async def _post(self, request: web.Request) -> web.StreamResponse:
        try:
            message: dict[str, Any] = await request.json()
        except ValueError:
            return web.json_response(failed(None, -32700, "Parse error"), status=400)
        headers = {key.lower(): value for key, value in request.headers.items()}
        self.protocol.noted(message, headers)
        self._level.set(len(self.asked))
        session = headers.get("mcp-session-id", "")
        modern = self.protocol.is_modern(message) or headers.get("mcp-protocol-version") == "2026-07-28"
        opening = message.get("method") == "initialize"
        if not modern and not opening and session not in self._sessions:
            return web.json_response(failed(message.get("id"), -32600, "Session not found"), status=404)
        if "id" not in message or "method" not in message:
            self.protocol.receive(session, message)
            return web.Response(status=202)
        return await self._answered(request, session, message, headers, opening=opening)

    async def _answered(
        self,
        request: web.Request,
        session: str,
        message: dict[str, Any],
        headers: Mapping[str, str],
        *,
        opening: bool,
    ) -> web.StreamResponse:
        stream = _Stream(request)
        peer = session or f"request-{next(self._names)}"
        self.streams += 1
        try:
            answer = await self.protocol.answer(peer, message, headers, stream.send, stream.die)
        finally:
            self.streams -= 1
        if answer is None:
            return web.Response(status=202)
        if self.answered is not None and message["method"] == "tools/call":
            return self.answered()
        if stream.response is not None:
            await stream.send(answer)
            return stream.response
        more: dict[str, str] = {}
        if opening and "result" in answer:
            more["Mcp-Session-Id"] = f"session-{next(self._names)}"
            self._sessions[more["Mcp-Session-Id"]] = None
        return web.json_response(answer, headers=more)

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        session = request.headers.get("mcp-session-id", "")
        if session not in self._sessions:
            return web.Response(status=404)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        gone = asyncio.Event()
        self._sessions[session] = _Follower(stream, gone)
        self.streams += 1
        try:
            await gone.wait()
        finally:
            self.streams -= 1
            if (mine := self._sessions.get(session)) is not None and mine.stream is stream:
                self._sessions[session] = None
        return stream


class _Stream:
    """The answer to one request: one JSON body, or a stream from the first thing on that is sent before it."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response: web.StreamResponse | None = None

    async def send(self, message: dict[str, Any]) -> None:
        if self.response is None:
            self.response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await self.response.prepare(self._request)
        await self.response.write(_event(message))

    def die(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


def _event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
