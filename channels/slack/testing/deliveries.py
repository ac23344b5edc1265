"""What is sent to the app under test, by requests or sockets, and the faults on the way."""

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import urlencode

import aiohttp
from aiohttp import WSMsgType, web
from slack_sdk.signature import SignatureVerifier

from agent_core.clock import Clock
from channels.slack import limits
from channels.slack.testing.world import (
    Channel,
    Json,
    SimulatedWorkspace,
    SlackMessage,
    SlackSession,
    Stream,
    TaskCard,
    User,
    View,
)

_MESSAGES = {"message.im", "message.channels", "message.groups", "message.mpim"}
_AGENT = {"app_home_opened", "app_context_changed", "agent_session_stopped", "agent_session_title_changed"}
EVENTS = frozenset({"app_mention", "app_uninstalled", "tokens_revoked"} | _MESSAGES | _AGENT)
"""What an agent subscribes to."""


@dataclass(frozen=True, slots=True)
class App:
    """One app, installed in every workspace of the stand-in.

    *url* is where it listens, without a path (None: nowhere yet); *paths* are those of events, interactivity and
    commands. In *socket_mode* all goes through WebSockets and nothing to *url*.
    """

    id: str = "APARLEY"
    signing_secret: str = "stand-in-signing-secret"  # noqa: S105
    app_token: str = "xapp-stand-in"  # noqa: S105
    url: str | None = None
    paths: tuple[str, str, str] = ("/slack/events", "/slack/interactivity", "/slack/commands")
    socket_mode: bool = False
    subscribed: frozenset[str] = EVENTS


FaultKind = Literal[
    "duplicate",
    "late",
    "out_of_order",
    "ratelimited",
    "server_error",
    "answer_lost",
    "request_lost",
    "stream_closed",
    "invalid_blocks",
    "refused",
    "deaf_socket",
]
"""Events are sent twice, late, or only after the next one. Calls get 429, a 5xx, or a cut connection, after or before
their effect; streams close too early, blocks are rejected, a method is unknown. A WebSocket falls silent."""


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """Strike *on* a method or a type of event (None: any) of *workspace*, from the *nth* match on, *times* times.

    With *times* None it strikes until it is lifted; with *when*, only while that is true. *seconds* is the Retry-After
    of `ratelimited` and the delay of `late`; *status* the answer of `server_error`, which has its effect all the same
    if *effect* is set; *code* what a `refused` method says. With *block*, `invalid_blocks` strikes only a call with a
    block of that type, in a chunk too; the answer points to it if *points*.
    """

    kind: FaultKind
    on: str | None = None
    workspace: str | None = None
    nth: int = 1
    times: int | None = 1
    when: Callable[[], bool] | None = None
    seconds: float = 30.0
    status: int = 503
    effect: bool = False
    code: str = "unknown_method"
    block: str | None = None
    points: bool = True


@dataclass(slots=True, eq=False)
class Armed:
    """A fault on its way: how often it matched and struck; `lift` ends it."""

    fault: InjectedFault
    matched: int = 0
    struck: int = 0
    lifted: bool = False

    def lift(self) -> None:
        """Let it strike no more."""
        self.lifted = True

    @property
    def spent(self) -> bool:
        """Whether it strikes no more."""
        return self.lifted or (self.fault.times is not None and self.struck >= self.fault.times)

    def strikes(self, on: str, workspace: str | None, blocks: Collection[str]) -> bool:
        """Count a match and say whether it strikes."""
        fault = self.fault
        if self.spent or fault.on not in (None, on) or fault.workspace not in (None, workspace):
            return False
        if fault.when is not None and not fault.when():
            return False
        if fault.block is not None and fault.block not in blocks:
            return False
        self.matched += 1
        if self.matched < fault.nth:
            return False
        self.struck += 1
        return True


class Faults:
    """All faults of a stand-in."""

    def __init__(self) -> None:
        self.armed: list[Armed] = []

    def add(self, fault: InjectedFault) -> Armed:
        """Arm *fault*."""
        self.armed.append(made := Armed(fault))
        return made

    def strike(
        self, kind: FaultKind, on: str, workspace: str | None = None, *, blocks: Collection[str] = ()
    ) -> InjectedFault | None:
        """Return the fault of this *kind* that strikes now, the oldest first; the call has *blocks* of these types."""
        matches = (each for each in self.armed if each.fault.kind == kind and each.strikes(on, workspace, blocks))
        return next((each.fault for each in matches), None)


