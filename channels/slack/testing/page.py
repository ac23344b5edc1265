"""What the page shows of a stand-in, as JSON: one person's view of one workspace, one channel and one thread."""

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import resources
from typing import Any, Literal, cast, get_args

from aiohttp import web

from agent_core.testing.clock import serve
from channels.slack.testing.deliveries import App, Armed, FaultKind, InjectedFault
from channels.slack.testing.server import ApiCall, SlackStandIn
from channels.slack.testing.shown import Drawing, Node, VisibleMessage
from channels.slack.testing.team import Dispatched, NotPossible, Team
from channels.slack.testing.world import Json, SimulatedWorkspace

_ENDS = {"stopped_by_user": "stopped", "expired": "expired", "closed": "closed by Slack"}
_CALLS = 40
_DELIVERIES = 20


@dataclass(frozen=True, slots=True)
class PageLocation:
    """Who looks at what; empty where the page says nothing."""

    team: str = ""
    user: str = ""
    channel: str = ""
    thread: str = ""


@dataclass(frozen=True, slots=True)
class FilePlaces(Mapping[str, str]):
    """Where the page finds the files of *workspace* that are complete, by id."""

    workspace: SimulatedWorkspace

    def __getitem__(self, id: str) -> str:
        if not self.workspace.files[id].is_complete:
            raise KeyError(id)
        return f"/page/file/{self.workspace.id}/{id}"

    def __iter__(self) -> Iterator[str]:
        return (id for id, file in self.workspace.files.items() if file.is_complete)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class PageDrawing:
    """Draw one page; a message is drawn again only when it has changed."""

    def __init__(self, stand_in: SlackStandIn, place: PageLocation) -> None:
        self._stand_in = stand_in
        self._team = stand_in.teams.get(place.team) or stand_in.team()
        people = self._team.workspace.users
        self._user = people.get(place.user) or next(each for each in people.values() if not each.bot)
        self._channel, self._thread = place.channel, place.thread
        workspace = self._team.workspace
        names = {each.id: each.name for each in people.values()} | {c.id: c.name for c in workspace.channels.values()}
        self._drawing = Drawing(names, FilePlaces(workspace))
        self._drawn: dict[str, tuple[str, list[Node]]] = {}

    def now(self) -> Json:
        """Return everything as it is now."""
        team, workspace, user = self._team, self._team.workspace, self._user
        direct = workspace.im(user.id)
        mine = [each for each in workspace.channels.values() if user.id in each.members]
        channel = next((each for each in mine if each.id == self._channel), mine[0])
        messages = team.top(channel.id, user=user.id)
        return {
            "teams": [{"id": each.id, "name": each.workspace.name} for each in self._stand_in.teams.values()],
            "team": {"id": team.id, "name": workspace.name, "bot": workspace.bot.name},
            "people": [asdict(each) for each in workspace.users.values() if not each.bot],
            "user": asdict(user),
            "channels": [_channel(each.id, each.name, each.kind, shared=each.shared) for each in mine],
            "direct": direct.id,
            "channel": _channel(channel.id, channel.name, channel.kind, shared=channel.shared),
            "prompts": channel.prompts,
            "messages": [self._message(each, channel.id, in_thread=False) for each in messages],
            "thread": self._open_thread(team, channel.id),
            "views": [self._view(each.id, each.view) for each in workspace.views.values() if each.user == user.id],
            "faults": [_fault(n, each) for n, each in enumerate(self._stand_in.faults.armed)],
            "calls": [_call(each) for each in self._stand_in.calls[-_CALLS:]][::-1],
            "deliveries": [
                {"type": each.type, "acked": each.acked, "failures": each.failures}
                for each in self._stand_in.sent[-_DELIVERIES:]
            ][::-1],
            "link": self._link(),
        }

    def _link(self) -> str:
        """Say where events go."""
        app, sockets = self._stand_in.app, len(self._stand_in.sockets.open)
        if not app.socket_mode:
            return f"Events go to {app.url}" if app.url else "No app listens yet"
        return f"Socket Mode, {sockets} open" if sockets else "Socket Mode, no app is connected"

    def _open_thread(self, team: Team, channel: str) -> Json | None:
        if not self._thread:
            return None
        session = team.session(channel, self._thread)
        thread = team.thread(channel, self._thread, user=self._user.id)
        return {
            "ts": self._thread,
            "session": asdict(session) if session else None,
            "messages": [self._message(each, channel, in_thread=True) for each in thread],
        }

    def _message(self, message: VisibleMessage, channel: str, *, in_thread: bool) -> Json:
        author = self._team.workspace.users.get(message.user)
        session = None if in_thread else self._team.session(channel, message.ts)
        return {
            "ts": message.ts,
            "name": author.real_name if author else message.user,
            "bot": author is None or author.bot,
            "mine": message.user == self._user.id,
            "mark": "guest" if author and author.guest else "external" if author and author.stranger else "",
            "nodes": self._draw(message),
            "source": message.source,
            "streaming": message.streaming,
            "ended": _ENDS.get(message.ended or ""),
            "edited": message.edited,
            "deleted": message.deleted,
            "private": message.to is not None,
            "replies": 0 if in_thread else len(self._team.workspace.channels[channel].replies(message.ts)),
            "status": session.status if session else "",
            "title": session.title if session else "",
        }

    def _draw(self, message: VisibleMessage) -> list[Node]:
        key = json.dumps([message.source, message.blocks, message.files])
        if message.ts not in self._drawn or self._drawn[message.ts][0] != key:
            blocks = list(message.blocks)
            nodes = self._drawing.blocks(blocks) if blocks else self._drawing.mrkdwn(message.source)
            self._drawn[message.ts] = key, [*nodes, *self._drawing.files(message.files)]
        return self._drawn[message.ts][1]

    def _view(self, id: str, view: Json) -> Json:
        text: Callable[[str], str] = lambda name: str(view.get(name, {}).get("text", ""))  # noqa: E731
        return {
            "id": id,
            "title": text("title"),
            "submit": text("submit"),
            "close": text("close"),
            "errors": view.get("errors", {}),
            "state": view.get("state", {}).get("values", {}),
            "nodes": self._drawing.blocks(view.get("blocks", [])),
        }


