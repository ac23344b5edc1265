"""Socket Mode: tickets, WebSockets, envelopes and their acknowledgements."""

import asyncio
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import WSMsgType, web

from channels.slack.testing.faults import Faults
from channels.slack.testing.world import Json
from channels.slack.web_api import limits

Disconnect = Literal["warning", "refresh_requested", "link_disabled", "too_many_websockets"]


@dataclass(slots=True, eq=False)
class Socket:
    """One open connection; a *deaf* one is open and silent."""

    number: int
    stream: web.WebSocketResponse
    deaf: bool = False
    waiting: dict[str, asyncio.Future[Json]] = field(default_factory=dict[str, asyncio.Future[Json]])


class NotAcknowledged(Exception):
    """The app did not take a delivery; the message is Slack's reason."""


class Sockets:
    """The app's connections; deliveries go round robin."""

    def __init__(self, app_id: str, faults: Faults, changed: Callable[[], None], ack_within: float) -> None:
        self.open: list[Socket] = []
        self.opened = 0
        self._app_id, self._faults, self._changed, self._ack_within = app_id, faults, changed, ack_within
        self._tickets: set[str] = set()
        self._next = 0

    def ticket(self, base_url: str) -> str:
        """Return a WebSocket address that is good once."""
        self._tickets.add(ticket := secrets.token_urlsafe(12))
        return f"ws{base_url.removeprefix('http')}link/?ticket={ticket}&app_id={self._app_id}"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection until it ends."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden(text="A ticket is good once: call apps.connections.open again.")
        self._tickets.discard(ticket)
        stream = web.WebSocketResponse(autoping=False)
        await stream.prepare(request)
        self.opened += 1
        socket = Socket(self.opened, stream)
        if len(self.open) >= limits.SOCKETS.value:
            await self._say(socket, {"type": "disconnect", "reason": "too_many_websockets"})
            await stream.close()
            return stream
        self.open.append(socket)
        self._strike(socket)
        if not socket.deaf:
            await self._say(socket, self._hello())
        self._changed()
        try:
            await self._listen(socket)
        finally:
            self._drop(socket)
        return stream

    async def send(self, kind: str, payload: Json, attempt: int, reason: str) -> Json:
        """Send one envelope and return what the app answered; raises `NotAcknowledged`."""
        if not self.open:
            raise NotAcknowledged("connection_failed")
        self._next += 1
        socket = self.open[self._next % len(self.open)]
        self._strike(socket)
        envelope: Json = {"envelope_id": secrets.token_hex(16), "type": kind, "payload": payload}
        envelope["accepts_response_payload"] = kind != "events_api"
        if kind == "events_api":
            envelope |= {"retry_attempt": attempt, "retry_reason": reason}
        answer = asyncio.get_running_loop().create_future()
        socket.waiting[envelope["envelope_id"]] = answer
        try:
            async with asyncio.timeout(self._ack_within):
                if not socket.deaf:
                    await self._say(socket, envelope)
                return await answer
        except (TimeoutError, ConnectionError):
            raise NotAcknowledged("timeout") from None
        finally:
            socket.waiting.pop(envelope["envelope_id"], None)

    async def disconnect(self, reason: Disconnect) -> None:
        """Ask all connections to close: each may still acknowledge, and gets nothing new but after a mere warning."""
        for socket in list(self.open):
            await self._say(socket, {"type": "disconnect", "reason": reason, "debug_info": {"host": "stand-in"}})
            if reason != "warning":
                self.open.remove(socket)
        self._changed()

    def deafen(self) -> None:
        """Make every open connection deaf."""
        for socket in self.open:
            socket.deaf = True

    async def close(self) -> None:
        """Close all connections."""
        for socket in list(self.open):
            self._drop(socket)
            with suppress(ConnectionError):
                await socket.stream.close()

    async def _listen(self, socket: Socket) -> None:
        async for frame in socket.stream:
            self._strike(socket)
            if socket.deaf:
                continue
            match frame.type:
                case WSMsgType.PING:
                    await socket.stream.pong(frame.data)
                case WSMsgType.TEXT:
                    body: Any = json.loads(frame.data)
                    answer = socket.waiting.get(body.get("envelope_id", ""))
                    if answer is not None and not answer.done():
                        answer.set_result(body.get("payload") or {})
                case _:
                    continue

    def _strike(self, socket: Socket) -> None:
        if not socket.deaf and self._faults.strike("deaf_socket", "socket"):
            socket.deaf = True

    async def _say(self, socket: Socket, what: Json) -> None:
        with suppress(ConnectionError):
            await socket.stream.send_json(what)

    def _hello(self) -> Json:
        return {
            "type": "hello",
            "num_connections": len(self.open),
            "connection_info": {"app_id": self._app_id},
            "debug_info": {"host": "stand-in", "approximate_connection_time": 18_060},
        }

    def _drop(self, socket: Socket) -> None:
        if socket in self.open:
            self.open.remove(socket)
        for answer in socket.waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the connection ended"))
        self._changed()
