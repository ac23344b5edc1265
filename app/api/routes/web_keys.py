"""Routes of the keys by which sites sign tokens of their visitors themselves."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import AfterValidator, Field, StringConstraints
from starlette.responses import Response

from agent_core import InvalidInput, NotFound, Page
from agent_core.objects import SigningKey
from app.api.bodies.derived import OBJECT, TEXT, RequestBody, by_kind
from app.api.bodies.requests import Id
from app.api.bodies.wire import SigningKeyAnswer, answer, page, signing_key_wire
from app.api.deps import Cursor, Limit, Operator, Wired
from app.api.entrance.body import BodyRoute
from app.api.problems import answers
from app.api.routes.keys import KeyName
from channels.web.identity import MAX_ID, fault_of_name
from channels.web.signed import MAX_PEM

router = APIRouter(prefix="/v1/web/keys", tags=["web"], route_class=BodyRoute)
KeyId = Annotated[str, Path(description="A key's id.", max_length=200)]
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


@router.get("", responses=answers(Page[SigningKeyAnswer], 400, 401, 403, 422))
async def list_signing_keys(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List the keys by which sites sign tokens of their visitors, the oldest first."""
    return page(await wired.core.access.signing_keys(limit=limit, cursor=cursor), signing_key_wire)


@router.post("", status_code=201, responses=answers(SigningKeyAnswer, 400, 401, 403, 409, 413, 422, status=201))
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
    return answer(signing_key_wire(key), 201)


async def _ids(wired: Wired, agents: list[str]) -> tuple[str, ...]:
    """Return the ids of *agents*; raises `InvalidInput` for one that is not there."""
    ids = list[str]()
    for n, each in enumerate(agents):
        try:
            ids.append((await wired.core.agents.get(each)).id)
        except NotFound:
            raise InvalidInput(f"agents[{n}]", f"there is no agent `{each[:100]}`.") from None
    return tuple(dict.fromkeys(ids))


@router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 422, status=204))
async def remove_signing_key(wired: Wired, _: Operator, id: KeyId) -> Response:
    """Remove a key: what it signed is refused, here at once and elsewhere within a second, and open streams end."""
    await wired.core.access.remove_signing_key(id)
    wired.credentials.drop_signer(id)
    return Response(status_code=204)