def _channel(id: str, name: str, kind: str, *, shared: bool) -> Json:
    return {"id": id, "name": name, "kind": kind, "shared": shared}


def _fault(n: int, armed: Armed) -> Json:
    fault = armed.fault
    return {"n": n, "kind": fault.kind, "on": fault.on or "", "struck": armed.struck, "spent": armed.spent}


def _call(call: ApiCall) -> Json:
    error: Any = "" if call.ok else (call.answer or {}).get("error", "")
    return {"at": call.at, "method": call.method, "status": call.status, "error": error}


_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_MIN_PAUSE = 0.05
"""Seconds between two pictures: eyes see no more."""
_BREATH = 1.0
"""Seconds after which a picture is looked at again although nothing has happened: streams age by themselves."""
_NAME = re.compile(r"@([a-zA-Z][\w.-]*)")
_NO_ANSWER = "The app did not acknowledge: {}"

Act = Literal[
    "says", "edits", "deletes", "presses", "stops", "renames", "opens", "shortcut", "submits", "closes", "fault", "lift"
]


class StandInPage:
    """Serve the page of *stand_in* to browsers of this machine."""

    def __init__(self, stand_in: SlackStandIn) -> None:
        self._stand_in = stand_in

    def routes(self) -> list[web.RouteDef]:
        """Return what the page needs."""
        return [
            web.get("/", self._file),
            web.get("/page/live", self._live),
            web.post("/page/act", self._act),
            web.get("/page/file/{team}/{file}", self._shared),
        ]

    async def _file(self, request: web.Request) -> web.Response:
        _check_host(request)
        nonce = secrets.token_urlsafe(16)
        html = resources.files(__package__ or "").joinpath("page.html").read_text("utf-8").replace("{nonce}", nonce)
        policy = f"default-src 'none'; connect-src 'self'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        policy += f"; img-src http://{request.host}/page/file/"
        headers = {
            "Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'",
            "Cache-Control": "no-store",
        }
        return web.Response(text=html, content_type="text/html", headers=headers)

    async def _shared(self, request: web.Request) -> web.Response:
        """Give an uploaded picture, as nothing but a picture."""
        _check_host(request)
        team = self._stand_in.teams.get(request.match_info["team"])
        file = team.workspace.files.get(request.match_info["file"]) if team else None
        if file is None or not file.is_complete or not file.mimetype.startswith("image/"):
            raise web.HTTPNotFound
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
        return web.Response(body=file.content, content_type=file.mimetype, headers=headers)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """Send a picture whenever another one is to be seen, until the browser goes."""
        _check_host(request)
        picture = PageDrawing(self._stand_in, _place(self._stand_in, request.query))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        last, seen = "", self._stand_in.version
        with suppress(ConnectionResetError):
            while True:
                state = json.dumps(picture.now(), default=str)
                # A comment distinguishes a browser that is gone from one that only waits.
                await response.write(b":\n\n" if state == last else f"data: {state}\n\n".encode())
                last = state
                await asyncio.sleep(_MIN_PAUSE)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BREATH):
                        seen = await self._stand_in.news(seen)
        return response

    async def _act(self, request: web.Request) -> web.Response:
        """Do what a person did on the page; the answer says what went wrong."""
        _check_host(request)
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType
        action: Json = await request.json()
        try:
            dispatched = await self._do(action)
        except (NotPossible, KeyError, ValueError) as error:
            return web.json_response({"problem": str(error)})
        failed = dispatched is not None and not dispatched.acked and bool(dispatched.failures)
        problem = _NO_ANSWER.format(dispatched.failures[-1]) if dispatched is not None and failed else ""
        return web.json_response({"problem": problem, "ts": dispatched.ts if dispatched else ""})

    async def _do(self, action: Json) -> Dispatched | None:
        act = cast("Act", action["do"])
        if act not in get_args(Act):
            raise NotPossible(f"There is no action {act}.")
        if act in ("fault", "lift"):
            self._switch(act, action)
            return None
        team = self._stand_in.team(action["team"])
        return await _doing(act, team, action)

    def _switch(self, act: str, body: Json) -> None:
        if act == "lift":
            self._stand_in.faults.armed[int(body["n"])].lift()
        elif body["kind"] not in get_args(FaultKind):
            raise NotPossible(f"There is no fault {body['kind']}.")
        else:
            self._stand_in.fault(InjectedFault(body["kind"], body.get("on") or None, times=body.get("times") or None))
        self._stand_in.changed()


