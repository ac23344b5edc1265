"""Where the access tokens of an MCP server come from, for logins and for client credentials alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_core.messages import visible
from agent_core.net.fetch import Fetch
from agent_core.servers import McpOAuth, McpServer
from agent_core.tools.mcp.metadata import (
    SHOWN,
    MetadataRefused,
    is_issuer,
    is_same_origin,
    issuer_metadata,
    may_carry,
    written_origin,
)


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """The authorization server *issuer* of an MCP server, its token *endpoint*, and all that it *said*, unchecked."""

    issuer: str
    endpoint: str
    said: Mapping[str, Any]

    def other(self, kind: str, fetch: Fetch) -> str | None:
        """Return its `{kind}_endpoint`, None where it has none to which tokens may travel."""
        place = self.said.get(f"{kind}_endpoint")
        return place if isinstance(place, str) and may_carry(place, fetch) else None


async def token_place(server: McpServer, oauth: McpOAuth, issuers: tuple[str, ...], fetch: Fetch) -> TokenPlace:
    """Return where tokens for *server* come from: the written issuer, else the first of *issuers*, else itself.

    Raises `MetadataRefused`, also where the client's secret would go to what the operator did not write and the
    server's own origin is not: else a server could send it to anyone.
    """
    issuer = oauth.issuer or next(iter(issuers), written_origin(server.url or ""))
    named = visible(issuer)[:SHOWN]
    where = f"The MCP server `{server.name}` has its access tokens from `{named}`, which"
    if not may_carry(issuer, fetch):
        raise MetadataRefused(f"{where} is not HTTPS: nothing is sent there.")
    said = await issuer_metadata(issuer, fetch)
    if not said:
        raise MetadataRefused(f"{where} publishes nothing about them; set `oauth.issuer`, or use `headers`.")
    if not is_issuer(said.get("issuer"), issuer):
        raise MetadataRefused(
            f"{where} publishes metadata of another issuer (`issuer`); send nothing there before that is explained."
        )
    endpoint = oauth.token_url or said.get("token_endpoint")
    if not isinstance(endpoint, str):
        raise MetadataRefused(f"{where} does not say where they are given (`token_endpoint`); use `headers`.")
    shown = f"`{visible(endpoint)[:SHOWN]}` (`token_endpoint`)"
    if not may_carry(endpoint, fetch):
        raise MetadataRefused(f"{where} names {shown}, which is not HTTPS: nothing is sent there.")
    is_written = oauth.issuer or oauth.token_url
    if oauth.client_secret and not is_written and not is_same_origin(endpoint, server.url or ""):
        raise MetadataRefused(
            f"{where} names {shown}: the client secret is sent only to the "
            f"server's own origin, or to what you write; set `oauth.issuer` to `{named}` if that is who it belongs to."
        )
    return TokenPlace(str(said["issuer"]), endpoint, said)
