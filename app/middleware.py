"""Middleware: what each request passes before its route, and who its caller is."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from agent_core import Core, Forbidden, NotFound
from app.api.entrance.callers import Callers
from app.api.entrance.cors import Cors
from app.api.entrance.guard import RequestGuard
from app.api.entrance.peers import Hosts
from app.api.entrance.spare import SparePlaces
from app.api.problems import slowed, unauthorized
from app.serving.credentials import Credentials
from app.serving.origins import AgentOrigins
from app.settings import Settings
from channels.web.identity import Principal


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
    app.add_middleware(SparePlaces, identify=credentials.identify)
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
