"""Access tokens by OAuth 2 client credentials (RFC 6749, 4.4): kept until they expire, fetched once at a time."""

import asyncio
import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from agent_core.clock import Clock
from agent_core.errors import ParleyError
from agent_core.net.bounds import FetchPort
from agent_core.net.token_endpoint import OAuthClient, TokenFailed, granted

__all__ = ["ClientAuth", "ClientCredentials", "ClientTokens", "TokenFailed", "leeway"]
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
