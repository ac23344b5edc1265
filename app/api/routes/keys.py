"""Routes of API keys, and of revocations of tokens, actors and sessions."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Self

import msgspec
import structlog
from fastapi import APIRouter, Path, Query, Request
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator
from starlette.responses import Response, StreamingResponse
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as types_Scope

from agent_core.errors import Forbidden, InvalidInput, NotFound, ParleyError
from agent_core.objects import AgentObject, KeyChanges, OperationEntry, Page, RevocationKind, Scope, SigningKey
from agent_core.runtime.access import Access
from app.api.body import BodyRoute
from app.api.deps import MAX_SEQ, Caller, Cursor, Limit, Name, Operator, Services, Wired, address_of, agent_for
from app.api.guard import SCOPE_OF
from app.api.problems import answers, problem
from app.api.requests import Id
from app.api.wire import (
    OBJECT,
    TEXT,
    AnonymousToken,
    Key,
    KeyWithSecret,
    OperationLine,
    RequestBody,
    Revoked,
    SigningKeyAnswer,
    answer,
    by_kind,
    copied,
    page,
    rfc3339,
)
from channels.web.identity import ACT_AS, MAX_ID, Known, Principal, fault_of_name
from channels.web.routes import widget
from channels.web.settings import AgentFace, face_of, settings_of
from channels.web.signed import MAX_PEM

router = APIRouter(tags=["keys"], route_class=BodyRoute)
GRACE = 24 * 3600
MAX_GRACE = 30 * 24 * 3600
MAX_YEARS = 100
BAD = (400, 401, 403, 413, 422)
KeyId = Annotated[str, Path(description="A key's id.", max_length=200)]


def _moment(text: str) -> str:
    """Return a time of RFC 3339, checked."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("give a time such as 2027-01-31T12:00:00Z.") from None
    if moment.tzinfo is None:
        raise ValueError("give the time with its zone, such as 2027-01-31T12:00:00Z.")
    if not datetime(1970, 1, 2, tzinfo=UTC) < moment < datetime(9000, 1, 1, tzinfo=UTC):
        raise ValueError("give a time between 1970 and 9000.")
    return text


def _plain(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty or blank.")
    if (fault := fault_of_name(text)) is not None:
        raise ValueError(fault)
    return text


Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40), AfterValidator(_moment)]
KeyName = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_plain)]
Scopes = Annotated[list[Scope], Field(min_length=1, max_length=10)]


class KeyBody(RequestBody):
    """A key to make; without *expires_at* it works until it is revoked."""

    name: KeyName
    scopes: Scopes
    expires_at: Moment | None = None


class KeyChangesBody(RequestBody):
    """What of a key changes; a null *expires_at* takes its end away."""

    name: KeyName = ""
    scopes: Scopes = Field(default_factory=list)
    expires_at: Moment | None = None

    def value(self) -> KeyChanges:
        """Return the core's value."""
        changes: dict[str, Any] = self.model_dump(exclude_unset=True)
        if "expires_at" in changes:
            changes["expires_at"] = _at(changes["expires_at"])
        return msgspec.convert(changes, KeyChanges)


class RotationBody(RequestBody):
    """A key's new secret; the old one works for *grace* seconds."""

    grace: int = Field(GRACE, ge=0, le=MAX_GRACE)


class RevocationBody(RequestBody):
    """What to revoke: a token by its id, an actor's tokens up to now, or visitors' access to a session."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("token", "actor", "session")]}
    )
    token: Id | None = None
    actor: Id | None = None
    session: Id | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        subjects = [each for each in (self.token, self.actor, self.session) if each is not None]
        if len(subjects) != 1 or len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of `token`, `actor` and `session`.")
        return self

    @property
    def subject(self) -> tuple[RevocationKind, str]:
        """Return what is revoked."""
        kinds: tuple[RevocationKind, ...] = ("token", "actor", "session")
        subjects = {"token": self.token, "actor": self.actor, "session": self.session}
        return next((kind, name) for kind in kinds if (name := subjects[kind]) is not None)


@router.get("/v1/keys", responses=answers(Page[Key], 400, 401, 403, 422))
async def list_keys(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List API keys, the oldest first, without their secrets; revoked ones are among them."""
    return page(await wired.core.access.keys(limit=limit, cursor=cursor), Key)


@router.post("/v1/keys", status_code=201, responses=answers(KeyWithSecret, *BAD, status=201))
async def create_key(wired: Wired, principal: Operator, body: KeyBody) -> Response:
    """Make an API key; its secret is in this answer and nowhere else."""
    _check_scopes(principal, body.scopes)
    shared = None if ACT_AS in principal.scopes else principal.actor.id
    key, secret = await wired.core.access.create_key(
        name=body.name, scopes=body.scopes, by=principal.actor, shared=shared, expires_at=_at(body.expires_at)
    )
    wired.credentials.put(key)
    return answer(copied(key.object, KeyWithSecret, secret=secret), 201)


