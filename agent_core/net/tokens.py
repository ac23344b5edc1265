"""Tokens from an OAuth token endpoint, with client credentials or any other grant."""

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from agent_core.clock import Clock
from agent_core.errors import ParleyError
from agent_core.net.fetch import Bounds, Fetched, FetchPort
from agent_core.net.targets import FetchFailed
from agent_core.secrets import scrubbed

BOUNDS = Bounds(seconds=15.0, first_byte=15.0, size=100_000)
_MAX_LIFE = 30 * 86_400.0
_MAX_REASON = 200
_REFUSALS = (400, 401)
ClientNaming = Literal["basic", "post", "none"]
"""How the client names itself: in the `Authorization` header, as fields of the form, or by its id alone."""


class TokenFailed(ParleyError):
    """A token endpoint gave no token; the message names the endpoint and what it said, and holds no secret.

    *refused* is the `error` of an answer with status 400 or 401 (RFC 6749, 5.2).
    """

    code = "token_failed"

    def __init__(self, message: str, refused: str | None = None) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who asks; *secret* is the secret itself, empty where *auth* is `none`."""

    id: str
    secret: str = field(default="", repr=False)
    auth: ClientNaming = "none"

    @property
    def basic(self) -> str:
        """Return the value of the `Authorization` header after `Basic`."""
        return b64encode(f"{quote(self.id, safe='')}:{quote(self.secret, safe='')}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Granted:
    """A token that can be sent; *seconds* is its life, None where the endpoint does not say, *refresh* renews it."""

    token: str = field(repr=False)
    seconds: float | None
    refresh: str | None = field(default=None, repr=False)
    scope: str | None = None


async def granted(fetch: FetchPort, url: str, client: OAuthClient, form: Mapping[str, str | None]) -> Granted:
    """Return the token that the endpoint *url* gives *client* for *form*; raises `TokenFailed`."""
    where = f"The token endpoint `{urlsplit(url).netloc}`"
    headers, body = form_request(client, form)
    try:
        fetched = await fetch(url, method="POST", headers=headers, body=body, redirects=0, bounds=BOUNDS)
    except FetchFailed as error:
        raise TokenFailed(f"{where} gave no token: {error}") from None
    return _read(where, fetched, client, form)


def form_request(client: OAuthClient, form: Mapping[str, str | None]) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body in which *client* sends *form*, without what is empty in it."""
    fields = dict(form)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    match client.auth:
        case "basic":
            headers["Authorization"] = f"Basic {client.basic}"
        case "post":
            fields |= {"client_id": client.id, "client_secret": client.secret}
        case "none":
            fields |= {"client_id": client.id}
    return headers, urlencode({name: value for name, value in fields.items() if value}).encode()


