"""HTTP tools: a call is a request through the guarded fetch, its answer the result."""

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from agent_core.agents import ToolDefinition, ToolSpec, filled, secrets_in
from agent_core.errors import NotFound
from agent_core.messages import Text
from agent_core.net.fetch import Bounds, Fetched, FetchPort
from agent_core.net.targets import FetchFailed, FetchRefused, FetchUnreachable
from agent_core.net.tokens import ClientCredentials, ClientTokens, TokenFailed
from agent_core.secrets import Unreadable, scrubbed
from agent_core.tools.base import CallContext, Done, Outcome, ToolError
from agent_core.tools.context_headers import context_headers
from agent_core.tools.http.answer import error_of, host_of, is_ok, text_of
from agent_core.tools.http.config import READS, RequestConfig
from agent_core.tools.http.request import HttpRequest, RequestMaker, Unsendable

MAX_ANSWER = 5_000_000
"""Bytes of an answer; the model reads at most the tool's `result_limit`."""
RESULT_LIMIT = 10_000
"""Characters of an answer that the model reads at most; the whole is kept with the session."""
_LARGE = 10_000
"""Bytes of an answer from which on it is read in a thread."""
_REDIRECTS = 3
_IS_REDIRECT = (301, 302, 303, 307, 308)
_UNAUTHORIZED = 401
_MAY_BE_DONE = (302, 303)
"""The usual answers to a form that was taken: Post/Redirect/Get."""
_OF_A_GATEWAY = (502, 504)
"""The server that the gateway asked may have carried out the request."""
_UNSURE = "Whether it was carried out is not known; check before you repeat it."


class SecretSource(Protocol):
    """Gives secrets by their names; raises `NotFound`, and `Unreadable` for one that was sealed with another key."""

    def __call__(self, names: Collection[str], /) -> Awaitable[Mapping[str, str]]: ...


@dataclass(frozen=True, slots=True)
class HttpPorts:
    """What HTTP tools share: the fetch, the secrets, and the tokens of OAuth clients."""

    fetch: FetchPort
    secrets: SecretSource
    tokens: ClientTokens