@router.get("/v1/keys/{id}", responses=answers(Key, 401, 403, 404, 422))
async def get_key(wired: Wired, _: Operator, id: KeyId) -> Response:
    """Return an API key without its secret."""
    return answer(copied(await wired.core.access.key(id), Key))


@router.patch("/v1/keys/{id}", responses=answers(Key, *BAD, 404))
async def change_key(wired: Wired, principal: Operator, id: KeyId, body: KeyChangesBody) -> Response:
    """Change a key's name, scopes or end."""
    _check_scopes(principal, body.scopes)
    key = await wired.core.access.change_key(id, body.value())
    wired.credentials.put(key)
    return answer(copied(key.object, Key))


@router.post("/v1/keys/{id}/rotate", responses=answers(KeyWithSecret, *BAD, 404))
async def rotate_key(wired: Wired, principal: Operator, id: KeyId, body: RotationBody | None = None) -> Response:
    """Give a key another secret; the old one works for a while."""
    key = await wired.core.access.key(id)
    _check_scopes(principal, key.scopes)
    if ACT_AS not in principal.scopes and key.actor != principal.actor.id:
        raise Forbidden(f"To get the secret of another holder's key takes a key with the scope `{ACT_AS}`.")
    key, secret = await wired.core.access.rotate_key(id, grace=GRACE if body is None else body.grace)
    wired.credentials.put(key)
    return answer(copied(key.object, KeyWithSecret, secret=secret))


@router.delete("/v1/keys/{id}", status_code=204, responses=answers(None, 401, 403, 404, 422, status=204))
async def revoke_key(wired: Wired, _: Operator, id: KeyId) -> Response:
    """Revoke a key for good, and the visitors' tokens that were made with it; their open streams end."""
    wired.credentials.put(await wired.core.access.revoke_key(id))
    return Response(status_code=204)


@router.get("/v1/web/revocations", responses=answers(Page[Revoked], 400, 401, 403, 422))
async def list_revocations(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List revocations, the newest first."""
    return page(await wired.core.access.revocations(limit=limit, cursor=cursor), Revoked)


@router.post("/v1/web/revocations", status_code=201, responses=answers(Revoked, *BAD, 404, status=201))
async def revoke(wired: Wired, _: Operator, body: RevocationBody) -> Response:
    """Revoke a visitor's token, all of an actor's up to now, or visitors' access to a session; open streams end."""
    kind, subject = body.subject
    if kind == "session":
        subject = (await wired.core.session(subject)).id
    return answer(copied(await wired.credentials.revoke(kind, subject), Revoked), 201)


def _check_scopes(principal: Principal, wanted: Any) -> None:
    """Raise `Forbidden` when a key would get a scope that the caller's has not."""
    if missing := [f"`{scope}`" for scope in wanted if scope not in principal.scopes]:
        raise Forbidden(f"A key gives only scopes that it has; this one lacks {', '.join(missing)}.")


def _at(moment: str | None) -> int | None:
    """Return a checked time in milliseconds; raises `InvalidInput` when it has passed."""
    if moment is None:
        return None
    end = datetime.fromisoformat(moment)
    if end <= datetime.now(UTC):
        raise InvalidInput("expires_at", f"this time has passed; it is {rfc3339(_milliseconds(datetime.now(UTC)))}.")
    return _milliseconds(end)


def _milliseconds(time: datetime) -> int:
    return round(1000 * time.timestamp())


web_keys_router = APIRouter(prefix="/v1/web/keys", tags=["web"], route_class=BodyRoute)
MAX_MEMBERS = 20
MAX_AGENTS = 100


def _kid(text: str) -> str:
    fault = fault_of_name(text) or (None if text.strip() and len(text) <= MAX_ID else "must not be blank.")
    if fault is not None:
        raise ValueError(f"1 to {MAX_ID} characters; {fault}")
    return text


Kid = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID), AfterValidator(_kid)]
Pem = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PEM)]
Jwk = Annotated[dict[str, Any], Field(max_length=MAX_MEMBERS)]


class SigningKeyBody(RequestBody):
    """A public key, PEM or a JWK; without *kid* it is the JWK's own, or its thumbprint (RFC 7638).

    *agents*, ids or names, are those for which it signs, for good; null: for every agent.
    """

    name: KeyName
    key: Annotated[Annotated[Pem, TEXT] | Annotated[Jwk, OBJECT], by_kind(TEXT, OBJECT)]
    kid: Kid | None = None
    agents: Annotated[list[Id], Field(min_length=1, max_length=MAX_AGENTS)] | None = None


