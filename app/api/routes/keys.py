"""Routes of API keys, and of revocations of tokens, actors and sessions."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

import msgspec
from fastapi import APIRouter, Path
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator
from starlette.responses import Response

from agent_core import Forbidden, InvalidInput, Page
from agent_core.objects import KeyChanges, RevocationKind, Scope
from app.api.bodies.derived import RequestBody
from app.api.bodies.requests import Id
from app.api.bodies.wire import Key, KeyWithSecret, Revoked, answer, key_wire, page, revoked_wire, rfc3339, secret_wire
from app.api.deps import Cursor, Limit, Operator, Wired
from app.api.entrance.body import BodyRoute
from app.api.problems import answers
from channels.web.identity import ACT_AS, Principal, fault_of_name

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
    return page(await wired.core.access.keys(limit=limit, cursor=cursor), key_wire)


@router.post("/v1/keys", status_code=201, responses=answers(KeyWithSecret, *BAD, status=201))
async def create_key(wired: Wired, principal: Operator, body: KeyBody) -> Response:
    """Make an API key; its secret is in this answer and nowhere else."""
    _check_scopes(principal, body.scopes)
    shared = None if ACT_AS in principal.scopes else principal.actor.id
    key, secret = await wired.core.access.create_key(
        name=body.name, scopes=body.scopes, by=principal.actor, shared=shared, expires_at=_at(body.expires_at)
    )
    wired.credentials.put(key)
    return answer(secret_wire(key.object, secret), 201)


@router.get("/v1/keys/{id}", responses=answers(Key, 401, 403, 404, 422))
async def get_key(wired: Wired, _: Operator, id: KeyId) -> Response:
    """Return an API key without its secret."""
    return answer(key_wire(await wired.core.access.key(id)))


@router.patch("/v1/keys/{id}", responses=answers(Key, *BAD, 404))
async def change_key(wired: Wired, principal: Operator, id: KeyId, body: KeyChangesBody) -> Response:
    """Change a key's name, scopes or end."""
    _check_scopes(principal, body.scopes)
    key = await wired.core.access.change_key(id, body.value())
    wired.credentials.put(key)
    return answer(key_wire(key.object))


@router.post("/v1/keys/{id}/rotate", responses=answers(KeyWithSecret, *BAD, 404))
async def rotate_key(wired: Wired, principal: Operator, id: KeyId, body: RotationBody | None = None) -> Response:
    """Give a key another secret; the old one works for a while."""
    key = await wired.core.access.key(id)
    _check_scopes(principal, key.scopes)
    if ACT_AS not in principal.scopes and key.actor != principal.actor.id:
        raise Forbidden(f"To get the secret of another holder's key takes a key with the scope `{ACT_AS}`.")
    key, secret = await wired.core.access.rotate_key(id, grace=GRACE if body is None else body.grace)
    wired.credentials.put(key)
    return answer(secret_wire(key.object, secret))


@router.delete("/v1/keys/{id}", status_code=204, responses=answers(None, 401, 403, 404, 422, status=204))
async def revoke_key(wired: Wired, _: Operator, id: KeyId) -> Response:
    """Revoke a key for good, and the visitors' tokens that were made with it; their open streams end."""
    wired.credentials.put(await wired.core.access.revoke_key(id))
    return Response(status_code=204)


@router.get("/v1/web/revocations", responses=answers(Page[Revoked], 400, 401, 403, 422))
async def list_revocations(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List revocations, the newest first."""
    return page(await wired.core.access.revocations(limit=limit, cursor=cursor), revoked_wire)


@router.post("/v1/web/revocations", status_code=201, responses=answers(Revoked, *BAD, 404, status=201))
async def revoke(wired: Wired, _: Operator, body: RevocationBody) -> Response:
    """Revoke a visitor's token, all of an actor's up to now, or visitors' access to a session; open streams end."""
    kind, subject = body.subject
    if kind == "session":
        subject = (await wired.core.session(subject)).id
    return answer(revoked_wire(await wired.credentials.revoke(kind, subject)), 201)


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