def as_json(message: SlackMessage, app_id: str = "", *, metadata: bool = True) -> Json:
    """Return *message* as `conversations.replies` and events show it."""
    fields: Json = {"type": "message", "user": message.user, "ts": message.ts, "team": message.team}
    stream = message.stream
    fields["text"] = stream.markdown if stream else message.text
    if blocks := streamed(stream) if stream else message.blocks:
        fields["blocks"] = blocks
    if message.bot_id:
        fields |= {"bot_id": message.bot_id, "app_id": app_id}
    else:
        fields["client_msg_id"] = f"{message.ts}-{message.user}"
    for name in ("thread_ts", "subtype", "edited", "attachments", "files"):
        if value := getattr(message, name):
            fields[name] = value
    if message.metadata and metadata:
        fields["metadata"] = message.metadata
    return fields


def streamed(stream: Stream) -> list[Json]:
    """Return the blocks that a stream is kept as."""
    blocks: list[Json] = []
    for part in stream.parts:
        match part:
            case str():
                blocks.append({"type": "markdown", "text": part})
            case TaskCard():
                blocks.append(_card(part))
            case list():
                blocks += part
    return blocks


def message(workspace: SimulatedWorkspace, channel: Channel, message: SlackMessage, app_id: str = "") -> Json:
    """Return the event of a new message."""
    event = as_json(message, app_id)
    root = channel.messages.get(message.thread_ts or "")
    if root is not None:
        event["parent_user_id"] = root.user
    author = workspace.users.get(message.user)
    if author is not None and author.stranger:
        event |= {"user_team": author.team, "source_team": author.team}
    return _of(channel, event, message.ts)


def changed(workspace: SimulatedWorkspace, channel: Channel, message: SlackMessage, before: Json, ts: str) -> Json:
    """Return the event of an edit, an unfurl or an update; only a person's edit has a new `edited.ts`."""
    now = as_json(message, before.get("app_id", "")) | {"source_team": workspace.id}
    event: Json = {"type": "message", "subtype": "message_changed", "hidden": True, "ts": ts}
    return _of(channel, event | {"message": now, "previous_message": before}, ts)


def gone(workspace: SimulatedWorkspace, channel: Channel, message: SlackMessage, before: Json, ts: str) -> Json:
    """Return the event of a deletion; of a thread's root with answers it is a change into a tombstone."""
    if message.subtype == "tombstone":
        return changed(workspace, channel, message, before, ts)
    event: Json = {"type": "message", "subtype": "message_deleted", "hidden": True, "ts": ts, "deleted_ts": message.ts}
    return _of(channel, event | {"previous_message": before}, ts)


def mention(event: Json) -> Json:
    """Return the `app_mention` that goes with the event of a message."""
    names = ("user", "bot_id", "app_id", "ts", "client_msg_id", "text", "thread_ts", "channel", "event_ts", "team")
    names += ("user_team", "blocks", "attachments", "files")
    return {"type": "app_mention", **{name: event[name] for name in names if name in event}}


def stopped(channel: Channel, user: str, root: str, streams: list[str], ts: str) -> Json:
    """Return the event of a press on Stop."""
    return {
        "type": "agent_session_stopped",
        "channel": channel.id,
        "user": user,
        "thread_ts": root,
        "streaming_message_ts": streams,
        "event_ts": ts,
    }


def renamed(
    workspace: SimulatedWorkspace, channel: Channel, user: str, root: str, session: SlackSession, old: str
) -> Json:
    """Return the event of a new title."""
    event: Json = {"type": "agent_session_title_changed", "channel": channel.id, "user": user}
    event |= {"team_id": workspace.id, "thread_ts": root, "title": session.title}
    return event | ({"previous_title": old} if old else {})


def envelope(
    workspace: SimulatedWorkspace, channel: Channel | None, event: Json, app_id: str, ids: tuple[str, int]
) -> Json:
    """Wrap *event* as the Events API does; *ids* are its id and its time in seconds."""
    event_id, seconds = ids
    bot: Json = {"enterprise_id": workspace.enterprise, "team_id": workspace.id, "user_id": workspace.bot.id}
    return {
        "token": "deprecated",
        "team_id": workspace.id,
        "context_team_id": workspace.id,
        "context_enterprise_id": workspace.enterprise,
        "api_app_id": app_id,
        "event": event,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": seconds,
        "event_context": f"4-{event_id}",
        "is_ext_shared_channel": channel is not None and channel.shared,
        "authorizations": [bot | {"is_bot": True, "is_enterprise_install": False}],
    }


def person(user: User) -> Json:
    """Return the person of an interaction."""
    return {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team}


def interaction(workspace: SimulatedWorkspace, user: User, app_id: str, more: Json) -> Json:
    """Return what all payloads of a click have, and *more*."""
    enterprise = {"id": workspace.enterprise, "name": workspace.name} if workspace.enterprise else None
    return {
        "team": {"id": workspace.id, "domain": workspace.name.lower()},
        "user": person(user),
        "api_app_id": app_id,
        "token": "deprecated",
        "enterprise": enterprise,
        "is_enterprise_install": False,
    } | more


