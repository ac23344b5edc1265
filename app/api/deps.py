"""What routes ask for: the core, the caller, and what the caller may see."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Annotated
from urllib.parse import quote

import msgspec
import structlog
from fastapi import Depends, Header, Query, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query as QueryParameter
from fastapi.routing import APIRoute
from msgspec.structs import replace
from pydantic import WithJsonSchema
from starlette.requests import Request as requests_Request
from starlette.responses import Response

from agent_core.core import Core
from agent_core.errors import Forbidden, InvalidInput, NotAnApprover, NotFound, Unavailable, UnknownCursor
from agent_core.events import ApprovalDecided, ApprovalRequested, ApprovalVoted, Event
from agent_core.messages import Actor
from agent_core.objects import Decider, RenderObject, RunObject, SessionObject, may_respond
from agent_core.quotas import Origin
from app.serving.caps import Newcomers, Turns, address_in, visitors_address
from app.serving.credentials import Credentials
from app.serving.readers import Readers, Seat, StreamBounds
from channels.web.identity import ACT_AS, OPERATOR, Principal, TokenSigner
from channels.web.settings import settings_of
from channels.web.visible import ASKING, ShowTools

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


_log = structlog.get_logger("parley.approvals")


def decider(principal: Principal, asker: Actor | None, named: Actor | None = None) -> Decider:
    """Return the decider of what *asker* wants: a visitor, an operator, or a named person; raises `Forbidden`.

    A person named by an operator counts as present, and not as an operator.
    """
    if principal.via is not None:
        raise Forbidden(
            f"This token was made, or the key that signed it was registered, with a key without the scope `{ACT_AS}`, "
            "or with one that was revoked since; with it no one decides."
        )
    if principal.visitor:
        if named is not None and named.id != principal.actor.id:
            raise Forbidden(f"`actor`: {NAMED}")
        return Decider(actor=_person(principal.actor, asker), is_present=True)
    if named is None:
        return Decider(actor=principal.actor, is_operator=True)
    if ACT_AS not in principal.scopes:
        raise Forbidden(f"`actor`: to decide for others takes a key with the scope `{ACT_AS}`; leave it out.")
    if named.id == OPERATOR.id or named.id.startswith(f"{OPERATOR.id}:"):
        raise NotAnApprover("`actor`: an operator decides with a key of their own; leave it out.")
    return Decider(actor=_person(named, asker), is_present=True)


def may_decide(principal: Principal, responders: Sequence[str], asker: Actor | None, speakers: Sequence[Actor]) -> bool:
    """Return whether *principal*, in its own name, may vote on what *asker* and *speakers* caused."""
    return principal.via is None and may_respond(responders, asker, decider(principal, asker), speakers)


def _person(actor: Actor, asker: Actor | None) -> Actor:
    """Return *actor* as the kind of person that *asker* is, if they are one: a site's user is its visitor too."""
    if asker is None or asker.id != actor.id or not {asker.kind, actor.kind} <= PERSONS:
        return actor
    return replace(actor, kind=asker.kind, name=actor.name or asker.name)


class Mine:
    """The approvals in a visitor's stream: which ones the visitor may decide, and that they were shown."""

    def __init__(self, core: Core, visitor: Principal) -> None:
        self._core, self._visitor = core, visitor
        self._known: dict[str, bool] = {}

    @property
    def own(self) -> str:
        """The visitor's id."""
        return self._visitor.actor.id

    async def learn(self, events: Iterable[Event]) -> None:
        """Find out about the approvals that *events* are about."""
        for event in events:
            match event.body if event.type in ASKING else None:
                case ApprovalRequested(approval=id) as asked:
                    self._known[id] = may_decide(self._visitor, asked.responders, asked.by, asked.speakers)
                case ApprovalVoted(approval=id) | ApprovalDecided(approval=id) if id not in self._known:
                    self._known[id] = await self._find(id)
                case _:
                    continue

    def decides(self, event: Event) -> bool:
        """Return whether the visitor may decide the approval that *event* is about, after `learn`."""
        match event.body if event.type in ASKING else None:
            case ApprovalRequested(approval=id) | ApprovalVoted(approval=id) | ApprovalDecided(approval=id):
                return self._known.get(id, False)
            case _:
                return False

    async def record(self, events: Iterable[Event], show: ShowTools | None) -> None:
        """Put on record that the visitor is shown what the open questions in *events* are about, after `learn`.

        Without a database to write to it is only logged: it must not end what the visitor reads.
        """
        requests = [event for event in events if event.type == ApprovalRequested.type]
        shown = [event.body for event in requests if show == "full" or self.decides(event)]
        ids = [body.approval for body in shown if isinstance(body, ApprovalRequested)]
        if ids:
            try:
                await self._core.approvals.note_opened(ids, surface="web", by=self._visitor.actor)
            except Unavailable as error:
                _log.warning("approval.opened_unrecorded", approvals=ids, error=str(error))

    async def _find(self, id: str) -> bool:
        try:
            approval = await self._core.approvals.get(id)
        except NotFound:  # its session is being deleted
            return False
        return may_decide(self._visitor, approval.responders, approval.asker, approval.speakers)


async def mine_of(wired: Wired, principal: Caller) -> Mine | None:
    """Return the approvals that a visitor may decide; None for an operator."""
    return Mine(wired.core, principal) if principal.visitor else None


Deciding = Annotated[Mine | None, Depends(mine_of)]


KEPT = "private, no-cache"
"""The caller may keep the answer, and asks before each use: what a person wrote can be deleted, a token revoked."""
SVG = "image/svg+xml"
INERT = {"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'"}
"""For SVG, which is a page where it is opened as one: no script, no form, and nothing is loaded."""
_MAX_STEM = 80
_FORBIDDEN = frozenset('/\\:*?"<>|')


def tag_of(render: RenderObject, *form: object) -> str:
    """Return the `ETag` of *render* in a *form*: it changes with what is shown, as it does when a person is deleted."""
    shown = (render.id, render.kind, render.title, render.payload, render.text, *map(str, form))
    return f'"{sha256(msgspec.json.encode(shown)).hexdigest()[:32]}"'


def known(request: requests_Request, tag: str) -> Response | None:
    """Return the answer 304 when the caller has what *tag* names; None otherwise."""
    tags = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    return Response(status_code=304, headers=_headers(tag)) if tags & {tag, "*"} else None


def file(data: bytes, media: str, tag: str, *, attached: str | None = None) -> Response:
    """Return *data* as an answer with *tag*; with the name *attached* a browser saves it and does not show it."""
    named = {} if attached is None else {"Content-Disposition": _attachment(attached)}
    return Response(data, headers={**_headers(tag), **named, **(INERT if media == SVG else {})}, media_type=media)


def file_name(title: str | None, ending: str) -> str:
    """Return the name of a file with *title*, without what a system takes for a path, a device or a control."""
    allowed = "".join(" " if each in _FORBIDDEN or not each.isprintable() else each for each in title or "")
    stem = " ".join(allowed.split())[:_MAX_STEM].strip(". ")
    return f"{stem or 'render'}.{ending}"


def _headers(tag: str) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": KEPT}


def _attachment(name: str) -> str:
    """Return the header for *name*, after RFC 6266: in ASCII, and whole in UTF-8 for those who read that."""
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