def _place(stand_in: SlackStandIn, query: Mapping[str, str]) -> PageLocation:
    """Return where a page looks: who acts as another person stays, in their own conversation with the app too.

    In a channel that the person cannot see there is nothing to stay at.
    """
    team, user, channel, thread = (query.get(name, "") for name in ("team", "user", "channel", "thread"))
    workspace = (stand_in.teams.get(team) or stand_in.team()).workspace
    target = workspace.channels.get(channel)
    if target is None or user not in workspace.users or user in target.members:
        return PageLocation(team, user, channel, thread)
    return PageLocation(team, user, workspace.im(user).id if target.kind == "im" else "", "")


def _doing(act: Act, team: Team, fields: Mapping[str, Any]) -> Awaitable[Dispatched]:
    user, channel, ts, text = (str(fields.get(name, "")) for name in ("user", "channel", "ts", "text"))
    match act:
        case "says" if text.startswith("/"):
            command, _, rest = text.partition(" ")
            return team.command(user, channel, command, rest)
        case "says":
            return team.says(user, channel, _typed(team, text), fields.get("thread") or None)
        case "edits":
            return team.edits(user, channel, ts, _typed(team, text))
        case "deletes":
            return team.deletes(user, channel, ts)
        case "presses":
            return team.presses(user, channel, ts, fields["action"], fields.get("value"))
        case "stops":
            return team.stops(user, channel, ts)
        case "renames":
            return team.renames(user, channel, ts, text)
        case "opens":
            return team.opens_home(user)
        case "shortcut":
            return team.shortcut(user, fields["callback"], channel, ts)
        case "submits":
            return team.submits(user, fields["view"], fields["values"])
        case "closes":
            return team.closes(user, fields["view"])
        case _:
            raise NotPossible(f"There is no action {act} in a workspace.")


def _typed(team: Team, text: str) -> str:
    """Turn the `@name` that a person types, in letters of any case, into a mention."""
    ids = {each.name.lower(): each.id for each in team.workspace.users.values()}
    return _NAME.sub(lambda match: f"<@{ids[match[1].lower()]}>" if match[1].lower() in ids else match[0], text)


def _check_host(request: web.Request) -> None:
    """Refuse pages of elsewhere that have found a way to this machine."""
    host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
    origin = request.headers.get("Origin", f"http://{request.host}")
    if host not in _HOSTS or origin != f"http://{request.host}":
        raise web.HTTPForbidden(text="The page is for this machine alone.")


_SETTINGS = """\
Slack stand-in at {url} (open it in a browser); Ctrl-C ends it.

  SLACK_API_URL={url}api/
  SLACK_BOT_TOKEN={bot_token}
  SLACK_SIGNING_SECRET={secret}
"""
_SOCKET = "  SLACK_APP_TOKEN={app_token}\n\nEvents go through Socket Mode.\n"
_HTTP = "\nEvents go to {app_url}{path}.\n"


def simulate(*, port: int, app_url: str, signing_secret: str | None, socket_mode: bool) -> None:
    """Serve a Slack stand-in on *port* of 127.0.0.1 (0: a free one) for the app at *app_url* until Ctrl-C.

    Without a *signing_secret* it has the default one. Exits with 1 when the port is taken.
    """
    app = App(signing_secret=signing_secret or App().signing_secret, url=app_url, socket_mode=socket_mode)
    workspaces = [SimulatedWorkspace.example(), SimulatedWorkspace.example("T0002", "Globex")]
    stand_in = SlackStandIn(app=app, workspaces=workspaces)
    listening = stand_in.serving(port, StandInPage(stand_in).routes())
    asyncio.run(serve("parley slack simulate", listening, partial(_settings, stand_in)))


def _settings(stand_in: SlackStandIn, url: str) -> str:
    app = stand_in.app
    text = _SETTINGS + (_SOCKET if app.socket_mode else _HTTP)
    return text.format(
        url=url,
        bot_token=stand_in.team().bot_token,
        secret=app.signing_secret,
        app_token=app.app_token,
        app_url=app.url,
        path=app.paths[0],
    )
