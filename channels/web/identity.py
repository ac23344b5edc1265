"""Which ids a page's visitor may have: none that means someone of another channel, and none that cannot be seen."""

import hmac
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from agent_core.errors import ParleyError
from agent_core.ids import new_id
from agent_core.messages import Actor
from agent_core.objects import SCOPES as ALL_SCOPES
from agent_core.secrets import Secrets

if TYPE_CHECKING:
    from jwt.types import Options


MAX_ID = 200
RESERVED = frozenset(
    {"actor", "agent", "forgotten", "key", "operator", "operators", "parley", "service", "slack", "system", "terminal"}
)
"""Words that an id may not be, nor begin with before a colon: actors of other channels, operators, our own words."""
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters and marks that are drawn as nothing: fillers of Hangul, a blank of Braille, the joiner of graphemes.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))


def fault_of_id(id: str) -> str | None:
    """Return what is wrong with *id* as a visitor's, None when nothing is."""
    if not id or len(id) > MAX_ID:
        return f"an id has 1 to {MAX_ID} characters."
    if (hidden := next((each for each in id if is_hidden(each)), None)) is not None:
        return f"an id contains only characters that can be seen, not U+{ord(hidden):04X}."
    if id != id.strip() or any(each.isspace() and each != " " for each in id):
        return "an id begins and ends with no space, and contains no other space than U+0020."
    word = unicodedata.normalize("NFKC", id).casefold().partition(":")[0].strip()
    if word in RESERVED:
        return f"`{word}` is not a visitor's; ids of other channels and of operators are reserved."
    return None


def fault_of_name(name: str) -> str | None:
    """Return what is wrong with a visitor's *name*, None when nothing is; joiners are part of some languages."""
    hidden = next((each for each in name if is_hidden(each) and each not in "\u200c\u200d"), None)
    return None if hidden is None else f"a name contains only characters that can be seen, not U+{ord(hidden):04X}."


def is_hidden(character: str) -> bool:
    """Return whether *character* is a control, or drawn as nothing."""
    if character.isascii():
        return not character.isprintable()
    code = ord(character)
    selects = any(first <= code <= last for first, last in _SELECTORS)
    return unicodedata.category(character) in _HIDDEN or character in _BLANK or selects


ALGORITHM = "HS256"
VISITOR_SECONDS = 15 * 60
OPERATOR_SECONDS = 5 * 60
COOKIE_SECONDS = 30 * 24 * 3600
SECRET_SECONDS = COOKIE_SECONDS
"""How long a browser may stay away and be the same anonymous visitor again."""
LOGIN_SECONDS = 12 * 3600
"""A working day, counted from the login: use does not prolong it."""
OPERATOR = Actor(id="operator", kind="service")
ACT_AS = "approvals:as"
"""Decide approvals in the name of another person."""
SCOPES: frozenset[str] = frozenset(ALL_SCOPES)
"""Every scope that an operator's key can have."""
FORGOTTEN = "forgotten:"
"""Begins what stands in records for the id of a person whose data was deleted."""
Audience = Literal["visitor", "operator", "cookie", "login", "anonymous"]


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request.

    *agent* is the id of the only agent that a visitor may talk to, *scopes* what an operator may do. *key* is the id of
    the API key that was sent, or that made the visitor's token; *token* is that token's id, *issued* when it was made
    (milliseconds; 0: before tokens said so). *via* is the actor of a key that made the token, or registered its signer,
    and may not act for other people: what the visitor says counts as the key's too. *is_anonymous*: no site says who
    the visitor is; *issued* is then when they first came. *signer* is the id of the registered key that signed the
    token. *tool_context* is what the token says of the visitor to the tools of their runs alone; it may hold secrets.
    In the sessions *barred* a visitor reaches nothing. What was sent is good until *expires* (milliseconds; None: for a
    key, whose end may be changed). An operator who logged in at the console has the login's id as *token*, and the
    *mark* of the key's secret, whose change ends the login.
    """

    role: Literal["operator", "visitor"]
    actor: Actor
    agent: str | None = None
    scopes: frozenset[str] = frozenset()
    key: str | None = field(default=None, compare=False)
    token: str | None = field(default=None, compare=False)
    issued: int = field(default=0, compare=False)
    via: Actor | None = field(default=None, compare=False)
    is_anonymous: bool = field(default=False, compare=False)
    signer: str | None = field(default=None, compare=False)
    tool_context: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    barred: AbstractSet[str] = field(default=frozenset(), compare=False)
    mark: str | None = field(default=None, compare=False)
    expires: int | None = field(default=None, compare=False)

    @property
    def visitor(self) -> bool:
        return self.role == "visitor"


@dataclass(frozen=True, slots=True)
class Token:
    """A signed token, its id, and the second (since the epoch) after which it is not accepted any more."""

    text: str
    expires: int
    id: str


@dataclass(frozen=True, slots=True)
class Login:
    """A login at the console: its id, the id of its API key (None: the printed one), that secret's mark, its end."""

    id: str
    key: str | None
    mark: str
    expires: int


