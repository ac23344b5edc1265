"""The route that deletes one person's data."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from agent_core import InvalidInput
from agent_core.runtime.access import Forgotten
from app.api.bodies.wire import answer
from app.api.deps import Operator, Wired
from app.api.problems import answers
from channels.web.identity import OPERATOR

router = APIRouter(tags=["actors"])
ActorId = Annotated[str, Path(description="A person's id, whatever it contains.", min_length=1, max_length=200)]


@router.delete(
    "/v1/actors/{id:path}",
    responses={
        **answers(Forgotten, 401, 403, 404, 422),
        202: {**answers(Forgotten)[200], "description": "Some sessions were busy: repeat it"},
    },
)
async def forget_actor(wired: Wired, principal: Operator, id: ActorId) -> Response:
    """Delete one person's data, everywhere; running work of theirs is cancelled first. Their tokens end."""
    from channels.ledger import forget_places  # noqa: PLC0415 - its tables bring megabytes that SQLite does without

    if id == OPERATOR.id or id.startswith(f"{OPERATOR.id}:"):
        raise InvalidInput("id", "an operator is a key, which is no person; revoke it, and delete its sessions.")
    pseudonym = wired.tokens.pseudonym(id)
    await wired.credentials.revoke("actor", pseudonym)
    done = await wired.core.forget_actor(id, pseudonym=pseudonym, by=principal.actor, also=forget_places)
    return answer(done, 202 if done.remaining else 200)
