"""The Slack stand-in: workspaces, the Web API, deliveries and faults on one port of this machine."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

from aiohttp import web

from agent_core import Clock, SystemClock
from agent_core.testing import Level
from channels.slack.testing.app import App
from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.block_shapes import ShapeProblem
from channels.slack.testing.content import blocks_in, raise_problems
from channels.slack.testing.deliveries import Courier, Notification, machine_time
from channels.slack.testing.faults import Armed, Faults, InjectedFault
from channels.slack.testing.methods import METHODS
from channels.slack.testing.sockets import Sockets
from channels.slack.testing.team import Team
from channels.slack.testing.tickets import Tickets
from channels.slack.testing.uploads import file_problems, put_bytes
from channels.slack.testing.world import Channel, Json, SimulatedWorkspace
from channels.slack.web_api import limits
from channels.slack.web_api.budget import CallBudget

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
        ack_within: float = limits.ACK_WITHIN.value,
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