@dataclass(frozen=True, slots=True)
class HttpTool:
    """A tool whose calls are requests."""

    spec: ToolSpec
    definition: ToolDefinition
    config: RequestConfig
    maker: RequestMaker
    ports: HttpPorts

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Send the request; whatever goes wrong is a `ToolError` that names the status or the host, and no secret."""
        try:
            secrets = await self.ports.secrets(secrets_in([self.definition.config, self.definition.preset]))
        except (NotFound, Unreadable) as error:
            return ToolError(f"Not sent: {error}")
        credentials = self._credentials(secrets)
        all_secrets = {**secrets, **({"client credentials": credentials.client.basic} if credentials else {})}
        try:
            request = self.maker.made(arguments, secrets, self._headers(context))
            return await self._answered(request, credentials, all_secrets)
        except Unsendable as error:
            return ToolError(scrubbed(str(error), all_secrets))
        except TokenFailed as error:
            return ToolError(scrubbed(f"Not sent: {error}", all_secrets))
        except FetchFailed as error:
            return self._failed(error, all_secrets)

    def _headers(self, context: CallContext) -> dict[str, str]:
        headers = context_headers(self.definition.context, context)
        if self.spec.effect == "write" and self.config.idempotency_header is not None:
            headers[self.config.idempotency_header] = context.call
        return headers

    def _credentials(self, secrets: Mapping[str, str]) -> ClientCredentials | None:
        oauth = self.config.oauth
        if oauth is None:
            return None
        return ClientCredentials(
            token_url=oauth.token_url,
            client_id=filled(oauth.client_id, secrets),
            client_secret=filled(oauth.client_secret, secrets),
            scope=oauth.scope,
            audience=oauth.audience,
            auth=oauth.auth,
        )

    async def _answered(
        self, request: HttpRequest, credentials: ClientCredentials | None, secrets: Mapping[str, str]
    ) -> Outcome:
        """Return the outcome of *request*, with a token if it takes one; raises `FetchFailed`, `TokenFailed`."""
        if credentials is None:
            return await self._masked(await self._sent(request, {}), secrets)
        token = await self.ports.tokens.token(credentials)
        fetched = await self._sent(request, _bearer(token))
        if fetched.status == _UNAUTHORIZED:
            self.ports.tokens.drop(credentials, token)
            if self.spec.effect == "read" or self.spec.idempotent:
                token = await self.ports.tokens.token(credentials)
                fetched = await self._sent(request, _bearer(token))
        return await self._masked(fetched, {**secrets, "access token": token})

    async def _sent(self, request: HttpRequest, more: Mapping[str, str]) -> Fetched:
        """Return the answer; a read follows redirects within its origin, so that no other host sees anything of it."""
        url, headers = request.url, {**request.headers, **more}
        seconds = self.definition.timeout_s
        bounds = Bounds(seconds=seconds, first_byte=seconds, size=MAX_ANSWER)
        for _ in range(_REDIRECTS + 1):
            fetched = await self.ports.fetch(
                url, method=request.method, headers=headers, body=request.body, redirects=0, bounds=bounds
            )
            location = fetched.headers.get("location")
            if request.method not in READS or fetched.status not in _IS_REDIRECT or not location:
                return fetched
            url = _onward(url, location)
        raise FetchFailed(f"`{host_of(url)}` sends the request on again and again; {_REDIRECTS} redirects are enough.")

    async def _masked(self, fetched: Fetched, secrets: Mapping[str, str]) -> Outcome:
        if len(fetched.body) < _LARGE:
            return self._outcome(fetched, secrets)
        return await asyncio.to_thread(self._outcome, fetched, secrets)  # it may take a second

    def _outcome(self, fetched: Fetched, secrets: Mapping[str, str]) -> Outcome:
        method = self.config.method
        if is_ok(fetched.status, self.config.ok):
            text = text_of(method, fetched, secrets, has_source=self.config.html == "source")
            return Done((Text(scrubbed(text, secrets)),))
        if fetched.status in _IS_REDIRECT and fetched.headers.get("location"):
            return self._error(
                fetched.status,
                f"HTTP {fetched.status} from {method} {host_of(fetched.url)}: it sends the request on to another "
                "address, which is not followed with this method; its definition should name that address, "
                f"or {fetched.status} in `ok` if it means that all went well.",
            )
        return self._error(fetched.status, scrubbed(error_of(method, fetched, secrets), secrets))

    def _error(self, status: int, text: str) -> ToolError:
        """Return the error of an answer with *status*; of a write it may leave open whether it was carried out."""
        unsure = _MAY_BE_DONE if self.spec.idempotent else (*_MAY_BE_DONE, *_OF_A_GATEWAY)
        if self.spec.effect == "read" or status not in unsure:
            return ToolError(text)
        return ToolError(f"{text} {_UNSURE}", unknown=True)

    def _failed(self, error: FetchFailed, secrets: Mapping[str, str]) -> ToolError:
        text = scrubbed(f"{self.config.method} {host_of(self.config.url)} failed: {error}", secrets)
        unsent = isinstance(error, FetchRefused | FetchUnreachable)
        if self.spec.effect == "read" or unsent:
            return ToolError(text)
        return ToolError(f"{text} {_UNSURE}", unknown=True)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _onward(url: str, location: str) -> str:
    """Return where a redirect of a read leads; raise `FetchRefused` unless that is the same origin."""
    try:
        onward = urljoin(url, location)
        same = _origin(onward) == _origin(url)
    except ValueError:
        raise FetchRefused(f"`{host_of(url)}` sends the request on to an address that cannot be read.") from None
    if not same:
        # Which one is not said: a secret would not be found in a host, whose letters are small.
        raise FetchRefused(
            f"`{host_of(url)}` sends the request on to another origin, which is not followed; "
            "the tool's definition should name the address that answers."
        )
    return onward


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or usual
