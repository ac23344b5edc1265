"""Which scope each route takes of an operator's key: one table, and the check that reads it."""

from collections.abc import Mapping

from fastapi import Request

from agent_core import Forbidden
from agent_core.objects import Scope
from app.api.deps import known_query
from channels.web.identity import Principal

SCOPE_OF: Mapping[str, Scope] = {
    "GET /metrics": "read",
    "GET /v1/agents": "read",
    "GET /v1/agents/{id}": "read",
    "GET /v1/approvals": "read",
    "GET /v1/approvals/audit": "read",
    "GET /v1/approvals/{id:approval}": "read",
    "GET /v1/audit": "read",
    "GET /v1/costs": "read",
    "GET /v1/files/{id}": "read",
    "GET /v1/mcp-servers": "read",
    "GET /v1/mcp-servers/{id}": "read",
    "GET /v1/renders/{id:render}": "read",
    "GET /v1/renders/{id}.csv": "read",
    "GET /v1/renders/{id}.json": "read",
    "GET /v1/renders/{id}.png": "read",
    "GET /v1/renders/{id}.svg": "read",
    "GET /v1/runs": "read",
    "GET /v1/runs/{id}": "read",
    "GET /v1/runs/{id}/events": "read",
    "GET /v1/runs/{id}/tree": "read",
    "GET /v1/secrets": "read",
    "GET /v1/sessions": "read",
    "GET /v1/sessions/{id}": "read",
    "GET /v1/sessions/{id}/events": "read",
    "GET /v1/sessions/{id}/messages": "read",
    "GET /v1/tools": "read",
    "GET /v1/tools/{id}": "read",
    "GET /v1/web/agent": "read",
    "GET /v1/web/conversations": "read",
    "GET /v1/web/conversations/{id}/feedback": "read",
    "POST /v1/agents/{id}/runs": "run",
    "POST /v1/files": "run",
    "POST /v1/renders/preview": "run",
    "POST /v1/runs/{id}/cancel": "run",
    "POST /v1/runs/{id}/feedback": "run",
    "POST /v1/runs/{id}/tool-outputs": "run",
    "POST /v1/sessions": "run",
    "POST /v1/sessions/{id}/close": "run",
    "POST /v1/sessions/{id}/fork": "run",
    "POST /v1/sessions/{id}/messages": "run",
    "POST /v1/sessions/{id}/refreeze": "run",
    "POST /v1/sessions/{id}/replies": "run",
    "POST /v1/tools/{id}/call": "admin",
    "POST /v1/tools/{id}/test": "run",
    "POST /v1/web/conversations/{id}/branch": "run",
    "POST /v1/web/visitor-tokens": "run",
    "POST /v1/approvals/{id:approval}": "approve",
    "DELETE /v1/actors/{id:path}": "admin",
    "DELETE /v1/agents/{id}": "admin",
    "DELETE /v1/keys/{id}": "admin",
    "DELETE /v1/mcp-servers/{id}": "admin",
    "DELETE /v1/secrets/{id}": "admin",
    "DELETE /v1/sessions/{id}": "admin",
    "DELETE /v1/tools/{id}": "admin",
    "DELETE /v1/web/conversations/{id}": "admin",
    "GET /v1/keys": "admin",
    "GET /v1/keys/{id}": "admin",
    "DELETE /v1/web/keys/{id}": "admin",
    "GET /v1/web/keys": "admin",
    "GET /v1/web/revocations": "admin",
    "PATCH /v1/agents/{id}": "admin",
    "PATCH /v1/keys/{id}": "admin",
    "PATCH /v1/mcp-servers/{id}": "admin",
    "PATCH /v1/tools/{id}": "admin",
    "PATCH /v1/web/conversations/{id}": "run",
    "POST /v1/agents": "admin",
    "POST /v1/keys": "admin",
    "POST /v1/mcp-servers": "admin",
    "POST /v1/mcp-servers/{id}/accept": "admin",
    "POST /v1/mcp-servers/{id}/refresh": "admin",
    "POST /v1/mcp-servers/{id}/login": "admin",
    "POST /v1/mcp-servers/{id}/login/complete": "admin",
    "DELETE /v1/mcp-servers/{id}/login": "admin",
    "POST /v1/keys/{id}/rotate": "admin",
    "POST /v1/secrets": "admin",
    "POST /v1/tools": "admin",
    "POST /v1/web/keys": "admin",
    "POST /v1/web/revocations": "admin",
    "PUT /v1/secrets/{id}": "admin",
}
"""By method and template. A guarded route that is missing here takes `admin`, and a test fails."""


async def admitted(request: Request) -> None:
    """Refuse an operator whose key lacks the scope of the route, and query parameters that the route does not take."""
    principal: Principal | None = request.scope.get("parley.principal")
    if principal is not None:
        check_scope(principal, request.method, getattr(request.scope.get("route"), "path", ""))
    await known_query(request)


def check_scope(principal: Principal, method: str, template: str) -> None:
    """Raise `Forbidden` if *principal* is an operator whose key lacks the scope of the route at *template*."""
    needed = SCOPE_OF.get(f"{method} {template}", "admin")
    if not principal.visitor and needed not in principal.scopes:
        raise Forbidden(f"This takes a key with the scope `{needed}`; the one that was sent does not have it.")