@dataclass(frozen=True, slots=True)
class Known:
    """An anonymous visitor who was here before: on pages of *origin*, with the agent of this id, first at *since*.

    *since* is seconds since the epoch, *token* the id of the secret that was sent.
    """

    visitor: str
    agent: str
    origin: str
    since: float
    token: str

    @property
    def principal(self) -> Principal:
        """The visitor who holds the secret, which itself opens no agent."""
        actor = Actor(id=self.visitor, kind="visitor")
        return Principal("visitor", actor, token=self.token, issued=round(1000 * self.since), is_anonymous=True)


class TokenSigner:
    """Sign and read short-lived tokens; *derive* gives the key of a purpose, *now* seconds since the epoch.

    Each audience has its own key, so that no token of one kind can ever pass for another.
    """

    def __init__(self, derive: Callable[[str], bytes], *, now: Callable[[], float] = time.time) -> None:
        self._keys: dict[Audience, bytes] = {
            "visitor": derive("visitor-token"),
            "operator": derive("operator-token"),
            "cookie": derive("visitor-cookie"),
            "login": derive("operator-login"),
            "anonymous": derive("anonymous-visitor"),
        }
        self._pseudonyms, self._marks = derive("pseudonym"), derive("key-mark")
        self._seals, self._now = Secrets(derive("visitor-context")), now

    def visitor(
        self,
        actor: Actor,
        *,
        agent: str,
        seconds: int = VISITOR_SECONDS,
        made_by: str | None = None,
        tool_context: Mapping[str, Any] | None = None,
    ) -> Token:
        """Return a token that lets *actor* talk to the agent with the id *agent*; *made_by* is the id of an API key.

        *tool_context* is sealed in it, for who holds the token is not to read it.
        """
        id = new_id("tok")
        sealed = self._seals.seal(msgspec.json.encode(tool_context).decode(), _purpose(id)) if tool_context else None
        claims = {"sub": actor.id, "agent": agent, "name": actor.name, "by": made_by, "ctx": sealed}
        return self._sign("visitor", {name: value for name, value in claims.items() if value is not None}, seconds, id)

    def anonymous(self, agent: str, origin: str, previous: Known | None = None) -> tuple[Token, Token]:
        """Return a token for a visitor whom no site names, and the secret by which the browser gets the next one.

        Without *previous* the visitor is new. Revocations count from its first token: no renewal outlives one.
        """
        now = round(self._now(), 3)
        visitor, since = (new_id("anonymous"), now) if previous is None else (previous.visitor, previous.since)
        claims = {"sub": visitor, "agent": agent, "since": since}
        token = self._sign("visitor", {**claims, "anon": True}, VISITOR_SECONDS)
        return token, self._sign("anonymous", {**claims, "origin": origin}, SECRET_SECONDS)

    def read_secret(self, text: str) -> Known | None:
        """Return whom the secret of an anonymous visitor names, None when it is forged or expired."""
        claims = self._current("anonymous", text)
        if claims is None:
            return None
        return Known(claims["sub"], claims["agent"], claims["origin"], claims["since"], claims["jti"])

    def operator(self, *, seconds: int = OPERATOR_SECONDS, scopes: Iterable[str] = SCOPES) -> Token:
        """Return a token for a command on the machine that holds the secret key."""
        return self._sign("operator", {"sub": OPERATOR.id, "scopes": " ".join(sorted(scopes))}, seconds)

    def login(self, key: str | None, mark: str) -> Token:
        """Return what a browser keeps after a login with the API key *key*, whose secret has the *mark*."""
        return self._sign("login", {"sub": key or OPERATOR.id, "mark": mark}, LOGIN_SECONDS)

    def read_login(self, text: str) -> Login | None:
        """Return the login that `login` signed, or None when it is forged or over."""
        claims = self._current("login", text)
        if claims is None:
            return None
        key = None if claims["sub"] == OPERATOR.id else claims["sub"]
        return Login(claims["jti"], key, claims["mark"], claims["exp"])

    def operator_of(self, login: Login, actor: Actor, scopes: Iterable[str]) -> Token:
        """Return a token for the page of *actor*, the operator of *login*; it ends with the login at the latest."""
        values = {"sub": actor.id, "name": actor.name, "by": login.key, "login": login.id, "mark": login.mark}
        claims = {name: value for name, value in values.items() if value is not None}
        seconds = min(OPERATOR_SECONDS, login.expires - int(self._now()))
        return self._sign("operator", {**claims, "scopes": " ".join(sorted(scopes))}, seconds)

    def mark(self, digest: bytes) -> str:
        """Return by what a login knows the secret of its key again, of which *digest* is the hash."""
        return hmac.digest(self._marks, digest, "sha256").hex()[:32]

    def cookie(self, visitor: str) -> Token:
        """Return what a browser keeps so that its tabs and reloads are one visitor."""
        return self._sign("cookie", {"sub": visitor}, COOKIE_SECONDS)

    def read(self, text: str) -> Principal | None:
        """Return whom *text* names, or None when it is forged, expired, of an id that is none, or no token at all."""
        if (claims := self._current("visitor", text)) and fault_of_id(claims["sub"]) is None:
            return self._visitor(claims)
        if claims := self._current("operator", text):
            if (scopes := claims.get("scopes")) is None:  # of the version before, whose `scope` names what is beside
                scopes = f"read run approve admin {claims.get('scope', '')}"
            return _operator(claims, SCOPES & frozenset(scopes.split()))
        return None

    def _visitor(self, claims: dict[str, Any]) -> Principal | None:
        """Return the visitor of a token; None when its tool context cannot be opened: without it they are another."""
        try:
            sealed = claims.get("ctx")
            context = None if sealed is None else msgspec.json.decode(self._seals.open(sealed, _purpose(claims["jti"])))
        except ParleyError:
            return None
        return Principal(
            "visitor",
            Actor(id=claims["sub"], kind="visitor", name=claims.get("name")),
            claims["agent"],
            key=claims.get("by"),
            token=claims.get("jti"),
            issued=_milliseconds(claims),
            expires=1000 * claims["exp"],
            tool_context=context,
            is_anonymous=claims.get("anon", False),
        )

    def read_cookie(self, text: str) -> Principal | None:
        """Return the visitor that `cookie` signed, who may talk to no agent, or None."""
        claims = self._current("cookie", text)
        if claims is None:
            return None
        return Principal("visitor", Actor(id=claims["sub"], kind="visitor"), issued=_milliseconds(claims))

    def is_genuine(self, text: str) -> bool:
        """Return whether *text* is a token that was signed here, though it may have expired."""
        return any(self._claims(audience, text) is not None for audience in ("visitor", "operator"))

    def pseudonym(self, actor: str) -> str:
        """Return what stands in records for the id *actor* of a person whose data was deleted; always the same."""
        return FORGOTTEN + hmac.digest(self._pseudonyms, actor.encode("utf-8", "surrogatepass"), "sha256").hex()[:24]

    def _sign(self, audience: Audience, claims: Mapping[str, Any], seconds: int, id: str | None = None) -> Token:
        now, id = self._now(), id or new_id("tok")
        expires = int(now) + seconds
        body = {**claims, "aud": audience, "exp": expires, "iat": round(now, 3), "jti": id}
        key = self._keys[audience]
        import jwt  # noqa: PLC0415 - 8 MB with what reads keys, which only tokens need

        # PyJWT's types name those of an optional package.
        text = jwt.encode(body, key, algorithm=ALGORITHM)  # pyright: ignore[reportUnknownMemberType]
        return Token(text, expires, id)

    def _current(self, audience: Audience, text: str) -> dict[str, Any] | None:
        claims = self._claims(audience, text)
        return claims if claims is not None and self._now() < claims["exp"] else None

    def _claims(self, audience: Audience, text: str) -> dict[str, Any] | None:
        import jwt  # noqa: PLC0415 - as above

        options: Options = {"require": ["sub", "aud", "exp"], "verify_exp": False, "verify_iat": False}
        key = self._keys[audience]
        try:
            return jwt.decode(  # pyright: ignore[reportUnknownMemberType] - as above
                text, key, algorithms=[ALGORITHM], audience=audience, options=options
            )
        except jwt.InvalidTokenError:
            return None


def _operator(claims: dict[str, Any], scopes: frozenset[str]) -> Principal:
    """Return the operator of a command on this machine, or who logged in at the console."""
    expires = 1000 * claims["exp"]
    if (mark := claims.get("mark")) is None:
        return Principal("operator", OPERATOR, scopes=scopes, expires=expires)
    actor, key, login = (
        Actor(id=claims["sub"], kind="service", name=claims.get("name")),
        claims.get("by"),
        claims["login"],
    )
    return Principal("operator", actor, scopes=scopes, key=key, token=login, expires=expires, mark=mark)


def _purpose(token: str) -> str:
    """Return what a token's tool context is sealed for: that token alone, so that equal ones do not look equal."""
    return f"tool_context of {token}"


def _milliseconds(claims: dict[str, Any]) -> int:
    """Return when a token was made, or its anonymous visitor first came; 0 for one of a version that did not say."""
    return round(1000 * claims.get("since", claims.get("iat", 0)))