@web_keys_router.get("", responses=answers(Page[SigningKeyAnswer], 400, 401, 403, 422))
async def list_signing_keys(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List the keys by which sites sign tokens of their visitors, the oldest first."""
    return page(await wired.core.access.signing_keys(limit=limit, cursor=cursor), SigningKeyAnswer)


@web_keys_router.post(
    "", status_code=201, responses=answers(SigningKeyAnswer, 400, 401, 403, 409, 413, 422, status=201)
)
async def add_signing_key(wired: Wired, principal: Operator, body: SigningKeyBody) -> Response:
    """Register a public key: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA). What it signs names visitors."""
    from channels.web.public_keys import NoKey, read_key  # noqa: PLC0415 - 8 MB that other servers do without

    try:
        read = read_key(body.key)
    except NoKey as error:
        raise InvalidInput("key", str(error)) from None
    try:
        kid = body.kid or _kid(read.kid)
    except ValueError as error:
        raise InvalidInput("key.kid", str(error)) from None
    wanted = SigningKey(
        id="",
        name=body.name,
        kid=kid,
        algorithm=read.algorithm,
        jwk=read.jwk,
        created_at=0,
        created_by=principal.actor,
        agents=None if body.agents is None else await _ids(wired, body.agents),
    )
    key = await wired.core.access.add_signing_key(wanted)
    wired.credentials.put_signer(key)
    return answer(copied(key, SigningKeyAnswer), 201)


async def _ids(wired: Wired, agents: list[str]) -> tuple[str, ...]:
    """Return the ids of *agents*; raises `InvalidInput` for one that is not there."""
    ids = list[str]()
    for n, each in enumerate(agents):
        try:
            ids.append((await wired.core.agents.get(each)).id)
        except NotFound:
            raise InvalidInput(f"agents[{n}]", f"there is no agent `{each[:100]}`.") from None
    return tuple(dict.fromkeys(ids))


@web_keys_router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 422, status=204))
async def remove_signing_key(wired: Wired, _: Operator, id: KeyId) -> Response:
    """Remove a key: what it signed is refused, here at once and elsewhere within a second, and open streams end."""
    await wired.core.access.remove_signing_key(id)
    wired.credentials.drop_signer(id)
    return Response(status_code=204)


web_router = APIRouter(prefix="/v1/web", tags=["web"], route_class=BodyRoute)
MAX_SECRET = 2_000
REFUSED = "secret_refused"
"""The code of the answer to a secret that is good for nothing any more: a page forgets it, and asks without one."""


class NewcomerBody(RequestBody):
    """The agent that someone on a page wants to talk to, and the *secret* that the page kept from last time."""

    agent: Id
    secret: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SECRET)] | None = None


@web_router.get("/agent", responses=answers(AgentFace, 400, 401, 403, 404, 422))
async def get_face(wired: Wired, principal: Caller, agent: Name | None = None) -> Response:
    """Return how an agent presents itself to visitors; theirs is the token's, an operator says which."""
    agent_object = await wired.core.agents.get(await agent_for(principal, agent, wired.core))
    return answer(face_of(agent_object, widget().build, anonymous=principal.is_anonymous))


@web_router.post(
    "/anonymous", status_code=201, responses=answers(AnonymousToken, 400, 401, 403, 413, 422, 429, status=201)
)
async def admit(request: Request, wired: Wired, body: NewcomerBody) -> Response:
    """Make a short-lived token for someone on a page that the agent names; the secret makes them the same one again.

    No credential is asked for: the browser's `Origin` has to be one of the agent's `web: {anonymous: {origins}}`.
    """
    origin = request.headers.get("origin")
    visitor = None if body.secret is None else wired.tokens.read_secret(body.secret)
    wired.newcomers.admit(address_of(request), is_new=visitor is None)
    agent = await _agent_on(wired, origin, body.agent)
    if body.secret is not None and not _is_good(wired, visitor, agent, origin):
        detail = "This browser's earlier conversation cannot be continued here; ask again without the `secret`."
        return problem(401, detail, code=REFUSED)
    token, secret = wired.tokens.anonymous(agent.id, origin or "", visitor)
    return answer(AnonymousToken(token.text, rfc3339(1000 * token.expires), token.id, secret.text), 201)


async def _agent_on(wired: Services, origin: str | None, name: str) -> AgentObject:
    """Return the agent *name*, which pages of *origin* may talk to without a token; raises `Forbidden`.

    Who asks without a credential does not learn which agents there are.
    """
    if origin is None:
        raise Forbidden("Anonymous visitors come from a page in a browser, which sends its `Origin`; here is none.")
    try:
        agent = await wired.core.agents.get(name)
        allowed = settings_of(agent.definition).anonymous
    except NotFound:
        agent = allowed = None
    if agent is None or allowed is None or origin not in allowed.origins:
        remedy = f"`web: {{anonymous: {{origins: [{origin[:200]}]}}}}` in that agent lets them"
        raise Forbidden(f"Pages of this origin may not talk to an agent `{name}` without a token; {remedy}.")
    return agent