def where(channel: Channel, message: SlackMessage, app_id: str) -> Json:
    """Return the part of a click that says on which message it was."""
    container: Json = {"type": "message", "message_ts": message.ts, "channel_id": channel.id}
    container |= {"is_ephemeral": message.to is not None}
    if message.thread_ts:
        container["thread_ts"] = message.thread_ts
    return {
        "container": container,
        "channel": {"id": channel.id, "name": channel.name},
        "message": as_json(message, app_id),
        "state": {"values": {}},
    }


def view(workspace: SimulatedWorkspace, opened: View, app_id: str) -> Json:
    """Return a view as it is answered and sent."""
    view = opened.view
    return {
        **view,
        "id": opened.id,
        "team_id": workspace.id,
        "app_id": app_id,
        "bot_id": workspace.bot_id,
        "hash": opened.hash,
        "root_view_id": opened.id,
        "private_metadata": view.get("private_metadata", ""),
        "callback_id": view.get("callback_id", ""),
        "state": view.get("state", {"values": {}}),
    }


def _card(task: TaskCard) -> Json:
    card: Json = {"type": "task_card", "task_id": task.id, "title": task.title, "status": task.status}
    for name in ("details", "output"):
        if text := getattr(task, name):
            section: Json = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
            card[name] = {"type": "rich_text", "elements": [section]}
    return card


def _of(channel: Channel, event: Json, ts: str) -> Json:
    return event | {"channel": channel.id, "channel_type": channel.kind, "event_ts": ts}


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
        if len(self.open) >= limits.SOCKETS:
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


DeliveryKind = Literal["events_api", "interactive", "slash_commands"]
_PATHS: Mapping[DeliveryKind, int] = {"events_api": 0, "interactive": 1, "slash_commands": 2}
_PAUSES = (limits.EVENT_RETRY_1, limits.EVENT_RETRY_2, limits.EVENT_RETRY_3)
_REDIRECTS = 2
_OK = range(200, 300)


@dataclass(slots=True, eq=False)
class Notification:
    """One notification of the app; *failures* are Slack's reasons, one per attempt that went wrong."""

    kind: DeliveryKind
    payload: Json
    failures: list[str] = field(default_factory=list[str])
    status: int | None = None
    acked: bool = False
    answer: Json = field(default_factory=dict[str, Any])
    _tried: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def tried(self) -> "Notification":
        """Return once the app has acknowledged, or all that Slack tries at once has failed, or it is held back."""
        await self._tried.wait()
        return self

    async def finished(self) -> "Notification":
        """Return once the app has acknowledged or Slack has given up."""
        await self._over.wait()
        return self

    def pauses(self) -> None:
        self._tried.set()

    def ends(self) -> None:
        self._tried.set()
        self._over.set()

    @property
    def type(self) -> str:
        """Return the type of the event, or of the payload."""
        return str(self.payload.get("event", self.payload).get("type", self.kind))


