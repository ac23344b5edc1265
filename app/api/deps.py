"""What routes ask for: the core, the caller, and what the caller may see."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from fastapi import Depends, Header, Query, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query as QueryParameter
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema

from agent_core import Actor, Core, Forbidden, InvalidInput, NotFound, Origin, RunObject, SessionObject, UnknownCursor
from app.serving.caps import Turns, address_in, visitors_address
from app.serving.credentials import Credentials
from app.serving.readers import Readers, Seat, StreamBounds
from app.serving.windows import Newcomers
from channels.web.identity import ACT_AS, Principal, TokenSigner
from channels.web.settings import settings_of
from channels.web.visible import ShowTools

# The greatest number that a database keeps as a sequence number.
MAX_SEQ = 2**63 - 1
# Whose sessions a visitor's token opens: those that the embedding site opened for the person count too.
PERSONS = frozenset({"visitor", "user"})
NAMED = "the token already names the caller and the agent; leave it out, or give the same."


@dataclass(frozen=True, slots=True)
class Services:
    """What the application was composed of; *https*: others reach it by https, as PARLEY_PUBLIC_URL says.

    *is_named*: settings say which names it has.
    """

    core: Core
    tokens: TokenSigner
    readers: Readers
    credentials: Credentials
    https: bool = False
    is_named: bool = False
    newcomers: Newcomers = field(default_factory=Newcomers)
    drawings: Turns = field(default_factory=partial(Turns, "drawings", "Too many charts are drawn now; ask again."))
    searches: Turns = field(default_factory=partial(Turns, "searches", "Too many searches are under way; ask again."))


async def services(request: Request) -> Services:
    """Return the services of the application that got *request*."""
    return request.app.state.services


async def caller(request: Request) -> Principal:
    """Return the caller, as `Callers` identified it."""
    return request.scope["parley.principal"]


async def operator(request: Request) -> Principal:
    """Return the caller, an operator; a visitor is refused."""
    principal: Principal = request.scope["parley.principal"]
    if principal.visitor:
        raise Forbidden("A visitor's token does not open this; an operator's key does.")
    return principal


def address_of(request: Request) -> str | None:
    """Return the network address that *request* came from, None where it stands for many."""
    return address_in(request.scope)


def origin_of(request: Request) -> Origin:
    """Return where a request comes from: an operator, or a visitor at a network address.

    Anonymous visitors always have one: without it a new secret would be all that it takes to have new quotas.
    """
    principal: Principal = request.scope["parley.principal"]
    if not principal.visitor:
        return Origin(is_operator=True)
    return Origin(address=visitors_address(principal, request.scope), is_anonymous=principal.is_anonymous)


async def known_query(request: Request) -> None:
    """Refuse query parameters that the route does not take; pages and scripts, which no client describes, take any."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute) or not route.include_in_schema:
        return
    names = {field.alias for field in get_flat_params(route.dependant) if isinstance(field.field_info, QueryParameter)}
    if unknown := [name for name in request.query_params if name not in names]:
        raise RequestValidationError(
            [
                {"type": "extra_forbidden", "loc": ("query", name), "msg": "there is no such query parameter."}
                for name in unknown
            ]
        )


Wired = Annotated[Services, Depends(services)]
Caller = Annotated[Principal, Depends(caller)]
Operator = Annotated[Principal, Depends(operator)]


async def show_of(wired: Wired, principal: Caller) -> ShowTools | None:
    """Return what the caller may see of tools; None is an operator, who sees everything."""
    if principal.agent is None:
        return None
    return settings_of((await wired.core.agents.get(principal.agent)).definition).show_tools


async def limit_of(limit: Annotated[int, Query(ge=1, le=100)] = 50) -> int:
    """Return how many items a list answer holds at most."""
    return limit


async def seq_of(
    after: Annotated[str | None, Query(), WithJsonSchema({"type": "integer", "minimum": 0})] = None,
    last_event_id: Annotated[str | None, Header(), WithJsonSchema({"type": "integer", "minimum": 0})] = None,
) -> int:
    """Return the seq after which a stream begins; `Last-Event-ID` takes precedence over `after`, and both are read."""
    begins = _seq("after", after)
    return begins if last_event_id is None else _seq("Last-Event-ID", last_event_id)


def _seq(name: str, text: str | None) -> int:
    """Return the sequence number that *text* writes, 0 without one; raises `UnknownCursor` naming the parameter."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_SEQ)) or int(text) > MAX_SEQ:
        raise UnknownCursor(name, f"`{text[:40]}` is no sequence number of this session.")
    return int(text)


async def seat_of(request: Request, session: str) -> Seat:
    """Return where a stream of *session* to *request*'s caller is counted, with the bounds of a visitor's agent."""
    services: Services = request.app.state.services
    principal: Principal = request.scope["parley.principal"]
    bounds = None
    if principal.agent is not None:
        limits = (await services.core.agents.get(principal.agent)).definition.limits
        scopes = (limits.visitor, limits.address, limits.everyone)
        bounds = StreamBounds(*(each.open_streams for each in scopes))
    return services.readers.of(principal, session, address=visitors_address(principal, request.scope), bounds=bounds)


Show = Annotated[ShowTools | None, Depends(show_of)]
Limit = Annotated[int, Depends(limit_of)]
After = Annotated[int, Depends(seq_of)]
Cursor = Annotated[str | None, Query(max_length=500)]
Name = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


async def own_session(id: str, request: Request) -> SessionObject:
    """Return the session *id*; to a visitor only the visitor's own.

    It takes the request, as it is on the way of each message: a dependency of a dependency costs 15 microseconds.
    """
    session = await request.app.state.services.core.session(id)
    if not owns(request.scope["parley.principal"], session):
        raise NotFound("session", id)
    return session


async def own_run(id: str, wired: Wired, principal: Caller) -> RunObject:
    """Return the run *id*; to a visitor only a run of the visitor's own sessions."""
    run = await wired.core.run(id)
    if principal.visitor and not owns(principal, await wired.core.session(run.session)):
        raise NotFound("run", id)
    return run


OwnSession = Annotated[SessionObject, Depends(own_session)]
OwnRun = Annotated[RunObject, Depends(own_run)]


def owns(principal: Principal, session: SessionObject) -> bool:
    """Return whether *principal* may see *session*."""
    if not principal.visitor:
        return True
    if session.id in principal.barred:
        return False
    person = session.actor.kind in PERSONS and session.actor.id == principal.actor.id
    return person and session.agent == principal.agent


async def agent_for(principal: Principal, named: str | None, core: Core) -> str:
    """Return the id of the agent that *principal* means; a visitor may only name the token's."""
    if principal.agent is None:
        if named is None:
            raise InvalidInput("agent", "say which agent: an id or a name.")
        return (await core.agents.get(named)).id
    if named not in {None, principal.agent}:
        own = await core.agents.get(principal.agent)
        if named != own.definition.name:
            raise Forbidden(f"`agent`: {NAMED}")
    return principal.agent


def sender(principal: Principal, actor: Actor) -> Actor | None:
    """Return whose words count as said by *actor* and by them too: a key that may not act for other people."""
    if principal.visitor:
        return principal.via
    return None if ACT_AS in principal.scopes or actor.id == principal.actor.id else principal.actor
