"""The stand-in: a server of Slack's Web API, with sessions, streams, files and views."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Protocol, cast, get_args

from aiohttp import web

from agent_core.clock import Clock, SystemClock
from agent_core.testing import Level
from channels.slack import limits
from channels.slack.pace import CallBudget
from channels.slack.testing import content as posting
from channels.slack.testing import content as reading
from channels.slack.testing import deliveries as payloads
from channels.slack.testing.blocks import ShapeProblem, check_view
from channels.slack.testing.content import (
    append_chunks,
    blocks_in,
    blocks_of,
    chunks_of,
    metadata_of,
    owned,
    raise_problems,
    thread_of,
)
from channels.slack.testing.deliveries import (
    App,
    Armed,
    Courier,
    Faults,
    InjectedFault,
    Notification,
    Sockets,
    machine_time,
)
from channels.slack.testing.team import Team, Tickets
from channels.slack.testing.world import (
    Arguments,
    Channel,
    Json,
    Method,
    MethodContext,
    MethodFailed,
    SessionStatus,
    SimulatedWorkspace,
    SlackFile,
    SlackMessage,
    SlackSession,
    Stream,
    View,
)

_NO_STOP = "missing_agent_session_stopped_event_subscription"


def session_at(channel: Channel, root: str) -> SlackSession:
    """Return the session of the thread *root*, opened if need be."""
    return channel.sessions.setdefault(root, SlackSession())


def status_of(arguments: Arguments, name: str, default: str = "") -> SessionStatus:
    """Return a session's status."""
    if (status := arguments.text(name, default)) not in get_args(SessionStatus):
        raise MethodFailed("invalid_arguments", f"[ERROR] must be a status of a session [json-pointer:/{name}]")
    return cast("SessionStatus", status)


def set_status(context: MethodContext, arguments: Arguments) -> Json:
    """`agents.sessions.setStatus`."""
    channel, root = _thread(context, arguments)
    status, title = status_of(arguments, "status"), arguments.text("title")
    if len(title) > limits.SESSION_TITLE:
        raise MethodFailed("invalid_arguments", "[ERROR] title is too long [json-pointer:/title]")
    if root not in channel.sessions and title:
        session_at(channel, root).title = title
    session = session_at(channel, root)
    session.become(status, context.now)
    body: Json = {"status": status, "agent_status": status}
    if status == "processing" and not context.subscribed("agent_session_stopped"):
        body |= {"warning": _NO_STOP, "response_metadata": {"warnings": [_NO_STOP]}}
    return body


def rename(context: MethodContext, arguments: Arguments) -> Json:
    """`agents.sessions.rename`."""
    channel, root = _thread(context, arguments)
    title = arguments.need("title")
    if len(title) > limits.SESSION_TITLE:
        raise MethodFailed("invalid_arguments", "[ERROR] title is too long [json-pointer:/title]")
    session_at(channel, root).title = title
    return {}


def bridge_status(context: MethodContext, arguments: Arguments) -> Json:
    """`assistant.threads.setStatus`: a text sets the session to `processing`, none to `active`."""
    channel, root = _thread(context, arguments)
    loading = arguments.texts("loading_messages")
    if len(loading) > limits.LOADING_MESSAGES:
        raise MethodFailed("invalid_arguments", "[ERROR] too many loading messages [json-pointer:/loading_messages]")
    session, status = session_at(channel, root), arguments.text("status")
    session.become("processing" if status else "active", context.now)
    session.loading = status
    return {}


def set_prompts(context: MethodContext, arguments: Arguments) -> Json:
    """`assistant.threads.setSuggestedPrompts`: without effect where `thread_ts` is given."""
    channel = context.channel(arguments.need("channel_id"))
    prompts = arguments.listed("prompts", "invalid_arguments")
    if not prompts or len(prompts) > limits.PROMPTS:
        raise MethodFailed("invalid_arguments", f"[ERROR] from 1 to {limits.PROMPTS} [json-pointer:/prompts]")
    for n, prompt in enumerate(prompts):
        texts: list[Any] = [prompt.get("title"), prompt.get("message")]
        if not all(isinstance(each, str) and each for each in texts):
            raise MethodFailed(
                "invalid_arguments", f"[ERROR] title and message are required [json-pointer:/prompts/{n}]"
            )
    if not arguments.text("thread_ts"):
        channel.prompts = {"title": arguments.text("title"), "prompts": prompts}
    return {}


