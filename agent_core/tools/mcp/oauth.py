"""The operator's access to an MCP server by OAuth 2 client credentials.

The SDK's own provider runs all calls of a server one after another, and waits for people inside a request.
"""

from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from agent_core.clock import Clock
from agent_core.domain.mcp import McpOAuth, McpServer
from agent_core.domain.messages import visible
from agent_core.net.client_credentials import ClientCredentials, ClientTokens, TokenFailed
from agent_core.net.errors import FetchFailed
from agent_core.net.fetch import BOUNDS, Fetch
from agent_core.net.targets import PORTS, check_text
from agent_core.tools.mcp.port import McpUnavailable

_FOUND = 200
_NO_RESOURCE = frozenset({"invalid_target", "invalid_request"})
"""What endpoints answer that do not take the parameter `resource`, or not that one."""
_SHOWN = 200
"""Characters that are shown of a URL that a server names."""
_RESOURCE, _SERVER, _OPENID = (
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
)


class McpTokens:
    """The access tokens for one server; where they come from is found by its metadata, when it is not configured.

    The operator's secret goes to the `token_url` that they wrote, or to the server's own origin.
    """

    def __init__(self, server: McpServer, oauth: McpOAuth, fetch: Fetch, clock: Clock) -> None:
        self._name, self._url, self._oauth, self._fetch = server.name, server.url or "", oauth, fetch
        self._tokens = ClientTokens(fetch, clock)
        self._endpoint = oauth.token_url
        self._resource = _resource(oauth, self._url)

    async def token(self) -> str:
        """Return a token that has not expired; raises `McpUnavailable`."""
        credentials = await self._credentials()
        try:
            try:
                return await self._tokens.token(credentials)
            except TokenFailed as error:
                if self._oauth.resource is not True or not credentials.resource or error.refused not in _NO_RESOURCE:
                    raise
            # Not every endpoint knows `resource`, and no operator asked for it.
            token = await self._tokens.token(replace(credentials, resource=None))
        except TokenFailed as error:
            raise McpUnavailable(f"The MCP server `{self._name}` is not asked: {error}") from None
        self._resource = None
        return token

    async def renewed(self, refused: str) -> str:
        """Return another token than *refused*; raises `McpUnavailable`."""
        self._tokens.drop(await self._credentials(), refused)
        return await self.token()

    async def close(self) -> None:
        """End the requests that are under way."""
        await self._tokens.close()

    async def _credentials(self) -> ClientCredentials:
        if self._endpoint is None:
            self._endpoint = await self._found()
        oauth = self._oauth
        return ClientCredentials(
            self._endpoint,
            oauth.client_id,
            oauth.client_secret,
            oauth.scope,
            oauth.audience,
            oauth.auth,
            self._resource,
        )

    async def _found(self) -> str:
        """Return the token endpoint by the metadata of the server (RFC 9728) and of its authorization server.

        What a server names gets no secret, unless it is the server itself: else it could send the operator's to anyone.
        """
        about = await self._metadata(_places(self._url, _RESOURCE))
        named = about.get("authorization_servers")
        servers = cast("list[object]", named) if isinstance(named, list) else []
        issuer = next((each for each in servers if isinstance(each, str)), _written_origin(self._url))
        if not self._is_own(issuer):
            raise self._refusal(f"names `{visible(issuer)[:_SHOWN]}` as the one that gives its access tokens")
        said = await self._metadata((*_places(issuer, _SERVER), *_places(issuer, _OPENID)))
        endpoint = said.get("token_endpoint")
        if not isinstance(endpoint, str):
            raise self._refusal("does not say where its access tokens come from")
        # RFC 8414: the metadata of an issuer names that issuer, or it is of another one.
        if said.get("issuer") != issuer:
            raise self._refusal("has an authorization server whose metadata is not its own (`issuer`)")
        if not self._is_own(endpoint):
            raise self._refusal(f"names `{visible(endpoint)[:_SHOWN]}` as its token endpoint")
        return endpoint

    def _is_own(self, url: str) -> bool:
        """Return whether *url* is of the server's own origin, and a secret may be sent there."""
        try:
            own, origin = _origin(self._url), _origin(url)
            allowed = origin[0] == "https" or self._fetch.guard.target(*origin) in self._fetch.guard.allow
        except (ValueError, FetchFailed):
            return False
        return own == origin and allowed

    def _refusal(self, what: str) -> McpUnavailable:
        return McpUnavailable(
            f"The MCP server `{self._name}` {what}: the client secret is sent only to the server's own origin over "
            "HTTPS, or to what you write; set `oauth.token_url`."
        )

    async def _metadata(self, places: tuple[str, ...]) -> dict[str, Any]:
        for place in places:
            try:
                answer = await self._fetch(place, headers={"Accept": "application/json"}, redirects=0, bounds=BOUNDS)
                if answer.status == _FOUND:
                    return msgspec.json.decode(answer.body, type=dict[str, Any])
            except (FetchFailed, msgspec.DecodeError, UnicodeDecodeError):
                continue
        return {}


def tokens_of(server: McpServer, fetch: Fetch, clock: Clock) -> McpTokens | None:
    """Return what gives the access tokens of *server*; None when it needs none."""
    return None if server.oauth is None else McpTokens(server, server.oauth, fetch, clock)


def _resource(oauth: McpOAuth, url: str) -> str | None:
    match oauth.resource:
        case str(written):
            return written
        case True:
            return resource_of(url)
        case _:
            return None


def resource_of(url: str) -> str:
    """Return *url* as the name of what a token is for: without what may be secret in it, and without a fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _written_origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of *url*; raises ValueError."""
    check_text(url)
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or PORTS.get(parts.scheme)


def _places(url: str, known: str) -> tuple[str, ...]:
    """Return where the metadata *known* of *url* may be: with its path after it, then without."""
    place, path = f"{_written_origin(url)}{known}", urlsplit(url).path.rstrip("/")
    return (f"{place}{path}", place) if path else (place,)
