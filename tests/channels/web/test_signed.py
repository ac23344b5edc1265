"""Tokens that a site signs itself: which keys can be registered, and what a token has to say."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from agent_core.messages import Actor
from channels.web.identity import Principal
from channels.web.public_keys import NoKey, read_key
from channels.web.signed import DAY, LEEWAY, Signer, read_signed, signer_of
from tests.cases import for_each

NOW = 1_900_000_000.0
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
P256 = ec.generate_private_key(ec.SECP256R1())
ED25519 = ed25519.Ed25519PrivateKey.generate()
KEYS: dict[str, Any] = {"RS256": RSA, "ES256": P256, "EdDSA": ED25519}
CLAIMS: dict[str, Any] = {"sub": "ada", "aud": "parley", "agent": "shop", "iat": NOW, "exp": NOW + 600}


def pem(key: Any) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def private_pem(key: Any) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


SIGNERS: dict[str, Signer] = {}
for _algorithm, _key in KEYS.items():
    _read = read_key(pem(_key))
    SIGNERS[_algorithm.lower()] = signer_of(f"sign_{_algorithm}", _read.jwk, _read.algorithm)


def signed(algorithm: str = "ES256", *, kid: str | None = None, key: Any = None, **claims: Any) -> str:
    """Return a token with CLAIMS but for *claims*; None leaves one out."""
    body = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode(body, key or KEYS[algorithm], algorithm, headers={"kid": kid or algorithm.lower()})


def read(text: str) -> Principal | str | None:
    return read_signed(text, SIGNERS, audiences={"parley", "https://chat.example"}, now=NOW)


@for_each("algorithm", KEYS)
def test_a_token_names_its_visitor(algorithm: str):
    """With each type of key: who it is, with which agent, until when, and what tools are given."""
    found = read(signed(algorithm, name="Ada", jti="t1", tool_context={"account": "A-1"}, nbf=NOW, iss="https://shop"))
    assert found == Principal("visitor", Actor("ada", "visitor", "Ada"), "shop")
    assert isinstance(found, Principal)
    assert (found.token, found.issued, found.expires) == ("t1", 1000 * NOW, 1000 * (NOW + 600))
    assert (found.tool_context, found.signer, found.key, found.scopes) == (
        {"account": "A-1"},
        f"sign_{algorithm}",
        None,
        frozenset(),
    )


@for_each(
    "claim, claims",
    [
        ("aud", {"aud": "another"}),
        ("aud", {"aud": ["https://chat.example.evil", "x"]}),
        ("aud", {"aud": None}),
        ("exp", {"exp": NOW + DAY + LEEWAY}),
        ("exp", {"exp": None}),
        ("exp", {"exp": float("nan")}),
        ("exp", {"exp": float("inf")}),
        ("exp", {"exp": "9" * 9}),
        ("expired", {"exp": NOW}),
        ("iat", {"iat": NOW + 2 * LEEWAY}),
        ("iat", {"iat": None}),
        ("iat", {"iat": float("nan")}),
        ("iat", {"iat": -1}),
        ("nbf", {"nbf": NOW + 2 * LEEWAY}),
        ("agent", {"agent": None}),
        ("agent", {"agent": ""}),
        ("agent", {"agent": "\ud800"}),
        ("sub", {"sub": None}),
        ("sub", {"sub": 5}),
        ("sub", {"sub": "operator:key_1"}),
        ("sub", {"sub": "slack:U1"}),
        ("sub", {"sub": "a\u202eb"}),
        ("sub", {"sub": "x" * 201}),
        ("name", {"name": "x" * 201}),
        ("name", {"name": "a\nb"}),
        ("jti", {"jti": "x" * 201}),
        ("tool_context", {"tool_context": [1]}),
        ("tool_context", {"tool_context": {"a": "x" * 4_000}}),
        ("tool_context", {"tool_context": {"a": "\udfff"}}),
    ],
)
def test_a_claim_that_is_wrong_is_named(claim: str, claims: dict[str, Any]):
    """Who signs reads which claim is at fault; nothing of the token is taken."""
    found = read(signed(**claims))
    assert isinstance(found, str)
    assert claim in found


@for_each("aud", ["https://chat.example", ["other", "parley"]])
def test_the_audience_is_this_server(aud: Any):
    """By its word or its public address, alone or among others."""
    assert isinstance(read(signed(aud=aud)), Principal)


def b64(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], secret: bytes | None) -> str:
    text = f"{b64(header)}.{b64(CLAIMS)}"
    return f"{text}.{'' if secret is None else b64(hmac.digest(secret, text.encode(), hashlib.sha256))}"


FORGED = {
    "by another key": signed(key=ec.generate_private_key(ec.SECP256R1())),
    "by a key of another type under this name": signed("RS256", kid="es256"),
    "under no name": jwt.encode(CLAIMS, P256, "ES256"),
    "under an unknown name": signed(kid="other"),
    "without a signature": by_hand({"alg": "none", "kid": "es256", "typ": "JWT"}, None),
    "with the public key as a shared secret": by_hand({"alg": "HS256", "kid": "rs256"}, pem(RSA).encode()),
    "with a longer hash": jwt.encode(CLAIMS, RSA, "RS512", headers={"kid": "rs256"}),
    "with a padding of another kind": jwt.encode(CLAIMS, RSA, "PS256", headers={"kid": "rs256"}),
    "with other claims": ".".join((signed().split(".")[0], b64({**CLAIMS, "sub": "eve"}), signed().split(".")[2])),
    "by a key in the token": jwt.encode(
        CLAIMS, P256, "ES256", headers={"kid": "other", "jwk": json.loads(ECAlgorithm.to_jwk(P256.public_key()))}
    ),
    "with an extension": jwt.encode(CLAIMS, P256, "ES256", headers={"kid": "es256", "crit": ["x"], "x": 1}),
    "too long": signed(more="x" * 8_000),
    "nested": f"{b64(b'[' * 3000)}.e30.AAAA",
    "no object": f"{b64([1])}.e30.AAAA",
    "a name that is no text": f"{b64({'alg': 'ES256', 'kid': ['es256']})}.e30.AAAA",
    "no token": "es256",
    "empty": "",
}


@for_each("forged", FORGED.values())
def test_what_no_registered_key_signed_names_no_one(forged: str):
    """A header chooses neither algorithm nor key, and a signature is for these very claims."""
    assert read(forged) is None


@for_each("algorithm", KEYS)
def test_a_key_is_the_same_as_pem_and_as_jwk(algorithm: str):
    """Both give one canonical key under its thumbprint, unless the JWK has a name."""
    write = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}[algorithm]
    jwk = {**json.loads(write.to_jwk(KEYS[algorithm].public_key())), "alg": algorithm, "use": "sig"}
    of_pem, of_jwk, named = read_key(pem(KEYS[algorithm])), read_key(jwk), read_key({**jwk, "kid": "2027"})
    assert of_pem == of_jwk
    assert (of_pem.algorithm, len(of_pem.kid), named.kid, named.jwk) == (algorithm, 43, "2027", of_pem.jwk)


def test_a_thumbprint_is_that_of_the_standard():
    """The example of RFC 7638, section 3.1."""
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj"
        "hMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQ"
        "vRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzK"
        "nqDKgw"
    )
    assert read_key({"kty": "RSA", "n": n, "e": "AQAB"}).kid == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


OKP: dict[str, Any] = json.loads(OKPAlgorithm.to_jwk(ED25519.public_key()))
NO_KEYS: dict[str, Any] = {
    "a private PEM": (private_pem(P256), "private"),
    "a private JWK": (json.loads(ECAlgorithm.to_jwk(P256)), "private"),
    "a shared secret": ({"kty": "oct", "k": "c2VjcmV0"}, "shared"),
    "a short RSA key": (pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)), "2048 bits"),  # noqa: S505 - that is the point
    "another curve": (pem(ec.generate_private_key(ec.SECP384R1())), "P-256"),
    "another Edwards curve": (pem(ed448.Ed448PrivateKey.generate()), "Ed25519"),
    "a point off the curve": ({**json.loads(ECAlgorithm.to_jwk(P256.public_key())), "x": "AA"}, "cannot be read"),
    "for encryption": ({**OKP, "use": "enc"}, "not for signatures"),
    "another algorithm": ({**OKP, "alg": "HS256"}, "EdDSA"),
    "a member that is none": ({**OKP, "x": 5}, "members"),
    "no type": ({}, "members"),
    "no key": ("hello", "PEM"),
    "empty PEM": ("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----", "PEM"),
}


@for_each("given, said", NO_KEYS.values())
def test_what_is_no_public_key_is_refused(given: Any, said: str):
    """Private and shared keys, weak ones and other types are refused with what to give instead."""
    with pytest.raises(NoKey, match=said):
        read_key(given)
