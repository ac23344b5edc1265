"""The operator's access to an MCP server by OAuth 2 client credentials.

The SDK's own provider runs all calls of a server one after another, and waits for people inside a request.
"""

from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from agent_core.clock import Clock
from agent_core.domain.mcp import McpOAuth, McpServer
from agent_core.net.client_credentials import ClientCredentials, ClientTokens, TokenFailed
from agent_core.net.errors import FetchFailed
from agent_core.net.fetch import BOUNDS, Fetch
from agent_core.tools.mcp.port import McpUnavailable

_FOUND = 200
_RESOURCE, _SERVER, _OPENID = (
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
)


class McpTokens:
    """The access tokens for one server; where they come from is found by its metadata, when it is not configured."""

    def __init__(self, server: McpServer, oauth: McpOAuth, fetch: Fetch, clock: Clock) -> None:
        self._name, self._url, self._oauth, self._fetch = server.name, server.url or "", oauth, fetch
        self._tokens = ClientTokens(fetch, clock)
        self._endpoint = oauth.token_url

    async def token(self) -> str:
        """Return a token that has not expired; raises `McpUnavailable`."""
        try:
            return await self._tokens.token(await self._credentials())
        except TokenFailed as error:
            raise McpUnavailable(f"The MCP server `{self._name}` is not asked: {error}") from None

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
        return ClientCredentials(self._endpoint, oauth.client_id, oauth.client_secret, oauth.scope)

    async def _found(self) -> str:
        """Return the token endpoint by the metadata of the server (RFC 9728) and of its authorization server."""
        about = await self._metadata(_places(self._url, _RESOURCE))
        named = about.get("authorization_servers")
        servers = cast("list[object]", named) if isinstance(named, list) else []
        issuer = next((each for each in servers if isinstance(each, str)), _origin(self._url))
        said = await self._metadata((*_places(issuer, _SERVER), *_places(issuer, _OPENID)))
        endpoint = said.get("token_endpoint")
        if not isinstance(endpoint, str):
            raise McpUnavailable(
                f"The MCP server `{self._name}` does not say where its access tokens come from; set `oauth.token_url`."
            )
        # RFC 8414: the metadata of an issuer names that issuer, or it is of another one.
        if said.get("issuer", issuer) != issuer:
            raise McpUnavailable(
                f"The metadata of the authorization server of the MCP server `{self._name}` is another issuer's; set "
                "`oauth.token_url`."
            )
        return endpoint

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


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _places(url: str, known: str) -> tuple[str, ...]:
    """Return where the metadata *known* of *url* may be: with its path after it, then without."""
    path = urlsplit(url).path.rstrip("/")
    return (f"{_origin(url)}{known}{path}", f"{_origin(url)}{known}") if path else (f"{_origin(url)}{known}",)
