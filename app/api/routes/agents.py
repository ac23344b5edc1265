"""Routes of agents: stored, versioned definitions."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from agent_core import Page
from app.api.bodies.requests import AgentBody, AgentChanges
from app.api.bodies.wire import Agent, agent_wire, answer, page
from app.api.deps import Cursor, Limit, Operator, Wired
from app.api.entrance.body import BodyRoute
from app.api.problems import answers
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
