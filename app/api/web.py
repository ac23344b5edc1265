"""Routes of the pages that agents are on: how an agent presents itself there."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api.deps import Caller, Name, Wired, agent_for
from app.api.problems import answers
from app.api.wire import answer
from channels.web.face import AgentFace, face_of
from channels.web.routes import widget

router = APIRouter(prefix="/v1/web", tags=["web"])


@router.get("/agent", responses=answers(AgentFace, 400, 401, 403, 404, 422))
async def get_face(wired: Wired, principal: Caller, agent: Name | None = None) -> Response:
    """Return how an agent presents itself to visitors; theirs is the token's, an operator says which."""
    found = await wired.core.agents.get(await agent_for(principal, agent, wired.core))
    return answer(face_of(found, widget().build), headers={"Cache-Control": "no-store"})
