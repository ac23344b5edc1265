"""Visitors' tokens that a site signs itself, by a key whose public half an operator registered. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from agent_core.messages import Actor
from channels.web.identity import MAX_ID, Principal, fault_of_id, fault_of_name

if TYPE_CHECKING:
    from jwt.types import Options

Algorithm = Literal["RS256", "ES256", "EdDSA"]
"""One for each type of key: what a token's header says never chooses it."""
MAX_TOKEN = 8_000
"""Characters: proxies take a header of about as many."""
MAX_CONTEXT = 4_000
"""Bytes of JSON of a token's `tool_context`."""
MAX_PEM = 4_000
DAY = 24 * 3600
LEEWAY = 60
"""Seconds by which the clocks of a site and of this server may differ."""
_OPTIONS: "Options" = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


@dataclass(frozen=True, slots=True)
class Signer:
    """A registered key that is ready to verify: the *id* of its registration, and what PyJWT takes."""

    id: str
    algorithm: Algorithm
    key: Any


class _Claims(msgspec.Struct, frozen=True):
    """What a site says in a token; claims besides these are its own affair."""

    sub: str
    aud: str | list[str]
    agent: str
    exp: int | float
    iat: int | float
    nbf: int | float | None = None
    name: str | None = None
    jti: str | None = None
    tool_context: dict[str, Any] | None = None


def signer_of(id: str, jwk: Mapping[str, str], algorithm: Algorithm) -> Signer:
    """Return a registered key, ready to verify."""
    import jwt  # noqa: PLC0415 - 8 MB, for servers to which sites have registered keys

    return Signer(id, algorithm, jwt.PyJWK(dict(jwk), algorithm).key)


def read_signed(
    text: str, signers: Mapping[str, Signer], *, audiences: Collection[str], now: float
) -> Principal | str | None:
    """Return the visitor whom *text* names; what is wrong with it, for developers; None: no key here signed it.

    *signers* are the registered keys by `kid`, *now* is seconds since the epoch. The visitor's *agent* is what the
    token calls it, an id or a name.
    """
    verified = _verified(text, signers)
    if verified is None:
        return None
    signer, claims = verified
    try:
        read = msgspec.convert(claims, _Claims)
    except msgspec.ValidationError as error:
        return f"The claims of this token are not as they have to be: {error}."
    if (fault := _fault(read, audiences, now)) is not None:
        return fault
    context = None if read.tool_context is None else msgspec.json.decode(msgspec.json.encode(read.tool_context))
    return Principal(
        "visitor",
        Actor(id=read.sub, kind="visitor", name=read.name),
        read.agent,
        token=read.jti,
        issued=round(1000 * read.iat),
        expires=int(1000 * read.exp),
        tool_context=context or None,
        signer=signer.id,
    )


def _verified(text: str, signers: Mapping[str, Signer]) -> tuple[Signer, dict[str, Any]] | None:
    """Return the claims of *text* and who signed them; None unless one of *signers* did."""
    if not signers or len(text) > MAX_TOKEN:
        return None
    import jwt  # noqa: PLC0415 - as above

    try:
        signer = signers.get(jwt.get_unverified_header(text).get("kid", ""))
        if signer is None:
            return None
        claims = jwt.decode(  # pyright: ignore[reportUnknownMemberType] - PyJWT's types name an optional package's
            text, signer.key, algorithms=[signer.algorithm], options=_OPTIONS
        )
    except jwt.InvalidTokenError:
        return None
    return signer, claims


def _fault(read: _Claims, audiences: Collection[str], now: float) -> str | None:
    """Return what is wrong with the claims of a token, None when nothing is."""
    named = {read.aud} if isinstance(read.aud, str) else set(read.aud)
    if named.isdisjoint(audiences):
        return f"The `aud` of this token has to be one of {', '.join(f'`{each}`' for each in sorted(audiences))}."
    if not 0 <= read.iat <= now + LEEWAY or (read.nbf is not None and not read.nbf <= now + LEEWAY):
        return "The `iat` or `nbf` of this token lies in the future: set the clock of who signs it."
    if not read.exp <= read.iat + DAY:
        return "The `exp` of this token is more than a day after its `iat`."
    if not now < read.exp:
        return "This token has expired: make another."
    if (fault := fault_of_id(read.sub)) is not None:
        return f"The `sub` of this token names no visitor: {fault}"
    for claim, text in (("name", read.name), ("jti", read.jti), ("agent", read.agent)):
        if text is not None and (not 1 <= len(text) <= MAX_ID or fault_of_name(text) is not None):
            return f"The `{claim}` of this token has 1 to {MAX_ID} characters that can be seen."
    return _fault_of_context(read.tool_context)


def _fault_of_context(context: dict[str, Any] | None) -> str | None:
    try:
        size = 0 if context is None else len(msgspec.json.encode(context))
    except UnicodeError:
        return "The `tool_context` of this token holds text that is none."
    return (
        None if size <= MAX_CONTEXT else f"The `tool_context` of this token has at most {MAX_CONTEXT:,} bytes of JSON."
    )
