"""Routes of agents: stored, versioned definitions."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_core.agents import ToolDefinition
from agent_core.objects import Page
from agent_core.runtime.agent_checks import MAX_CONTEXT, MAX_DESCRIPTION, MAX_LIMIT, MAX_TIMEOUT, MAX_TITLE
from agent_core.runtime.revisions import MAX_VALUE
from agent_core.tools.output import MAX_EXPRESSION
from app.api.body import BodyRoute
from app.api.deps import Cursor, Limit, Operator, Wired
from app.api.problems import answers
from app.api.requests import AgentBody, AgentChanges
from app.api.wire import (
    Agent,
    DryRunAnswer,
    RequestBody,
    Secret,
    Tool,
    ToolTest,
    agent_wire,
    answer,
    body_of,
    copied,
    page,
    stored_secret_wire,
    tool_wire,
    whole_tool_wire,
)
from app.checks import warn_of_budget

router = APIRouter(prefix="/v1/agents", tags=["agents"], route_class=BodyRoute)
AgentId = Annotated[str, Path(description="An agent's id or its name.", max_length=200)]
BAD = (400, 401, 403, 413, 422)


@router.get("", responses=answers(Page[Agent], 400, 401, 403, 422))
async def list_agents(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List the agents."""
    agents = wired.core.agents
    return page(await agents.list(limit=limit, cursor=cursor), agent_wire, agents.defaults)


@router.post("", status_code=201, responses=answers(Agent, *BAD, 409, status=201))
async def create_agent(wired: Wired, _: Operator, body: AgentBody) -> Response:
    """Make an agent."""
    agents = wired.core.agents
    agent = await agents.create(body.value())
    warn_of_budget(agent.definition)
    return answer(agent_wire(agent, agents.defaults), 201)


@router.get("/{id}", responses=answers(Agent, 401, 403, 404, 422))
async def get_agent(wired: Wired, _: Operator, id: AgentId) -> Response:
    """Return an agent at its newest version."""
    agents = wired.core.agents
    return answer(agent_wire(await agents.get(id), agents.defaults))


@router.patch("/{id}", responses=answers(Agent, *BAD, 404, 409))
async def change_agent(wired: Wired, _: Operator, id: AgentId, body: AgentChanges) -> Response:
    """Make a new version of an agent; a session takes it up after a pause, a compaction, or when it is asked to."""
    agents = wired.core.agents
    agent = await agents.update(id, body.model_dump(exclude_unset=True))
    warn_of_budget(agent.definition)
    return answer(agent_wire(agent, agents.defaults))


@router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_agent(wired: Wired, _: Operator, id: AgentId) -> Response:
    """Delete an agent."""
    await wired.core.agents.delete(id)
    return Response(status_code=204)


tools_router = APIRouter(prefix="/v1/tools", tags=["tools"], route_class=BodyRoute)
ToolId = Annotated[str, Path(description="A tool's id or its name.", max_length=200)]
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


@tools_router.get("", responses=answers(Page[Tool], 400, 401, 403, 422))
async def list_tools(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List the tools of this process by name, whatever their kind."""
    return page(await wired.core.tools.definitions.list(limit=limit, cursor=cursor), tool_wire)


@tools_router.post("", status_code=201, responses=answers(Tool, *BAD, 409, status=201))
async def create_tool(wired: Wired, _: Operator, body: NewToolBody) -> Response:
    """Define a tool."""
    return answer(tool_wire(await wired.core.tools.definitions.create(body.value())), 201)


@tools_router.get("/{id}", responses=answers(Tool, 401, 403, 404, 422))
async def get_tool(wired: Wired, _: Operator, id: ToolId) -> Response:
    """Return a tool with its versions, and with the agents that have it."""
    tools = wired.core.tools.definitions
    tool = await tools.get(id)
    agents = await wired.core.agents.having(tool.name)
    return answer(whole_tool_wire(tool, agents, await tools.versions(tool.name)))


@tools_router.patch("/{id}", responses=answers(Tool, *BAD, 404, 409))
async def change_tool(wired: Wired, _: Operator, id: ToolId, body: ToolChanges) -> Response:
    """Make a new version of a defined tool.

    Calls use it from now on; what a model sees of it changes when its conversation freezes its tools again.
    """
    return answer(tool_wire(await wired.core.tools.definitions.update(id, body.model_dump(exclude_unset=True))))


@tools_router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_tool(wired: Wired, _: Operator, id: ToolId) -> Response:
    """Delete a defined tool that no agent names."""
    await wired.core.tools.definitions.delete(id)
    return Response(status_code=204)


@tools_router.post("/{id}/call", responses=answers(DryRunAnswer, *BAD, 404))
async def call_tool(wired: Wired, principal: Operator, id: ToolId, body: DryRunBody) -> Response:
    """Call a tool outside of any session: what it writes is written, and no hook is asked.

    It has the checks, the timeout and the limit of a run's call. A tool that needs the rows of a session says so.
    """
    done = await wired.core.tools.definitions.call(
        id, body.arguments, by=principal.actor, tool_context=body.tool_context
    )
    return answer(copied(done, DryRunAnswer))


@tools_router.post("/{id}/test", responses=answers(ToolTest, 401, 403, 404, 422))
async def check_tool(wired: Wired, _: Operator, id: ToolId) -> Response:
    """Check that a tool can work, without calling it: its definition, and the secrets and servers that it needs."""
    tools = wired.core.tools.definitions
    tool = await tools.get(id)
    return answer(ToolTest(tool.id, tool.name, tuple(await tools.faults(tool.name))))


secrets_router = APIRouter(prefix="/v1/secrets", tags=["secrets"], route_class=BodyRoute)
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


@secrets_router.get("", responses=answers(Page[Secret], 400, 401, 403, 422))
async def list_secrets(wired: Wired, _: Operator, limit: Limit, cursor: Cursor = None) -> Response:
    """List secrets by name, the oldest first; their values are not shown."""
    return page(await wired.core.tools.secrets.list(limit=limit, cursor=cursor), stored_secret_wire)


@secrets_router.post("", status_code=201, responses=answers(Secret, *BAD, 409, status=201))
async def create_secret(wired: Wired, _: Operator, body: SecretBody) -> Response:
    """Store a secret."""
    made = await wired.core.tools.secrets.put(body.name, body.value, replace=False)
    return answer(stored_secret_wire(made), 201)


@secrets_router.put("/{id}", responses=answers(Secret, *BAD))
async def set_secret(wired: Wired, _: Operator, id: SecretId, body: SecretValueBody) -> Response:
    """Store a secret, or give it a new value, which the next call of a tool has."""
    return answer(stored_secret_wire(await wired.core.tools.secrets.put(id, body.value)))


@secrets_router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_secret(wired: Wired, _: Operator, id: SecretId) -> Response:
    """Delete a secret that no tool and no MCP server refers to."""
    await wired.core.tools.secrets.delete(id)
    return Response(status_code=204)
