"""The operator's access to an MCP server by OAuth 2 client credentials.

The SDK's own provider runs all calls of a server one after another, and waits for people inside a request.
"""

from dataclasses import replace

from agent_core.clock import Clock
from agent_core.net.fetch import Fetch
from agent_core.net.tokens import ClientCredentials, ClientTokens, TokenFailed
from agent_core.servers import McpOAuth, McpServer
from agent_core.tools.mcp.metadata import MetadataRefused, issuers_of, resource_of
from agent_core.tools.mcp.port import McpUnavailable
from agent_core.tools.mcp.token_place import token_place

_NO_RESOURCE = frozenset({"invalid_target", "invalid_request"})
"""What endpoints answer that do not take the parameter `resource`, or not that one."""


class McpTokens:
    """The access tokens for one server; where they come from is found by its metadata, when it is not configured.

    The operator's secret goes to the `token_url` that they wrote, or to the server's own origin.
    """

    def __init__(self, server: McpServer, oauth: McpOAuth, fetch: Fetch, clock: Clock) -> None:
        self._server, self._name, self._oauth, self._fetch = server, server.name, oauth, fetch
        self._tokens = ClientTokens(fetch, clock)
        self._endpoint = oauth.token_url
        self._resource = named_resource(oauth, server.url or "")

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

    async def lacking(self, scope: str | None) -> str:
        """Return what an operator writes so that the server gets tokens for *scope*."""
        if scope is None:
            return "set `oauth.scope` to what it needs"
        held = (self._oauth.scope or "").split()
        return f'set `oauth.scope` to "{" ".join(dict.fromkeys([*held, *scope.split()]))}"'

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
        """Return the token endpoint by what the server (RFC 9728) and its authorization server publish."""
        try:
            issuers = () if self._oauth.issuer else await issuers_of(self._server, self._fetch)
            return (await token_place(self._server, self._oauth, issuers, self._fetch)).endpoint
        except MetadataRefused as error:
            raise McpUnavailable(f"{error} Or set `oauth.token_url`.") from None


def named_resource(oauth: McpOAuth, url: str) -> str | None:
    """Return the resource that a token for *url* is asked for, as *oauth* says."""
    match oauth.resource:
        case str(written):
            return written
        case True:
            return resource_of(url)
        case _:
            return None