def _read(where: str, fetched: Fetched, client: OAuthClient, form: Mapping[str, str | None]) -> Granted:
    """Return the token in an answer; raise `TokenFailed`."""
    try:
        answer = msgspec.json.decode(fetched.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = {}
    if fetched.status != 200:  # noqa: PLR2004 - what RFC 6749 asks for
        reason = ": ".join(str(answer[name]) for name in ("error", "error_description") if answer.get(name))
        hidden = _without(reason, client, form)[:_MAX_REASON]
        refused = str(answer.get("error")) if fetched.status in _REFUSALS else None
        raise TokenFailed(f"{where} answered {fetched.status}{f' ({hidden})' if hidden else ''}.", refused)
    token, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(token, str) or not _can_be_sent(token):
        raise TokenFailed(f"{where} answered without an `access_token` that can be sent.")
    if str(kind).lower() != "bearer":
        raise TokenFailed(f"{where} gives tokens of another type than `Bearer`, which is the only one that is sent.")
    refresh, scope = answer.get("refresh_token"), answer.get("scope")
    return Granted(
        token,
        _seconds(answer.get("expires_in")),
        refresh if isinstance(refresh, str) and refresh else None,
        scope if isinstance(scope, str) and scope else None,
    )


def _can_be_sent(token: str) -> bool:
    return token.isascii() and token.isprintable() and bool(token.strip()) and " " not in token


def _seconds(value: Any) -> float | None:
    """Return the life of a token; some endpoints write the number as text."""
    try:
        return min(max(0.0, float(value)), _MAX_LIFE)
    except (TypeError, ValueError):
        return None


_SECRETS = ("code", "code_verifier", "refresh_token")
"""Fields of a form that are secrets of a login."""


def _without(text: str, client: OAuthClient, form: Mapping[str, str | None]) -> str:
    """Return *text* without what was sent, however the endpoint spells it."""
    sent = {name.replace("_", " "): form.get(name) or "" for name in _SECRETS}
    return scrubbed(text, {**sent, "client secret": client.secret, "credentials": client.basic})


ClientAuth = Literal["basic", "post"]
"""How the client names itself: in the `Authorization` header, or as fields of the form."""
_DEFAULT_SECONDS = 300
"""For how long a token is used whose endpoint does not say when it expires."""
_LEEWAY_SECONDS, _LEEWAY_PART = 60, 0.1
"""Before its end a token is not used any more: by a minute, of a short one by a tenth of its life."""
_MAX_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client and its token endpoint; *client_secret* is the secret, *resource* the URL that the token is for."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    audience: str | None = None
    auth: ClientAuth = "basic"
    resource: str | None = None

    @property
    def key(self) -> bytes:
        """Return the key of its token in a cache; another secret is another key."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()

    @property
    def client(self) -> OAuthClient:
        """Return who asks."""
        return OAuthClient(self.client_id, self.client_secret, self.auth)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    until: int


class ClientTokens:
    """The tokens of this process.

    For one client only one request is under way, however many calls wait for it, and none of them holds the others up
    once it has its token. A call that is cancelled ends no request that others wait for.
    """

    def __init__(self, fetch: FetchPort, clock: Clock) -> None:
        self._fetch, self._clock = fetch, clock
        self._tokens: dict[bytes, _Token] = {}
        self._requests: dict[bytes, asyncio.Task[_Token]] = {}

    async def token(self, credentials: ClientCredentials) -> str:
        """Return a token that is valid now; raises `TokenFailed`."""
        key = credentials.key
        token = self._tokens.get(key)
        if token is not None and self._clock.now() < token.until:
            return token.text
        task = self._requests.get(key)
        if task is None:
            task = self._requests[key] = asyncio.create_task(self._ask(key, credentials), name="parley-token")
            task.add_done_callback(lambda done: self._request_done(key, done))
        return (await asyncio.shield(task)).text

    def drop(self, credentials: ClientCredentials, token: str) -> None:
        """Discard *token*, which a server refused; one that was fetched since then stays."""
        cached = self._tokens.get(credentials.key)
        if cached is not None and cached.text == token:
            del self._tokens[credentials.key]

    async def close(self) -> None:
        """End the requests that are under way."""
        for task in (tasks := list(self._requests.values())):
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, ParleyError):
                await task

    def _request_done(self, key: bytes, done: "asyncio.Task[_Token]") -> None:
        self._requests.pop(key, None)
        if not done.cancelled():
            done.exception()  # seen, also when every call that waited was cancelled

    async def _ask(self, key: bytes, credentials: ClientCredentials) -> _Token:
        form = {
            "grant_type": "client_credentials",
            "scope": credentials.scope,
            "audience": credentials.audience,
            "resource": credentials.resource,
        }
        answer = await granted(self._fetch, credentials.token_url, credentials.client, form)
        seconds = float(_DEFAULT_SECONDS) if answer.seconds is None else answer.seconds
        while len(self._tokens) >= _MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = _Token(answer.token, self._clock.now() + round(1000 * (seconds - leeway(seconds))))
        self._tokens[key] = token
        return token


def leeway(seconds: float) -> float:
    """Return how many seconds before its end a token of *seconds* of life is used no more."""
    return min(_LEEWAY_SECONDS, seconds * _LEEWAY_PART)
