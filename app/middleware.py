"""Middleware: what each request passes before its route, and who its caller is."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_core.core import Core
from agent_core.errors import Forbidden, NotFound, ParleyError
from app.api.body import Callers, Hosts
from app.api.guard import RequestGuard
from app.api.problems import problem, slowed, unauthorized
from app.serving.credentials import Credentials
from app.settings import Settings
from channels.web.identity import Principal
from channels.web.settings import settings_of

METHODS = ("GET", "POST", "PATCH", "DELETE")
REQUESTED = ("Authorization", "Last-Event-ID", "Content-Type")
ANSWERED = ("Parley-After", "Parley-Run", "Parley-Session", "Parley-Time", "Retry-After")
_OK = 200
DATA = ("/v1/", "/metrics", "/widget-demo", "/operator", "/slack/")
"""Paths whose answers are kept nowhere: they hold what people said, or who they are."""
FILES = ("/v1/renders/", "/v1/files/")
"""Of them those whose answers say themselves whether the caller may keep them: pictures, and what is downloaded."""
YEAR = 365 * 24 * 3600
HSTS = f"max-age={YEAR}"
EVERY = 5.0
"""Seconds after which a change of an agent's list is seen at the latest; no request reads it more often."""
_log = structlog.get_logger("parley.origins")


def protect(
    app: FastAPI, core: Core, settings: Settings, credentials: Credentials, recording: Callable[[ASGIApp], ASGIApp]
) -> None:
    """Add the middleware; the last added is the outermost.

    *recording* makes the record of operations: outside of the guard, so that what it refuses of an operator is in it.
    """
    app.add_middleware(RequestGuard, routes=app.routes, holds=credentials.holds)
    app.add_middleware(recording)
    settle = partial(_settled, core, credentials)
    app.add_middleware(Callers, identify=credentials.identify, refuse=partial(_refusal, credentials), settle=settle)
    app.add_middleware(Cors, origins=settings.origins, agents=AgentOrigins(core))
    if settings.hosts:
        app.add_middleware(Hosts, hosts=settings.hosts)


async def _settled(core: Core, credentials: Credentials, principal: Principal) -> Principal:
    """Return a visitor whom a site's own token names, with the id of the agent, which the token may call by its name.

    An agent that does not exist stays as it is: it opens nothing, and answers name it. Raises `Forbidden` where the key
    that signed is for others, whether or not this one exists.
    """
    try:
        agent = (await core.agents.get(principal.agent or "")).id
    except NotFound:
        agent = None
    if not credentials.signers.opens(principal.signer or "", agent):
        raise Forbidden(
            "The key that signed this token is registered for other agents (`agents`); sign for one of them."
        )
    return principal if agent is None else replace(principal, agent=agent)


def _refusal(credentials: Credentials, scope: Scope) -> Response:
    """Return the answer to a caller who is not known; what was sent counts as a failed login unless it was good once.

    Without a credential nothing failed.
    """
    _, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
    if not text or credentials.is_genuine(text):
        return unauthorized(credentials.fault_of(text))
    address = scope["client"][0] if scope.get("client") else "unknown"
    again = credentials.logins.fail(address)
    return unauthorized() if again is None else slowed(again)


class Cors(CORSMiddleware):
    """Answer preflights, and let the pages of *origins* read answers, and those that *agents* name.

    A subclass, since Starlette has one method for the answer to a preflight, and no other place for it.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str], agents: "AgentOrigins") -> None:
        super().__init__(
            app, allow_origins=origins, allow_methods=METHODS, allow_headers=REQUESTED, expose_headers=ANSWERED
        )

        self._agents = agents

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"]):
            await self._agents.look()
        await super().__call__(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        return super().is_allowed_origin(origin) or origin in self._agents

    def preflight_response(self, request_headers: Headers) -> Response:
        answer = super().preflight_response(request_headers)
        if answer.status_code == _OK:
            return answer
        refused = problem(
            403,
            "A page of this origin may not send this request; PARLEY_ORIGINS has the origins that may, and an agent's "
            f"`web: {{anonymous: {{origins}}}}`, with {', '.join(METHODS)} and the headers {', '.join(REQUESTED)}.",
        )
        for name in ("vary", "access-control-allow-origin"):
            if name in answer.headers:
                refused.headers[name] = answer.headers[name]
        return refused


class AgentOrigins:
    """The origins that the agents of *core* name, read again when a request asks and they are old.

    While the database is away those that were read last hold.
    """

    def __init__(self, core: Core, *, now: Callable[[], float] = monotonic) -> None:
        self._core, self._now = core, now
        self._origins: frozenset[str] = frozenset()
        self._due = float("-inf")
        self._one = asyncio.Lock()

    def __contains__(self, origin: str) -> bool:
        return origin in self._origins

    async def look(self) -> None:
        """Read the origins, unless that was done a moment ago."""
        if self._now() < self._due:
            return
        async with self._one:
            if self._now() < self._due:
                return
            self._due = self._now() + EVERY
            try:
                agents = await self._core.agents.all()
            except ParleyError as error:
                _log.warning("origins.not_read", reason=str(error))
                return
            named = (settings_of(each.definition).anonymous for each in agents)
            self._origins = frozenset(origin for each in named if each is not None for origin in each.origins)


class SafeHeaders:
    """Add `nosniff` to all answers, `no-store` to those with data, and HSTS where the caller came by https.

    *https*: others reach this server by https, as PARLEY_PUBLIC_URL says. Other answers keep their own caching.
    """

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self._app, self._https = app, https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if scope["path"].startswith(FILES):
                    headers.setdefault("Cache-Control", "no-store")
                elif scope["path"].startswith(DATA):
                    headers["Cache-Control"] = "no-store"
                if self._https or scope["scheme"] == "https":
                    headers["Strict-Transport-Security"] = HSTS
            await send(message)

        await self._app(scope, receive, marked)
