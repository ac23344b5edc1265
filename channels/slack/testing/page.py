"""The page of the stand-in: its one file, a stream of pictures, and what a person does there."""

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from importlib import resources
from typing import Any, Literal, cast, get_args

from aiohttp import web

from channels.slack.testing.faults import FaultKind, InjectedFault
from channels.slack.testing.picture import PageDrawing, PageLocation
from channels.slack.testing.server import SlackStandIn
from channels.slack.testing.team import Dispatched, NotPossible, Team
from channels.slack.testing.world import Json

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
            return team.opens_home(user, fields["tab"])
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
