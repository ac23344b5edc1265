"""Routes of the pages that agents are on: how an agent presents itself, and tokens for those whom no site names."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import StringConstraints
from starlette.responses import Response

from agent_core import AgentObject, Forbidden, NotFound
from app.api.bodies.derived import RequestBody
from app.api.bodies.requests import Id
from app.api.bodies.token_wire import AnonymousToken
from app.api.bodies.wire import answer, rfc3339
from app.api.deps import Caller, Name, Services, Wired, address_of, agent_for
from app.api.entrance.body import BodyRoute
from app.api.problems import answers, problem
from channels.web.identity import Known
from channels.web.routes import widget
from channels.web.settings import AgentFace, face_of, settings_of

router = APIRouter(prefix="/v1/web", tags=["web"], route_class=BodyRoute)
MAX_SECRET = 2_000
REFUSED = "secret_refused"
"""The code of the answer to a secret that is good for nothing any more: a page forgets it, and asks without one."""


class NewcomerBody(RequestBody):
    """The agent that someone on a page wants to talk to, and the *secret* that the page kept from last time."""

    agent: Id
    secret: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SECRET)] | None = None


@router.get("/agent", responses=answers(AgentFace, 400, 401, 403, 404, 422))
async def get_face(wired: Wired, principal: Caller, agent: Name | None = None) -> Response:
    """Return how an agent presents itself to visitors; theirs is the token's, an operator says which."""
    agent_object = await wired.core.agents.get(await agent_for(principal, agent, wired.core))
    return answer(face_of(agent_object, widget().build, anonymous=principal.is_anonymous))


@router.post("/anonymous", status_code=201, responses=answers(AnonymousToken, 400, 401, 403, 413, 422, 429, status=201))
async def admit(request: Request, wired: Wired, body: NewcomerBody) -> Response:
    """Make a short-lived token for someone on a page that the agent names; the secret makes them the same one again.

    No credential is asked for: the browser's `Origin` has to be one of the agent's `web: {anonymous: {origins}}`.
    """
    origin = request.headers.get("origin")
    visitor = None if body.secret is None else wired.tokens.read_secret(body.secret)
    wired.newcomers.admit(address_of(request), is_new=visitor is None)
    agent = await _agent_on(wired, origin, body.agent)
    if body.secret is not None and not _is_good(wired, visitor, agent, origin):
        detail = "This browser's earlier conversation cannot be continued here; ask again without the `secret`."
        return problem(401, detail, code=REFUSED)
    token, secret = wired.tokens.anonymous(agent.id, origin or "", visitor)
    return answer(AnonymousToken(token.text, rfc3339(1000 * token.expires), token.id, secret.text), 201)


async def _agent_on(wired: Services, origin: str | None, name: str) -> AgentObject:
    """Return the agent *name*, which pages of *origin* may talk to without a token; raises `Forbidden`.

    Who asks without a credential does not learn which agents there are.
    """
    if origin is None:
        raise Forbidden("Anonymous visitors come from a page in a browser, which sends its `Origin`; here is none.")
    try:
        agent = await wired.core.agents.get(name)
        allowed = settings_of(agent.definition).anonymous
    except NotFound:
        agent = allowed = None
    if agent is None or allowed is None or origin not in allowed.origins:
        remedy = f"`web: {{anonymous: {{origins: [{origin[:200]}]}}}}` in that agent lets them"
        raise Forbidden(f"Pages of this origin may not talk to an agent `{name}` without a token; {remedy}.")
    return agent


def _is_good(wired: Services, visitor: Known | None, agent: AgentObject, origin: str | None) -> bool:
    """Return whether a secret is genuine, of this agent and this site, and not revoked."""
    if visitor is None or (visitor.agent, visitor.origin) != (agent.id, origin):
        return False
    return wired.credentials.holds(visitor.principal)
