"""What a made-up MCP server answers, whatever carries the messages."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Literal, cast

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
