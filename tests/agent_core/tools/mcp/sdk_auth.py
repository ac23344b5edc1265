"""A server of the official SDK that is its own authorization server: clients register, log in and renew."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from time import time

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """An authorization server in memory that consents by itself; access tokens last a minute."""

    def __init__(self, issuer: str) -> None:
        self._issuer, self._n = issuer, 0
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._access: dict[str, AccessToken] = {}
        self._refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self._n += 1
        code = f"code-{self._n}"
        given = {**params.model_dump(exclude={"state"}), "scopes": params.scopes or []}
        self._codes[code] = AuthorizationCode(code=code, expires_at=time() + 60, client_id=client.client_id, **given)
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=self._issuer)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        found = self._codes.get(authorization_code)
        return found if found is not None and found.client_id == client.client_id else None

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        return self._given(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        found = self._refresh.get(refresh_token)
        return found if found is not None and found.client_id == client.client_id else None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self._refresh[refresh_token.token]
        return self._given(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._refresh.pop(token.token, None)
        self._access.clear()

    def _given(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        self._n += 1
        access, refresh, id = f"access-{self._n}", f"refresh-{self._n}", client.client_id
        self._access[access] = AccessToken(token=access, client_id=id, scopes=scopes, resource=resource)
        self._refresh[refresh] = RefreshToken(token=refresh, client_id=id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=60, scope=" ".join(scopes))


@asynccontextmanager
async def protected_server() -> AsyncGenerator[tuple[str, str]]:
    """Give the address and `host:port` of a server with the tool `echo`, which takes tokens for itself alone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(f"http://{host}"),
            resource_server_url=AnyHttpUrl(f"http://{host}/mcp"),
            required_scopes=["tools"],
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["tools"]),
            revocation_options=RevocationOptions(enabled=True),
        )
        server = MCPServer("guarded", auth_server_provider=Provider(f"http://{host}"), auth=settings)

        @server.tool()
        def echo(text: str) -> str:  # pyright: ignore[reportUnusedFunction]
            """Return the text."""
            return text

        served = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical"))
        task = asyncio.create_task(served.serve([listening]))
        try:
            yield f"http://{host}/mcp", host
        finally:
            served.should_exit = served.force_exit = True
            with suppress(asyncio.CancelledError):
                await task
