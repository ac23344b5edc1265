"""The operator's access to an MCP server by OAuth 2 client credentials.

The SDK's own provider runs all calls of a server one after another, and waits for people inside a request.
"""

from dataclasses import replace

from agent_core.clock import Clock
from agent_core.domain.mcp import McpOAuth, McpServer
from agent_core.domain.messages import visible
from agent_core.net.client_credentials import ClientCredentials, ClientTokens, TokenFailed
from agent_core.net.fetch import Fetch
from agent_core.tools.mcp.metadata import (
    SHOWN,
    is_issuer,
    is_same_origin,
    issuer_metadata,
    issuers_of,
    may_carry,
    resource_of,
    written_origin,
)
from agent_core.tools.mcp.port import McpUnavailable

_NO_RESOURCE = frozenset({"invalid_target", "invalid_request"})
"""What endpoints answer that do not take the parameter `resource`, or not that one."""


class McpTokens:
    """The access tokens for one server; where they come from is found by its metadata, when it is not configured.

    The operator's secret goes to the `token_url` that they wrote, or to the server's own origin.
    """

    def __init__(self, server: McpServer, oauth: McpOAuth, fetch: Fetch, clock: Clock) -> None:
        self._name, self._url, self._oauth, self._fetch = server.name, server.url or "", oauth, fetch
        self._tokens = ClientTokens(fetch, clock)
        self._endpoint = oauth.token_url
        self._resource = named_resource(oauth, self._url)

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
            oauth.client_id or "",
            oauth.client_secret or "",
            oauth.scope,
            oauth.audience,
            oauth.auth,
            self._resource,
        )

    async def _found(self) -> str:
        """Return the token endpoint by the metadata of the server (RFC 9728) and of its authorization server.

        What a server names gets no secret, unless it is the server itself: else it could send the operator's to anyone.
        An issuer that the operator wrote may name its endpoint.
        """
        written = self._oauth.issuer
        issuer = written or next(iter(await issuers_of(self._url, self._fetch)), written_origin(self._url))
        if not written and not self._is_own(issuer):
            raise self._refusal(f"names `{visible(issuer)[:SHOWN]}` as the one that gives its access tokens")
        said = await issuer_metadata(issuer, self._fetch)
        endpoint = said.get("token_endpoint")
        if not isinstance(endpoint, str):
            raise self._refusal("does not say where its access tokens come from")
        # RFC 8414: the metadata of an issuer names that issuer, or it is of another one.
        if not is_issuer(said.get("issuer"), issuer):
            raise self._refusal("has an authorization server whose metadata is not its own (`issuer`)")
        if not (may_carry(endpoint, self._fetch) if written else self._is_own(endpoint)):
            raise self._refusal(f"names `{visible(endpoint)[:SHOWN]}` as its token endpoint")
        return endpoint

    def _is_own(self, url: str) -> bool:
        """Return whether *url* is of the server's own origin, and a secret may be sent there."""
        return is_same_origin(self._url, url) and may_carry(url, self._fetch)

    def _refusal(self, what: str) -> McpUnavailable:
        return McpUnavailable(
            f"The MCP server `{self._name}` {what}: the client secret is sent only to the server's own origin over "
            "HTTPS, or to what you write; set `oauth.token_url`."
        )


def named_resource(oauth: McpOAuth, url: str) -> str | None:
    """Return the resource that a token for *url* is asked for, as *oauth* says."""
    match oauth.resource:
        case str(written):
            return written
        case True:
            return resource_of(url)
        case _:
            return None