def _is_good(wired: Services, visitor: Known | None, agent: AgentObject, origin: str | None) -> bool:
    """Return whether a secret is genuine, of this agent and this site, and not revoked."""
    if visitor is None or (visitor.agent, visitor.origin) != (agent.id, origin):
        return False
    return wired.credentials.holds(visitor.principal)


IN_THEIR_LOGS = frozenset(
    {
        "POST /v1/agents/{id}/runs",  # its message names the key that sent it, as those of sessions do
        "POST /v1/files",  # the file's row has who sent it
        "POST /v1/renders/preview",  # nothing is kept
        "POST /v1/sessions",  # the session has whom it is for
        "POST /v1/sessions/{id}/messages",
        "POST /v1/sessions/{id}/replies",  # the reply has who gave it
    }
)
"""What is not on the record of operations: frequent, or long streams, and the session's log says who did it."""
RECORDED = tuple(route for route in SCOPE_OF if not route.startswith("GET ") and route not in IN_THEIR_LOGS)
"""What is recorded of operators, refused attempts too: every route that changes something but those."""
ABOUT_PEOPLE = "/v1/actors/"
NDJSON = "application/x-ndjson"
PAGE = 500
_KIND = re.compile(r":[a-z]+\}")
"""What a template says of the kind of an id: the record leaves it out."""
_log = structlog.get_logger("parley.operations")
operations_router = APIRouter(tags=["keys"])


@operations_router.get(
    "/v1/audit", response_class=Response, responses=answers(OperationLine, 400, 401, 403, 422, media=NDJSON)
)
async def read_operations(wired: Wired, _: Operator, after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0) -> Response:
    """Read the record of what operators did after the line `after`, as lines of JSON."""
    first = await wired.core.access.operations(after=after, limit=PAGE)
    return StreamingResponse(_lines(wired.core.access, first), media_type=NDJSON)


class Recording:
    """Record what operators do, before they get the answer.

    *pseudonym* returns what is recorded of a person whose data is deleted.
    """

    def __init__(self, app: ASGIApp, *, access: Access, pseudonym: Callable[[str], str]) -> None:
        self._app, self._access, self._pseudonym = app, access, pseudonym
        self._routes: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        for method, template in (line.split(" ") for line in RECORDED):
            self._routes.setdefault(method, []).append((template, compile_path(template)[0]))

    async def __call__(self, scope: types_Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get("parley.principal")
        match = None if principal is None or principal.visitor else self._find(scope)
        if principal is None or match is None:
            await self._app(scope, receive, send)
            return
        route, names = match
        body = bytearray()
        start: Message = {}

        async def held(message: Message) -> None:
            nonlocal start
            if message["type"] != "http.response.body":
                start = message
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                await self._record(principal, route, names.get("id") or _id_in(body), start["status"])
                await send(start)
                await send({"type": "http.response.body", "body": bytes(body)})

        await self._app(scope, receive, held)

    def _find(self, scope: types_Scope) -> tuple[str, Mapping[str, str]] | None:
        """Return the recorded route of a request, and what its path names."""
        method = scope["method"]
        for template, pattern in self._routes.get(method, ()):
            if (match := pattern.match(scope["path"])) is not None:
                return f"{method} {_KIND.sub('}', template)}", match.groupdict()
        return None

    async def _record(self, principal: Principal, route: str, about: str | None, status: int) -> None:
        if about is not None and ABOUT_PEOPLE in route:
            about = self._pseudonym(about)
        try:
            await self._access.note(actor=principal.actor, route=route, about=about, result=status)
        except ParleyError as error:  # it was done: the answer says so, and the log that the record lacks it
            _log.error("operation.not_recorded", route=route, about=about, reason=str(error))


async def _lines(access: Access, batch: Sequence[OperationEntry]) -> AsyncIterator[bytes]:
    while batch:
        yield b"".join(msgspec.json.encode(copied(entry, OperationLine)) + b"\n" for entry in batch)
        batch = await access.operations(after=batch[-1].seq, limit=PAGE) if len(batch) == PAGE else ()


class _Named(msgspec.Struct):
    id: str | None = None


def _id_in(body: bytes | bytearray) -> str | None:
    """Return the `id` of the object in an answer."""
    try:
        return msgspec.json.decode(body, type=_Named).id
    except msgspec.MsgspecError:
        return None
