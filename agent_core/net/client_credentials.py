"""Access tokens by OAuth 2 client credentials (RFC 6749, 4.4): kept until they expire, fetched once at a time."""

import asyncio
import hashlib
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from agent_core.clock import Clock
from agent_core.errors import ParleyError
from agent_core.net.bounds import Bounds, Fetched, FetchPort
from agent_core.net.errors import FetchFailed

ClientAuth = Literal["basic", "post"]
"""How the client names itself: in the `Authorization` header, or as fields of the form."""
_BOUNDS = Bounds(seconds=15.0, first_byte=15.0, size=100_000)
_DEFAULT_SECONDS = 300
"""The life of a token whose endpoint does not say when it expires."""
_LEEWAY_SECONDS, _LEEWAY_PART = 60, 0.1
"""Before its end a token is not used any more: by a minute, of a short one by a tenth of its life."""
_MAX_TOKENS = 1_000
_MAX_REASON = 200


class TokenFailed(ParleyError):
    """A token endpoint gave no token; the message names the endpoint and what it said, and holds no secret.

    *refused* is the `error` of an answer with status 400 (RFC 6749, 5.2).
    """

    code = "token_failed"

    def __init__(self, message: str, refused: str | None = None) -> None:
        super().__init__(message)
        self.refused = refused


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
    def basic(self) -> str:
        """Return the value of the `Authorization` header after `Basic`."""
        return b64encode(f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}".encode()).decode()


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
        where = f"The token endpoint `{urlsplit(credentials.token_url).netloc}`"
        headers, body = _request(credentials)
        try:
            fetched = await self._fetch(
                credentials.token_url, method="POST", headers=headers, body=body, redirects=0, bounds=_BOUNDS
            )
        except FetchFailed as error:
            raise TokenFailed(f"{where} gave no token: {error}") from None
        token = _read(where, fetched, credentials, self._clock.now())
        while len(self._tokens) >= _MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[key] = token
        return token


def _request(credentials: ClientCredentials) -> tuple[dict[str, str], bytes]:
    fields = {
        "grant_type": "client_credentials",
        "scope": credentials.scope,
        "audience": credentials.audience,
        "resource": credentials.resource,
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if credentials.auth == "basic":
        headers["Authorization"] = f"Basic {credentials.basic}"
    else:
        fields |= {"client_id": credentials.client_id, "client_secret": credentials.client_secret}
    return headers, urlencode({name: value for name, value in fields.items() if value}).encode()


def _read(where: str, fetched: Fetched, credentials: ClientCredentials, now: int) -> _Token:
    """Return the token in an answer; raise `TokenFailed`."""
    try:
        answer = msgspec.json.decode(fetched.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = {}
    if fetched.status != 200:  # noqa: PLR2004 - what RFC 6749 asks for
        reason = ": ".join(str(answer[name]) for name in ("error", "error_description") if answer.get(name))
        hidden = _without(reason, credentials)[:_MAX_REASON]
        refused = str(answer.get("error")) if fetched.status == 400 else None  # noqa: PLR2004 - as above
        raise TokenFailed(f"{where} answered {fetched.status}{f' ({hidden})' if hidden else ''}.", refused)
    token, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if (
        not isinstance(token, str)
        or not token.isascii()
        or not token.isprintable()
        or not token.strip()
        or " " in token
    ):
        raise TokenFailed(f"{where} answered without an `access_token` that can be sent.")
    if str(kind).lower() != "bearer":
        raise TokenFailed(f"{where} gives tokens of another type than `Bearer`, which is the only one that is sent.")
    seconds = _seconds(answer.get("expires_in"))
    leeway = min(_LEEWAY_SECONDS, seconds * _LEEWAY_PART)
    return _Token(token, now + round(1000 * (seconds - leeway)))


def _seconds(value: Any) -> float:
    """Return the life of a token; some endpoints write the number as text."""
    try:
        return min(max(0.0, float(value)), 30 * 86_400.0)
    except (TypeError, ValueError):
        return float(_DEFAULT_SECONDS)


def _without(text: str, credentials: ClientCredentials) -> str:
    for secret in (credentials.client_secret, quote(credentials.client_secret, safe=""), credentials.basic):
        text = text.replace(secret, "[secret]") if secret else text
    return text
