"""Visitors' tokens that a site signs itself, by a key whose public half an operator registered. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.types import Options
from jwt.utils import base64url_encode

from agent_core import Actor
from channels.web.identity import Principal
from channels.web.visitor_ids import MAX_ID, fault_of_id, fault_of_name

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
LEAST_BITS, MOST_BITS = 2_048, 8_192
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_PUBLIC: Mapping[str, tuple[str, ...]] = {
    "RSA": ("e", "kty", "n"),
    "EC": ("crv", "kty", "x", "y"),
    "OKP": ("crv", "kty", "x"),
}
_KINDS = "an RSA key of at least 2048 bits (RS256), a P-256 key (ES256) or an Ed25519 key (EdDSA)"
_OPTIONS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


class NoKey(ValueError):
    """What was given is no public key that signs tokens; its text says what to give."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key as a JWK with what it needs alone, the one algorithm that it is for, and the id that it names."""

    jwk: dict[str, str]
    algorithm: Algorithm
    kid: str


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


def read_key(given: str | Mapping[str, Any]) -> PublicKey:
    """Return the public key that *given* is, PEM or a JWK; raises `NoKey`."""
    key = _of_pem(given) if isinstance(given, str) else _of_jwk(given)
    match key:
        case RSAPublicKey() if LEAST_BITS <= key.key_size <= MOST_BITS:
            algorithm, written = "RS256", RSAAlgorithm.to_jwk(key, as_dict=True)
        case EllipticCurvePublicKey(curve=SECP256R1()):
            algorithm, written = "ES256", ECAlgorithm.to_jwk(key, as_dict=True)
        case Ed25519PublicKey():
            algorithm, written = "EdDSA", OKPAlgorithm.to_jwk(key, as_dict=True)
        case _:
            raise NoKey(f"give {_KINDS}.")
    jwk = {name: str(written[name]) for name in _PUBLIC[written["kty"]]}
    named: Any = None if isinstance(given, str) else given.get("kid")
    if not isinstance(given, str) and given.get("alg", algorithm) != algorithm:
        raise NoKey(f"a key of this type signs with {algorithm}; its `alg` says something else.")
    # RFC 7638: the members in the order of their names.
    thumbprint = base64url_encode(sha256(msgspec.json.encode(jwk)).digest()).decode()
    return PublicKey(jwk, algorithm, named if isinstance(named, str) and named else thumbprint)


def signer_of(id: str, jwk: Mapping[str, str], algorithm: Algorithm) -> Signer:
    """Return a registered key, ready to verify."""
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


def _of_pem(text: str) -> Any:
    if "PRIVATE KEY" in text:
        raise NoKey("this is a private key: keep it where it signs, and give the public one.")
    try:
        return load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise NoKey("give a public key as PEM (`-----BEGIN PUBLIC KEY-----`), or as a JWK object.") from None


def _of_jwk(given: Mapping[str, Any]) -> Any:
    if not _PRIVATE.isdisjoint(given):
        raise NoKey("this is a private or a shared key: keep it where it signs, and give the public one.")
    if given.get("use", "sig") != "sig":
        raise NoKey("this key is not for signatures: its `use` is not `sig`.")
    public = {name: given.get(name) for name in _PUBLIC.get(str(given.get("kty")), ())}
    if not public or not all(isinstance(each, str) for each in public.values()):
        raise NoKey(f"give {_KINDS}, as a JWK with the members that its type has.")
    try:
        match public["kty"]:
            case "RSA":
                return RSAAlgorithm.from_jwk(public)
            case "EC":
                return ECAlgorithm.from_jwk(public)
            case _:
                return OKPAlgorithm.from_jwk(public)
    except (jwt.InvalidKeyError, ValueError, UnsupportedAlgorithm):
        raise NoKey(f"give {_KINDS}, as a JWK; this one cannot be read.") from None