def _thread(context: MethodContext, arguments: Arguments) -> tuple[Channel, str]:
    channel = context.channel(arguments.need("channel_id"))
    root = arguments.text("thread_ts")
    if not root or (root not in channel.messages and not channel.replies(root)):
        raise MethodFailed("invalid_thread_ts")
    return channel, root


def start(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.startStream`: opens the session and sets it to `processing`."""
    _refuse_metadata(arguments)
    channel = context.channel(arguments.need("channel"), write=True)
    root = thread_of(channel, arguments.text("thread_ts"), "invalid_thread_ts")
    if root is None:
        raise MethodFailed("invalid_thread_ts")
    _check_recipient(context, arguments, channel)
    stream = Stream(context.now)
    warnings = append_chunks(chunks_of(arguments), stream)
    message = SlackMessage(
        channel.stamp(context.now), context.workspace.bot.id, "", root, context.workspace.id, stream=stream
    )
    message.bot_id = context.workspace.bot_id
    channel.messages[message.ts] = message
    session_at(channel, root).become("processing", context.now)
    context.notify(channel, payloads.message(context.workspace, channel, message))
    return _answer(channel, message, warnings)


def append(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.appendStream`."""
    _refuse_metadata(arguments)
    channel, message, stream = _open(context, arguments)
    chunks = chunks_of(arguments)
    if not chunks:
        raise MethodFailed("no_text")
    return _answer(channel, message, append_chunks(chunks, stream))


def stop(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.stopStream`: the only call of a stream that takes metadata; its blocks are below all else."""
    channel, message, stream = _open(context, arguments)
    status = status_of(arguments, "session_status", "active")
    chunks, blocks, metadata = chunks_of(arguments), blocks_of(arguments), metadata_of(arguments)
    before = payloads.as_json(message, context.app_id)
    warnings = append_chunks([*chunks, *([{"type": "blocks", "blocks": blocks}] if blocks else [])], stream)
    stream.ended, message.metadata = "finished", metadata
    session_at(channel, message.root).become(status, context.now)
    context.notify(channel, payloads.changed(context.workspace, channel, message, before, channel.stamp(context.now)))
    body = payloads.as_json(message, context.app_id)
    return {**_answer(channel, message, warnings), "message": body}


def _open(context: MethodContext, arguments: Arguments) -> tuple[Channel, SlackMessage, Stream]:
    """Return the stream of the call while it runs."""
    channel = context.channel(arguments.need("channel"), write=True)
    message = owned(context, channel, arguments.need("ts"), "message_not_owned_by_app")
    stream = message.stream
    if stream is not None and stream.ended == "stopped_by_user":
        raise MethodFailed("stopped_by_user")
    if stream is None or stream.settled(context.now):
        raise MethodFailed("message_not_in_streaming_state")
    return channel, message, stream


def _refuse_metadata(arguments: Arguments) -> None:
    if arguments.get("metadata") is not None:
        raise MethodFailed("invalid_arguments", "[ERROR] only chat.stopStream takes it [json-pointer:/metadata]")


def _check_recipient(context: MethodContext, arguments: Arguments, channel: Channel) -> None:
    user, team = arguments.text("recipient_user_id"), arguments.text("recipient_team_id")
    if channel.kind != "im" and not user:
        raise MethodFailed("missing_recipient_user_id")
    if channel.kind != "im" and not team:
        raise MethodFailed("missing_recipient_team_id")
    if user and user not in context.workspace.users:
        raise MethodFailed("user_not_found")


def _answer(channel: Channel, message: SlackMessage, warnings: list[str]) -> Json:
    body: Json = {"channel": channel.id, "ts": message.ts}
    if warnings:
        body |= {"warning": ",".join(warnings), "response_metadata": {"warnings": warnings}}
    return body


_IMAGES = ("image/png", "image/jpeg", "image/gif")


def get_url(context: MethodContext, arguments: Arguments) -> Json:
    """`files.getUploadURLExternal`: a file's id, and where its bytes go."""
    name, length = arguments.need("filename"), arguments.number("length", 0)
    if length <= 0:
        raise MethodFailed("invalid_arguments", "[ERROR] must be at least 1 [json-pointer:/length]")
    if len(alt := arguments.text("alt_txt")) > limits.FILE_ALT:
        raise MethodFailed("invalid_arguments", "[ERROR] is too long [json-pointer:/alt_txt]")
    file = SlackFile(context.unique("F"), name, length, alt=alt)
    context.workspace.files[file.id] = file
    return {"upload_url": f"{context.base_url}upload/v1/{context.workspace.id}/{file.id}", "file_id": file.id}


def put_bytes(workspace: SimulatedWorkspace, id: str, content: bytes) -> str:
    """Keep the bytes that were sent to an upload URL; raises `MethodFailed` unless they are as many as announced."""
    file = workspace.files.get(id)
    if file is None or file.is_complete:
        raise MethodFailed("file_not_found")
    if len(content) != file.length:
        raise MethodFailed("invalid_arguments")
    file.content = content
    return f"OK - {len(content)}"


def complete(context: MethodContext, arguments: Arguments) -> Json:
    """`files.completeUploadExternal`: once per upload; the message in a channel comes when the file is processed."""
    requested = arguments.listed("files", "invalid_arguments") or []
    files = [context.workspace.files.get(str(each.get("id"))) for each in requested]
    complete_files = [file for file in files if file is not None and file.content and not file.is_complete]
    if not requested or len(complete_files) < len(requested):
        raise MethodFailed("file_not_found")
    channel = context.channel(arguments.need("channel_id"), write=True) if arguments.text("channel_id") else None
    if channel is None and arguments.text("thread_ts"):
        raise MethodFailed("invalid_arguments", "[ERROR] needs a channel_id [json-pointer:/thread_ts]")
    root = thread_of(channel, arguments.text("thread_ts"), "thread_not_found") if channel is not None else None
    for file, entry in zip(complete_files, requested, strict=True):
        file.title, file.ready_at = str(entry.get("title") or file.name), context.now + context.workspace.processing
    if channel is not None:
        _share(context, channel, root, complete_files, arguments.text("initial_comment"))
    return {"files": [{"id": file.id, "title": file.title} for file in complete_files]}


def _share(context: MethodContext, channel: Channel, root: str | None, files: list[SlackFile], words: str) -> None:
    ready = max(context.now, *(file.ready_at or 0 for file in files))
    bot = context.workspace.bot
    message = SlackMessage("", bot.id, words, root, context.workspace.id, context.workspace.bot_id)
    message.subtype, message.files = "file_share", [file.as_json() for file in files]
    channel.arrive(ready, message, files)
    channel.settle(context.now)
    if message.ts:
        context.notify(channel, payloads.message(context.workspace, channel, message))


def info(context: MethodContext, arguments: Arguments) -> Json:
    """`files.info`: of a complete file, with where it was shared."""
    file = _file_of(context, arguments)
    for channel in context.workspace.channels.values():
        channel.settle(context.now)
    shares: dict[str, dict[str, list[Json]]] = {}
    for id, places in file.shares.items():
        kind = "public" if context.workspace.channels[id].kind == "channel" else "private"
        shares.setdefault(kind, {})[id] = places
    return {"file": file.as_json() | {"shares": shares}}


def file_problems(workspace: SimulatedWorkspace, blocks: list[Json], now: int) -> Iterator[ShapeProblem]:
    """Give what is wrong with the files that image *blocks* name: each must be a processed picture."""
    for n, block in enumerate(blocks):
        for at, id in _named(block, f"/{n}"):
            file = workspace.files.get(id)
            if file is None or file.ready_at is None or now < file.ready_at:
                yield ShapeProblem(at, "invalid_slack_file", "invalid slack file")
            elif file.mimetype not in _IMAGES:
                yield ShapeProblem(at, "invalid_slack_file", "the file is no picture")


def _named(part: Any, at: str) -> Iterator[tuple[str, str]]:
    """Give the files that a part of a block names, each with where it does."""
    if isinstance(part, list):
        for n, each in enumerate(cast("list[Any]", part)):
            yield from _named(each, f"{at}/{n}")
    elif isinstance(part, dict):
        for name, value in cast("Json", part).items():
            if name == "slack_file" and isinstance(value, dict) and "id" in value:
                yield f"{at}/slack_file", str(cast("Json", value)["id"])
            elif name == "slack_file":
                continue
            else:
                yield from _named(value, f"{at}/{name}")


def _file_of(context: MethodContext, arguments: Arguments) -> SlackFile:
    file = context.workspace.files.get(arguments.need("file"))
    if file is None or not file.is_complete:
        raise MethodFailed("file_not_found")
    return file


def open_modal(context: MethodContext, arguments: Arguments) -> Json:
    """`views.open`."""
    view = arguments.mapping("view", "invalid_arguments")
    if view is None or view.get("type") != "modal":
        raise MethodFailed("invalid_arguments", "[ERROR] must be a modal [json-pointer:/view/type]")
    if len(json.dumps(view).encode()) > limits.VIEW_BYTES:
        raise MethodFailed("view_too_large")
    raise_problems("invalid_arguments", check_view(view), "/view")
    opened = View(context.unique("V"), context.unique("h"), view, context.redeem(arguments.need("trigger_id")))
    context.workspace.views[opened.id] = opened
    return {"view": payloads.view(context.workspace, opened, context.app_id)}


@dataclass(frozen=True, slots=True)
class ScopedMethod:
    """A method with the scopes of which it needs one; none where any token is good."""

    run: Method
    scopes: tuple[str, ...] = ()


_READ = ("channels:read", "groups:read", "im:read", "mpim:read")
_HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")
_STATUS = ("chat:write", "assistant:write")

METHODS: Mapping[str, ScopedMethod] = MappingProxyType(
    {
        "auth.test": ScopedMethod(reading.auth_test),
        "chat.postMessage": ScopedMethod(posting.post, ("chat:write",)),
        "chat.postEphemeral": ScopedMethod(posting.post_ephemeral, ("chat:write",)),
        "chat.update": ScopedMethod(posting.update, ("chat:write",)),
        "chat.getPermalink": ScopedMethod(posting.permalink),
        "chat.startStream": ScopedMethod(start, ("chat:write",)),
        "chat.appendStream": ScopedMethod(append, ("chat:write",)),
        "chat.stopStream": ScopedMethod(stop, ("chat:write",)),
        "agents.sessions.setStatus": ScopedMethod(set_status, ("chat:write",)),
        "agents.sessions.rename": ScopedMethod(rename, ("chat:write",)),
        "assistant.threads.setStatus": ScopedMethod(bridge_status, _STATUS),
        "assistant.threads.setSuggestedPrompts": ScopedMethod(set_prompts, ("assistant:write",)),
        "files.getUploadURLExternal": ScopedMethod(get_url, ("files:write",)),
        "files.completeUploadExternal": ScopedMethod(complete, ("files:write",)),
        "files.info": ScopedMethod(info, ("files:read",)),
        "conversations.replies": ScopedMethod(reading.replies, _HISTORY),
        "conversations.history": ScopedMethod(reading.history, _HISTORY),
        "conversations.info": ScopedMethod(reading.info, _READ),
        "conversations.open": ScopedMethod(reading.open_im, ("im:write",)),
        "users.info": ScopedMethod(reading.user, ("users:read",)),
        "usergroups.users.list": ScopedMethod(reading.group_users, ("usergroups:read",)),
        "views.open": ScopedMethod(open_modal),
    }
)


_MAX_UPLOAD = 64 * 1024 * 1024
UPLOAD = "upload"
"""What a call is named that sends the bytes of a file."""
_BEARER = "Bearer "
_SCOPES = "X-OAuth-Scopes"
_RATELIMITED = 429
_PATIENCE = 60.0
"""Seconds after which what is waited for is given up: far more than anything takes on a busy machine."""
_LOOK_EVERY = 0.25
"""Seconds between two looks at what is waited for while nothing is called, delivered or done."""
_GRACE = 0.2
"""Seconds for what is under way at the end: nothing but streams to browsers."""


class Rates(Protocol):
    """How often the app may call."""

    def take(self, method: str, team: str, channel: str | None, now: int) -> float:
        """Count a call at *now* (ms) and return 0.0, or the seconds until it would be allowed."""
        ...


@dataclass(slots=True, eq=False)
class ApiCall:
    """One call that came in: when (ms), of which workspace, with what, and how it was answered.

    *status* 0 is a cut connection; *answer* is what the call did, even if it never arrived.
    """

    at: int
    method: str
    team: str
    arguments: Mapping[str, Any]
    status: int = 0
    answer: Json | None = None

    @property
    def ok(self) -> bool:
        """Whether it had its effect."""
        return bool(self.answer and self.answer.get("ok"))


class SlackStandIn:
    """Play Slack for one app from `async with stand_in.serving() as url` on; `url + "api/"` is its Web API.

    Time is that of *clock*: streams and statuses age, events are retried and rates are counted by it; only the
    timeout of *ack_within* seconds for an answer is real. *rates* are Slack's documented ones; None counts nothing.
    With *echo* the app receives its own messages too, as with Slack. To wait for something, call `until`.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        workspaces: Iterable[SimulatedWorkspace] | None = None,
        app: App | None = None,
        rates: Rates | Literal["slack"] | None = "slack",
        echo: bool = True,
        ack_within: float = limits.ACK_WITHIN,
        signed_at: Callable[[], float] = machine_time,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.calls: list[ApiCall] = []
        self.faults = Faults()
        self.base_url = ""
        self._rates, self._echo = CallBudget() if rates == "slack" else rates, echo
        self._level = Level()
        app = app or App()
        self.sockets = Sockets(app.id, self.faults, self.changed, ack_within)
        self.courier = Courier(
            app, self.clock, self.faults, self.sockets, ack_within=ack_within, changed=self.changed, signed_at=signed_at
        )
        self.tickets = Tickets(self.clock)
        simulated = [SimulatedWorkspace.example()] if workspaces is None else workspaces
        self.teams = {each.id: Team(each, self.courier, self.tickets, self.clock, self.changed) for each in simulated}

    # ---- for tests -------------------------------------------------------------------------------

    @property
    def app(self) -> App:
        """Return the app as Slack knows it; set it to change where and of what it is notified."""
        return self.courier.app

    @app.setter
    def app(self, app: App) -> None:
        self.courier.app = app

    def deliver_to(self, url: str | None) -> None:
        """Send what happens to the app at *url* from now on."""
        self.app = replace(self.app, url=url)

    def team(self, id: str | None = None) -> Team:
        """Return a workspace, the first one without *id*."""
        return next(iter(self.teams.values())) if id is None else self.teams[id]

    def fault(self, fault: InjectedFault) -> Armed:
        """Let something go wrong."""
        return self.faults.add(fault)

    def called(self, method: str, team: str | None = None) -> list[ApiCall]:
        """Return the calls of *method*."""
        return [call for call in self.calls if call.method == method and team in (None, call.team)]

    @property
    def sent(self) -> list[Notification]:
        """Return everything that was sent to the app, delivered or not."""
        return self.courier.sent

    def changed(self) -> None:
        """Say that something is different now."""
        self._level.set(self._level.value + 1)

    async def until(self, true: Callable[[], object], timeout: float = _PATIENCE) -> None:
        """Return once *true* is; raise `TimeoutError` when it is not in time.

        It is asked again after each call, delivery and action, and now and then, as it may be about something else.
        """
        try:
            async with asyncio.timeout(timeout):
                while not true():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_EVERY):
                            await self.news(self._level.value)
        except TimeoutError:
            calls = ", ".join(f"{call.method} {call.status}" for call in self.calls[-8:])
            raise TimeoutError(
                f"It did not come true within {timeout:g} s; the last calls: {calls or 'none'}"
            ) from None

    @property
    def version(self) -> int:
        """Return how much has happened."""
        return self._level.value

    async def news(self, seen: int) -> int:
        """Return how much has happened, once that is more than *seen*."""
        await self._level.reached(seen + 1)
        return self._level.value

    @asynccontextmanager
    async def serving(self, port: int = 0, routes: Iterable[web.AbstractRouteDef] = ()) -> AsyncGenerator[str]:
        """Serve on 127.0.0.1, and *routes* with it; give the address, with a slash at its end."""
        app = web.Application(client_max_size=_MAX_UPLOAD)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link/", self.sockets.serve)
        app.router.add_post("/actions/{team}/{name}", self._respond)
        app.router.add_post("/upload/v1/{team}/{file}", self._upload)
        app.router.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_GRACE)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            self.base_url = self.tickets.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
            self.courier.open()
            yield self.base_url
        finally:
            await self.courier.close()
            await self.sockets.close()
            await runner.cleanup()

    # ---- the Web API -----------------------------------------------------------------------------

    async def _api(self, request: web.Request) -> web.StreamResponse:
        arguments = await _arguments(request)
        token = request.headers.get("Authorization", "").removeprefix(_BEARER) or str(arguments.pop("token", ""))
        team = next((each.workspace for each in self.teams.values() if each.bot_token == token), None)
        call = ApiCall(self.clock.now(), request.match_info["method"], team.id if team else "", arguments)
        self.calls.append(call)
        strike = partial(self.faults.strike, on=call.method, workspace=call.team)
        try:
            if strike("request_lost"):
                return _cut(request)
            broken = strike("server_error")
            headers = self._run(call, token, team) if broken is None or broken.effect else {}
            if broken is not None:
                call.status = broken.status
                return web.Response(status=broken.status, text="Service Unavailable")
            if call.ok and strike("answer_lost"):
                return _cut(request)
            call.status = _RATELIMITED if headers else 200
            headers |= {_SCOPES: ",".join(sorted(team.scopes))} if team else {}
            return web.json_response(call.answer, status=call.status, headers=headers)
        finally:
            self.changed()

    def _run(self, call: ApiCall, token: str, team: SimulatedWorkspace | None) -> dict[str, str]:
        """Carry the call out, keep its answer, and return the headers of a 429."""
        try:
            call.answer = {"ok": True, **self._answer(call, token, team)}
        except MethodFailed as refused:
            call.answer = refused.as_json()
            return {"Retry-After": str(refused.retry_after)} if refused.retry_after else {}
        return {}

    def _answer(self, call: ApiCall, token: str, team: SimulatedWorkspace | None) -> Json:
        entry = METHODS.get(call.method)
        is_known = entry is not None or call.method == "apps.connections.open"
        if fault := self.faults.strike("refused", call.method, call.team):
            raise MethodFailed(fault.code)
        if not is_known:
            raise MethodFailed("unknown_method")
        if not token:
            raise MethodFailed("not_authed")
        if (call.method == "apps.connections.open") != (token == self.app.app_token):
            raise MethodFailed("not_allowed_token_type" if team or token == self.app.app_token else "invalid_auth")
        if entry is None:
            return {"url": self.sockets.ticket(self.base_url)}
        if team is None:
            raise MethodFailed("invalid_auth")
        context, arguments = self._context(team), Arguments(call.arguments)
        if entry.scopes:
            context.need_scope(*entry.scopes)
        self._ration(call)
        self._break(call, team)
        for pointer, blocks in blocks_in(arguments):
            raise_problems("invalid_blocks", file_problems(team, blocks, context.now), pointer)
        return entry.run(context, arguments)

    def _ration(self, call: ApiCall) -> None:
        fault = self.faults.strike("ratelimited", call.method, call.team)
        channel = call.arguments.get("channel") or call.arguments.get("channel_id")
        wait = self._rates.take(call.method, call.team, channel, self.clock.now()) if self._rates is not None else 0.0
        if fault is not None or wait:
            seconds = int(-(-(fault.seconds if fault else wait) // 1))
            raise MethodFailed("ratelimited", retry_after=seconds)

    def _break(self, call: ApiCall, team: SimulatedWorkspace) -> None:
        """Let the faults strike that concern what the call is about."""
        arguments = call.arguments
        self._reject_blocks(call)
        channel = team.channels.get(str(arguments.get("channel")))
        message = channel.messages.get(str(arguments.get("ts"))) if channel else None
        stream = message.stream if message else None
        if stream and stream.ended is None and self.faults.strike("stream_closed", call.method, call.team):
            stream.ended = "closed"

    def _reject_blocks(self, call: ApiCall) -> None:
        places = {
            str(block.get("type")): f"{pointer}/{n}"
            for pointer, blocks in blocks_in(Arguments(call.arguments))
            for n, block in reversed(list(enumerate(blocks)))
        }
        if "view" not in call.arguments and not places:
            return
        if fault := self.faults.strike("invalid_blocks", call.method, call.team, blocks=places):
            if not fault.points:
                raise MethodFailed("invalid_blocks")
            place = places[fault.block] if fault.block else "/blocks/0"
            reason = ShapeProblem(place, "invalid_block", "rejected by a fault")
            raise_problems("invalid_blocks", [reason])

    def _context(self, workspace: SimulatedWorkspace) -> MethodContext:
        return MethodContext(
            workspace,
            self.app.id,
            self.clock.now(),
            self.base_url,
            partial(self._notify, workspace),
            self.courier.subscribed,
            self.tickets.redeem,
            self.tickets.unique,
        )

    def _notify(self, workspace: SimulatedWorkspace, channel: Channel, event: Json) -> None:
        if self._echo:
            self.courier.event(workspace, channel, event)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        """Take the bytes of a file; the URL alone says who may send them."""
        team, file, content = request.match_info["team"], request.match_info["file"], await request.read()
        values = {"file": file, "length": len(content), "authorization": "Authorization" in request.headers}
        call = ApiCall(self.clock.now(), UPLOAD, team, values)
        self.calls.append(call)
        strike = partial(self.faults.strike, on=UPLOAD, workspace=team)
        try:
            if strike("request_lost"):
                return _cut(request)
            if fault := strike("server_error") or strike("ratelimited"):
                call.status = _RATELIMITED if fault.kind == "ratelimited" else fault.status
                headers = {"Retry-After": f"{fault.seconds:.0f}"} if fault.kind == "ratelimited" else {}
                return web.Response(status=call.status, headers=headers, text="Service Unavailable")
            status = put_bytes(self.teams[team].workspace, file, content)
            call.answer = {"ok": True}
            if strike("answer_lost"):
                return _cut(request)
            call.status = 200
            return web.Response(text=status)
        except (MethodFailed, KeyError):
            call.status = 400
            return web.Response(status=400, text="bad request")
        finally:
            self.changed()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        try:
            self.tickets.use(request.match_info["name"], await request.json())
        except MethodFailed as refused:
            return web.Response(status=404, text=refused.code)
        finally:
            self.changed()
        return web.Response(text="ok")


async def _arguments(request: web.Request) -> dict[str, Any]:
    """Read arguments from the query, a form or JSON."""
    arguments: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        with suppress(json.JSONDecodeError):
            body = await request.json()
            arguments |= body if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
    elif request.can_read_body:
        arguments |= dict(await request.post())
    return arguments


def _cut(request: web.Request) -> web.StreamResponse:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
