"""How this deployment describes itself to authorization servers as a client (OAuth client id metadata document)."""

from typing import Any

from fastapi import APIRouter

PATH = "/oauth/mcp-client.json"
_REDIRECTS = ("http://127.0.0.1/callback", "http://localhost/callback")
"""Where logins come back to, on the machine of an operator; any port of it is meant (RFC 8252, 7.3)."""


def client_document(public_url: str | None) -> str | None:
    """Return the address of the document, which is the client's id; None where no one can reach it over HTTPS."""
    address = (public_url or "").rstrip("/")
    return f"{address}{PATH}" if address.startswith("https://") else None


def client_router(public_url: str | None) -> APIRouter:
    """Return the route of the document, open to all; none where no one can reach it over HTTPS."""
    router, address = APIRouter(), client_document(public_url)
    if address is None:
        return router

    @router.get(PATH, include_in_schema=False)
    async def describe() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        """Return who asks for logins at MCP servers."""
        return {
            "client_id": address,
            "client_name": "Parley",
            "client_uri": public_url,
            "redirect_uris": list(_REDIRECTS),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    return router
