"""Public keys that operators register: PEM or JWK, read and checked. Pure.

Imported where a key is registered: what reads keys takes 8 MB, and most servers have none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode

from channels.web.signed import Algorithm

MIN_BITS, MAX_BITS = 2_048, 8_192
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_PUBLIC: Mapping[str, tuple[str, ...]] = {
    "RSA": ("e", "kty", "n"),
    "EC": ("crv", "kty", "x", "y"),
    "OKP": ("crv", "kty", "x"),
}
_KINDS = "an RSA key of at least 2048 bits (RS256), a P-256 key (ES256) or an Ed25519 key (EdDSA)"


class NoKey(ValueError):
    """What was given is no public key that signs tokens; its text says what to give."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key as a JWK with what it needs alone, the one algorithm that it is for, and the id that it names."""

    jwk: dict[str, str]
    algorithm: Algorithm
    kid: str


def read_key(value: str | Mapping[str, Any]) -> PublicKey:
    """Return the public key that *value* is, PEM or a JWK; raises `NoKey`."""
    key = _of_pem(value) if isinstance(value, str) else _of_jwk(value)
    match key:
        case RSAPublicKey() if MIN_BITS <= key.key_size <= MAX_BITS:
            algorithm, written = "RS256", RSAAlgorithm.to_jwk(key, as_dict=True)
        case EllipticCurvePublicKey(curve=SECP256R1()):
            algorithm, written = "ES256", ECAlgorithm.to_jwk(key, as_dict=True)
        case Ed25519PublicKey():
            algorithm, written = "EdDSA", OKPAlgorithm.to_jwk(key, as_dict=True)
        case _:
            raise NoKey(f"give {_KINDS}.")
    jwk = {name: str(written[name]) for name in _PUBLIC[written["kty"]]}
    named: Any = None if isinstance(value, str) else value.get("kid")
    if not isinstance(value, str) and value.get("alg", algorithm) != algorithm:
        raise NoKey(f"a key of this type signs with {algorithm}; its `alg` says something else.")
    # RFC 7638: the members in the order of their names.
    thumbprint = base64url_encode(sha256(msgspec.json.encode(jwk)).digest()).decode()
    return PublicKey(jwk, algorithm, named if isinstance(named, str) and named else thumbprint)


def _of_pem(text: str) -> Any:
    if "PRIVATE KEY" in text:
        raise NoKey("this is a private key: keep it where it signs, and give the public one.")
    try:
        return load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise NoKey("give a public key as PEM (`-----BEGIN PUBLIC KEY-----`), or as a JWK object.") from None


def _of_jwk(members: Mapping[str, Any]) -> Any:
    if not _PRIVATE.isdisjoint(members):
        raise NoKey("this is a private or a shared key: keep it where it signs, and give the public one.")
    if members.get("use", "sig") != "sig":
        raise NoKey("this key is not for signatures: its `use` is not `sig`.")
    public = {name: members.get(name) for name in _PUBLIC.get(str(members.get("kty")), ())}
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
