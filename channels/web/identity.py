"""Who calls over HTTP: operators and visitors, and the signed tokens that name them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import jwt
from jwt.types import Options

from agent_core import Actor

ALGORITHM = "HS256"
VISITOR_SECONDS = 15 * 60
OPERATOR_SECONDS = 5 * 60
COOKIE_SECONDS = 30 * 24 * 3600
OPERATOR = Actor(id="operator", kind="service")
ACT_AS = "approvals:as"
"""Decide approvals in the name of another person."""
SCOPES = frozenset({ACT_AS})
"""Every scope that an operator's key can have."""
Audience = Literal["visitor", "operator", "cookie"]


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request.

    *agent* is the id of the only agent that a visitor may talk to, *scopes* what an operator may beside the rest.
    """

    role: Literal["operator", "visitor"]
    actor: Actor
    agent: str | None = None
    scopes: frozenset[str] = frozenset()

    @property
    def visitor(self) -> bool:
        return self.role == "visitor"


@dataclass(frozen=True, slots=True)
class Token:
    """A signed token and the second (since the epoch) after which it is not accepted any more."""

    text: str
    expires: int


class TokenSigner:
    """Sign and read short-lived tokens; *derive* gives the key of a purpose, *now* seconds since the epoch.

    Each audience has its own key, so that no token of one kind can ever pass for another.
    """

    def __init__(self, derive: Callable[[str], bytes], *, now: Callable[[], float] = time.time) -> None:
        self._keys: dict[Audience, bytes] = {
            "visitor": derive("visitor-token"),
            "operator": derive("operator-token"),
            "cookie": derive("visitor-cookie"),
        }
        self._now = now

    def visitor(self, actor: Actor, *, agent: str, seconds: int = VISITOR_SECONDS) -> Token:
        """Return a token that lets *actor* talk to the agent with the id *agent*."""
        claims = {"sub": actor.id, "agent": agent}
        return self._sign("visitor", claims if actor.name is None else {**claims, "name": actor.name}, seconds)

    def operator(self, *, seconds: int = OPERATOR_SECONDS, scopes: Iterable[str] = SCOPES) -> Token:
        """Return a token for a command on the machine that holds the secret key."""
        return self._sign("operator", {"sub": OPERATOR.id, "scope": " ".join(sorted(scopes))}, seconds)

    def cookie(self, visitor: str) -> Token:
        """Return what a browser keeps so that its tabs and reloads are one visitor."""
        return self._sign("cookie", {"sub": visitor}, COOKIE_SECONDS)

    def read(self, text: str) -> Principal | None:
        """Return whom *text* names, or None when it is forged, expired or no token at all."""
        if claims := self._claims("visitor", text):
            actor = Actor(id=claims["sub"], kind="visitor", name=claims.get("name"))
            return Principal("visitor", actor, claims["agent"])
        if claims := self._claims("operator", text):
            return Principal("operator", OPERATOR, scopes=frozenset(claims.get("scope", "").split()))
        return None

    def read_cookie(self, text: str) -> str | None:
        """Return the visitor's id that `cookie` signed, or None."""
        claims = self._claims("cookie", text)
        return claims["sub"] if claims else None

    def _sign(self, audience: Audience, claims: dict[str, str], seconds: int) -> Token:
        expires = int(self._now()) + seconds
        body = {**claims, "aud": audience, "exp": expires}
        key = self._keys[audience]
        # PyJWT's types name those of an optional package.
        text = jwt.encode(body, key, algorithm=ALGORITHM)  # pyright: ignore[reportUnknownMemberType]
        return Token(text, expires)

    def _claims(self, audience: Audience, text: str) -> dict[str, Any] | None:
        options: Options = {"require": ["sub", "aud", "exp"], "verify_exp": False}
        key = self._keys[audience]
        try:
            claims = jwt.decode(  # pyright: ignore[reportUnknownMemberType] - as above
                text, key, algorithms=[ALGORITHM], audience=audience, options=options
            )
        except jwt.InvalidTokenError:
            return None
        return claims if self._now() < claims["exp"] else None