class Courier:
    """Deliver to the app and keep what was delivered.

    Requests are signed with the time of *signed_at*, the machine's own unless a test turns that too: SDKs
    compare it with theirs.
    """

    def __init__(
        self,
        app: App,
        clock: Clock,
        faults: Faults,
        sockets: Sockets,
        *,
        changed: Callable[[], None],
        ack_within: float,
        signed_at: Callable[[], float],
    ) -> None:
        self.app = app
        self.sent: list[Notification] = []
        self._clock, self._faults, self._sockets = clock, faults, sockets
        self._changed, self._ack_within, self._signed_at = changed, ack_within, signed_at
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._held: list[asyncio.Event] = []

    def open(self) -> None:
        """Begin to deliver."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._ack_within))

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def subscribed(self, name: str) -> bool:
        return name in self.app.subscribed

    def event(self, workspace: SimulatedWorkspace, channel: Channel | None, event: Json) -> list[Notification]:
        """Send *event* if the app has subscribed to it and may see it."""
        if not self._wanted(workspace, channel, event):
            return []
        ids = f"Ev{secrets.token_hex(5).upper()}", self._clock.now() // 1000
        payload = envelope(workspace, channel, event, self.app.id, ids)
        again = self._faults.strike("duplicate", event["type"], workspace.id) is not None
        return [self._start("events_api", payload, workspace.id) for _ in range(2 if again else 1)]

    def interaction(self, payload: Json, workspace: str, kind: DeliveryKind = "interactive") -> Notification:
        """Send a click, a command, a shortcut or a view; Slack does not repeat these."""
        return self._start(kind, payload, workspace)

    def _wanted(self, workspace: SimulatedWorkspace, channel: Channel | None, event: Json) -> bool:
        name = event["type"]
        if name == "app_mention":
            return self.subscribed(name) and "app_mentions:read" in workspace.scopes
        if name != "message" or channel is None:
            return self.subscribed(name)
        plural = {"channel": "channels", "group": "groups"}.get(channel.kind, channel.kind)
        inside = workspace.bot.id in channel.members
        return inside and self.subscribed(f"message.{plural}") and f"{plural}:history" in workspace.scopes

    def _start(self, kind: DeliveryKind, payload: Json, workspace: str) -> Notification:
        delivery = Notification(kind, payload)
        self.sent.append(delivery)
        self.run(self._deliver(delivery, workspace))
        return delivery

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* beside everything else, until the end of the stand-in."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, delivery: Notification, workspace: str) -> None:
        try:
            await self._hold(delivery, workspace)
            for attempt in range(1 + (len(_PAUSES) if delivery.kind == "events_api" else 0)):
                if attempt and (pause := _PAUSES[attempt - 1]):
                    delivery.pauses()
                    await self._clock.sleep(pause)
                over = await self._attempt(delivery, attempt)
                self._changed()
                if over:
                    break
        finally:
            delivery.ends()
            self._changed()

    async def _hold(self, delivery: Notification, workspace: str) -> None:
        """Hold a delivery back that is to be late, or until the next one is through; let go of the one before."""
        if fault := self._faults.strike("late", delivery.type, workspace):
            delivery.pauses()
            await self._clock.sleep(fault.seconds)
        elif self._faults.strike("out_of_order", delivery.type, workspace):
            delivery.pauses()
            self._held.append(through := asyncio.Event())
            await through.wait()
        elif self._held:
            waiting, self._held = self._held, []
            self.run(_release(waiting, delivery))

    async def _attempt(self, delivery: Notification, attempt: int) -> bool:
        """Try once; return whether that was the last try."""
        reason = delivery.failures[-1] if delivery.failures else ""
        try:
            if self.app.socket_mode:
                delivery.answer = await self._sockets.send(delivery.kind, delivery.payload, attempt, reason)
            else:
                await self._request(delivery, attempt, reason)
        except NotAcknowledged as error:
            delivery.failures.append(str(error))
            return bool(delivery.answer.get("no_retry"))
        delivery.acked = True
        return True

    async def _request(self, delivery: Notification, attempt: int, reason: str) -> None:
        if self._session is None or self.app.url is None:
            raise NotAcknowledged("connection_failed")
        content_type, body = _encoded(delivery)
        url = f"{self.app.url.rstrip('/')}{self.app.paths[_PATHS[delivery.kind]]}"
        headers = self._signed(body) | {"Content-Type": content_type}
        if attempt:
            headers |= {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason}
        try:
            async with self._session.post(url, data=body, headers=headers, max_redirects=_REDIRECTS) as response:
                delivery.status = response.status
                delivery.answer = _read(await response.text())
                stop = response.headers.get("X-Slack-No-Retry") == "1"
        except TimeoutError:
            raise NotAcknowledged("http_timeout") from None
        except aiohttp.TooManyRedirects:
            raise NotAcknowledged("too_many_redirects") from None
        except aiohttp.ClientError:
            raise NotAcknowledged("connection_failed") from None
        if delivery.status not in _OK:
            delivery.answer = {"no_retry": stop}
            raise NotAcknowledged("http_error")

    def _signed(self, body: str) -> dict[str, str]:
        timestamp = str(int(self._signed_at()))
        signature = SignatureVerifier(self.app.signing_secret).generate_signature(timestamp=timestamp, body=body)
        return {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": str(signature)}


async def _release(waiting: list[asyncio.Event], after: Notification) -> None:
    await after.tried()
    for each in waiting:
        each.set()


def _encoded(delivery: Notification) -> tuple[str, str]:
    form = "application/x-www-form-urlencoded"
    match delivery.kind:
        case "events_api":
            return "application/json", json.dumps(delivery.payload)
        case "interactive":
            return form, urlencode({"payload": json.dumps(delivery.payload)})
        case "slash_commands":
            return form, urlencode({name: value for name, value in delivery.payload.items() if value is not None})


def _read(text: str) -> Json:
    """Return the answer's JSON; plain text is what a command says back."""
    try:
        body: Any = json.loads(text) if text else {}
    except ValueError:
        return {"text": text}
    return cast("Json", body) if isinstance(body, dict) else {}


def machine_time() -> float:
    """Return the machine's own time in seconds."""
    return time.time()
