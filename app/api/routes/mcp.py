"""Routes of MCP servers, and how this deployment describes itself to authorization servers as a client."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_core.objects import Page
from agent_core.servers import McpOAuth, McpServer
from app.api.body import BodyRoute
from app.api.deps import Cursor, Limit, Operator, Wired
from app.api.problems import answers
from app.api.wire import (
    McpLoginBegun,
    McpServerAnswer,
    RequestBody,
    answer,
    body_of,
    copied,
    mcp_server_wire,
    page,
)

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


router = APIRouter(prefix="/v1/mcp-servers", tags=["mcp-servers"], route_class=BodyRoute)
ServerId = Annotated[str, Path(description="An MCP server's id or its name.", max_length=200)]
BAD = (400, 401, 403, 413, 422)
_Entries = Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=128)]], Field(max_length=100)]

_Words = Annotated[str, StringConstraints(max_length=8_000)]
_Named = Annotated[dict[str, _Words], Field(max_length=100)]


SCOPES = r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$"
"""Scopes with single blanks between them (RFC 6749, 3.3)."""
_TEXTS = {name: _Words for name in McpOAuth.__struct_fields__ if name not in {"auth", "grant", "resource"}}


class OAuthBody(body_of(McpOAuth, {**_TEXTS, "resource": bool | _Words})):
    """The operator's connection to an MCP server by OAuth 2: client credentials, or a login."""


# What HTTP takes of a server's fields where that is less than their types say.
SERVER = {
    "name": Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,32}$")],
    "url": Annotated[str, StringConstraints(min_length=1, max_length=8_000)],
    "command": Annotated[str, StringConstraints(min_length=1, max_length=4_000)],
    "args": Annotated[list[_Words], Field(max_length=100)],
    "env": _Named,
    "cwd": Annotated[str, StringConstraints(min_length=1, max_length=4_000)],
    "headers": _Named,
    "oauth": OAuthBody,
    "allow": _Entries,
    "deny": _Entries,
    "context": _Entries,
    "timeout_s": Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)],
}


class McpServerBody(body_of(McpServer, SERVER)):
    """A new MCP server."""


class McpServerChanges(body_of(McpServer, SERVER, partial=True)):
    """What changes of an MCP server; a field that is absent stays, and so does a text that is sent back hidden."""


class AcceptBody(RequestBody):
    """What is accepted: *digest* is the one that was looked at; without it, whatever the server says now."""

    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None


class McpLoginBody(RequestBody):
    """Where the page of a login leads: an address of the operator's machine, `http://127.0.0.1:PORT/…`, or of HTTPS.

    *scope* is asked for in the place of what is configured, or what the server names.
    """

    redirect_uri: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    scope: Annotated[str, StringConstraints(min_length=1, max_length=2_000, pattern=SCOPES)] | None = None


class McpLoginEndBody(RequestBody):
    """What ends a login: the *ticket* of its beginning, and the whole address that its page led to."""

    ticket: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    redirected: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]


@router.get("", responses=answers(Page[McpServerAnswer], 400, 401, 403, 422))
async def list_servers(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List the MCP servers, without the schemas of their tools."""
    return page(await wired.core.tools.servers.list(limit=limit, cursor=cursor), mcp_server_wire)


@router.post("", status_code=201, responses=answers(McpServerAnswer, *BAD, 409, status=201))
async def create_server(wired: Wired, _: Operator, body: McpServerBody) -> Response:
    """Define an MCP server; it is asked what it offers in the background, and what it says first is accepted."""
    return answer(mcp_server_wire(await wired.core.tools.servers.create(body.value())), 201)


@router.get("/{id}", responses=answers(McpServerAnswer, 401, 403, 404, 422))
async def get_server(wired: Wired, _: Operator, id: ServerId) -> Response:
    """Return an MCP server with its tools, and with what it says otherwise than was accepted."""
    return answer(mcp_server_wire(await wired.core.tools.servers.get(id)))


@router.patch("/{id}", responses=answers(McpServerAnswer, *BAD, 404, 409))
async def change_server(wired: Wired, _: Operator, id: ServerId, body: McpServerChanges) -> Response:
    """Change an MCP server; at another address it is one of which nothing is accepted yet."""
    changes = body.model_dump(exclude_unset=True)
    return answer(mcp_server_wire(await wired.core.tools.servers.update(id, changes)))


@router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_server(wired: Wired, _: Operator, id: ServerId) -> Response:
    """Delete an MCP server; agents go on without its tools."""
    await wired.core.tools.servers.delete(id)
    return Response(status_code=204)


@router.post("/{id}/refresh", responses=answers(McpServerAnswer, 400, 401, 403, 404, 422))
async def refresh_server(wired: Wired, _: Operator, id: ServerId) -> Response:
    """Ask an MCP server now what it offers, and return what is known of it then."""
    return answer(mcp_server_wire(await wired.core.tools.servers.refresh(id)))


@router.post("/{id}/accept", responses=answers(McpServerAnswer, *BAD, 404))
async def accept_server(wired: Wired, _: Operator, id: ServerId, body: AcceptBody) -> Response:
    """Accept what an MCP server says now; conversations take it up when they freeze their tools again."""
    return answer(mcp_server_wire(await wired.core.tools.servers.accept(id, body.digest)))


@router.post("/{id}/login", responses=answers(McpLoginBegun, *BAD, 404, 409))
async def begin_login(wired: Wired, _: Operator, id: ServerId, body: McpLoginBody) -> Response:
    """Begin to log in at an MCP server by a browser: return the page that an operator opens."""
    return answer(copied(await wired.core.tools.servers.logins.begin(id, body.redirect_uri, body.scope), McpLoginBegun))


@router.post("/{id}/login/complete", responses=answers(McpServerAnswer, *BAD, 404, 409))
async def complete_login(wired: Wired, _: Operator, id: ServerId, body: McpLoginEndBody) -> Response:
    """Log in at an MCP server, by the address that the page led to, and ask it what it offers."""
    servers = wired.core.tools.servers
    await servers.logins.complete(id, body.ticket, body.redirected)
    return answer(mcp_server_wire(await servers.refresh(id)))


@router.delete("/{id}/login", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def log_out(wired: Wired, _: Operator, id: ServerId) -> Response:
    """Forget the login at an MCP server, and have its authorization server forget it."""
    await wired.core.tools.servers.logins.logout(id)
    return Response(status_code=204)
