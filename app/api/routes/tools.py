"""Routes of tools: all that this process has, and the stored, versioned definitions among them."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_core import Page
from agent_core.agents import ToolDefinition
from agent_core.runtime.agent_checks import MAX_CONTEXT, MAX_DESCRIPTION, MAX_LIMIT, MAX_TIMEOUT, MAX_TITLE
from agent_core.tools.output import MAX_EXPRESSION
from app.api.bodies.derived import RequestBody, body_of
from app.api.bodies.wire import DryRunAnswer, Tool, ToolTest, answer, dry_run_wire, page, tool_wire, whole_tool_wire
from app.api.deps import Cursor, Limit, Operator, Wired
from app.api.entrance.body import BodyRoute
from app.api.problems import answers

router = APIRouter(prefix="/v1/tools", tags=["tools"], route_class=BodyRoute)
ToolId = Annotated[str, Path(description="A tool's id or its name.", max_length=200)]
BAD = (400, 401, 403, 413, 422)
_KEY = r"^[A-Za-z0-9_-]{1,64}$"

# What HTTP takes of a definition's fields where that is less than their types say.
TOOL = {
    "name": Annotated[str, StringConstraints(pattern=_KEY)],
    "description": Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION)],
    "title": Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE)],
    "title_done": Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE)],
    "timeout_s": Annotated[float, Field(gt=0, le=MAX_TIMEOUT, allow_inf_nan=False)],
    "result_limit": Annotated[int, Field(ge=1, le=MAX_LIMIT)],
    "output": Annotated[str, StringConstraints(min_length=1, max_length=MAX_EXPRESSION)],
    "context": Annotated[list[Annotated[str, StringConstraints(pattern=_KEY)]], Field(max_length=MAX_CONTEXT)],
    "resource": Annotated[str, StringConstraints(pattern=_KEY)],
}


class NewToolBody(body_of(ToolDefinition, TOOL)):
    """A new tool."""


class ToolChanges(body_of(ToolDefinition, TOOL, partial=True)):
    """What a new version of a tool changes; a field that is absent stays, `preset` and `config` are replaced whole."""


class DryRunBody(RequestBody):
    """The arguments of a call, and what a run would bring for its tools."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    tool_context: dict[str, Any] | None = None


@router.get("", responses=answers(Page[Tool], 400, 401, 403, 422))
async def list_tools(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List the tools of this process by name, whatever their kind."""
    return page(await wired.core.tools.definitions.list(limit=limit, cursor=cursor), tool_wire)


@router.post("", status_code=201, responses=answers(Tool, *BAD, 409, status=201))
async def create_tool(wired: Wired, _: Operator, body: NewToolBody) -> Response:
    """Define a tool."""
    return answer(tool_wire(await wired.core.tools.definitions.create(body.value())), 201)


@router.get("/{id}", responses=answers(Tool, 401, 403, 404, 422))
async def get_tool(wired: Wired, _: Operator, id: ToolId) -> Response:
    """Return a tool with its versions, and with the agents that have it."""
    tools = wired.core.tools.definitions
    tool = await tools.get(id)
    agents = await wired.core.agents.having(tool.name)
    return answer(whole_tool_wire(tool, agents, await tools.versions(tool.name)))


@router.patch("/{id}", responses=answers(Tool, *BAD, 404, 409))
async def change_tool(wired: Wired, _: Operator, id: ToolId, body: ToolChanges) -> Response:
    """Make a new version of a defined tool.

    Calls use it from now on; what a model sees of it changes when its conversation freezes its tools again.
    """
    return answer(tool_wire(await wired.core.tools.definitions.update(id, body.model_dump(exclude_unset=True))))


@router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_tool(wired: Wired, _: Operator, id: ToolId) -> Response:
    """Delete a defined tool that no agent names."""
    await wired.core.tools.definitions.delete(id)
    return Response(status_code=204)


@router.post("/{id}/call", responses=answers(DryRunAnswer, *BAD, 404))
async def call_tool(wired: Wired, principal: Operator, id: ToolId, body: DryRunBody) -> Response:
    """Call a tool outside of any session: what it writes is written, and no hook is asked.

    It has the checks, the timeout and the limit of a run's call. A tool that needs the rows of a session says so.
    """
    done = await wired.core.tools.definitions.call(
        id, body.arguments, by=principal.actor, tool_context=body.tool_context
    )
    return answer(dry_run_wire(done))


@router.post("/{id}/test", responses=answers(ToolTest, 401, 403, 404, 422))
async def check_tool(wired: Wired, _: Operator, id: ToolId) -> Response:
    """Check that a tool can work, without calling it: its definition, and the secrets and servers that it needs."""
    tools = wired.core.tools.definitions
    tool = await tools.get(id)
    return answer(ToolTest(tool.id, tool.name, tuple(await tools.faults(tool.name))))
