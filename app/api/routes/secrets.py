"""Routes of secrets, which tools and MCP servers refer to: values go in and never come out."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_core import Page
from agent_core.runtime.revisions import MAX_VALUE
from app.api.bodies.derived import RequestBody
from app.api.bodies.wire import Secret, answer, page, stored_secret_wire
from app.api.deps import Cursor, Limit, Operator, Wired
from app.api.entrance.body import BodyRoute
from app.api.problems import answers

router = APIRouter(prefix="/v1/secrets", tags=["secrets"], route_class=BodyRoute)
BAD = (400, 401, 403, 413, 422)
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
SecretId = Annotated[str, Path(description="A secret's name.", max_length=200)]
Value = Annotated[str, Field(min_length=1, max_length=MAX_VALUE)]


class SecretBody(RequestBody):
    """A secret: definitions refer to it as `{{secret:NAME}}`."""

    name: SecretName
    value: Value


class SecretValueBody(RequestBody):
    """A secret's value."""

    value: Value


@router.get("", responses=answers(Page[Secret], 400, 401, 403, 422))
async def list_secrets(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List secrets by name, the oldest first; their values are not shown."""
    return page(await wired.core.tools.secrets.list(limit=limit, cursor=cursor), stored_secret_wire)


@router.post("", status_code=201, responses=answers(Secret, *BAD, 409, status=201))
async def create_secret(wired: Wired, _: Operator, body: SecretBody) -> Response:
    """Store a secret."""
    made = await wired.core.tools.secrets.put(body.name, body.value, replace=False)
    return answer(stored_secret_wire(made), 201)


@router.put("/{id}", responses=answers(Secret, *BAD))
async def set_secret(wired: Wired, _: Operator, id: SecretId, body: SecretValueBody) -> Response:
    """Store a secret, or give it a new value, which the next call of a tool has."""
    return answer(stored_secret_wire(await wired.core.tools.secrets.put(id, body.value)))


@router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_secret(wired: Wired, _: Operator, id: SecretId) -> Response:
    """Delete a secret that no tool and no MCP server refers to."""
    await wired.core.tools.secrets.delete(id)
    return Response(status_code=204)
