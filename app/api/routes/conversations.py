"""Routes of a visitor's own conversations: the list, titles, deletion, and saying the newest message again."""

# ruff: noqa: FAST003 - the path's `id` is taken by the dependencies that find what it names

from contextlib import nullcontext
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from msgspec.structs import replace
from starlette.responses import Response

from agent_core import Page, SessionBusy
from agent_core.store.listing import Wanted
from app.api.bodies.requests import BranchBody, TitleBody
from app.api.bodies.wire import (
    Feedback,
    OwnConversation,
    Session,
    answer,
    conversation_wire,
    feedback_wire,
    page,
    session_wire,
)
from app.api.deps import Caller, Cursor, Limit, OwnSession, Show, Wired, origin_of
from app.api.entrance.body import BodyRoute
from app.api.problems import answers
from app.api.routes.sessions import Sought, wanted_of

router = APIRouter(prefix="/v1/web/conversations", tags=["web"], route_class=BodyRoute)


@router.get("", responses=answers(Page[OwnConversation], 400, 401, 403, 404, 422, 429))
async def list_conversations(
    request: Request,
    wired: Wired,
    principal: Caller,
    limit: Limit,
    wanted: Annotated[Wanted, Depends(wanted_of)],
    q: Sought | None = None,
    cursor: Cursor = None,
) -> Response:
    """List conversations, those with the latest activity first: a visitor's own, to operators those of an `actor`.

    With `q` those in which each of its words is found, in titles and in what was said. A search looks at the newest
    200: a page of it may be short, or empty, and still have a `next_cursor`.
    """
    own = replace(wanted, own=True)
    with nullcontext() if q is None else wired.searches.turn(principal, request.scope):
        listed = await wired.core.conversations.find(own, q, limit=limit, cursor=cursor)
    return page(listed, conversation_wire)


@router.get("/{id}/feedback", responses=answers(Page[Feedback], 400, 401, 403, 404, 422))
async def list_ratings(wired: Wired, principal: Caller, session: OwnSession) -> Response:
    """List the caller's own ratings of a conversation's answers, the newest first, 500 at most."""
    return page(await wired.core.conversations.ratings(session.id, principal.actor), feedback_wire)


@router.patch("/{id}", responses=answers(OwnConversation, 400, 401, 403, 404, 413, 422))
async def rename_conversation(wired: Wired, session: OwnSession, body: TitleBody) -> Response:
    """Give a conversation another title."""
    return answer(conversation_wire(await wired.core.conversations.rename(session.id, body.title)))


@router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_conversation(wired: Wired, principal: Caller, session: OwnSession) -> Response:
    """Delete a conversation, with those that it goes on from; what is being answered is stopped first."""
    try:
        await wired.core.conversations.remove(session.id, by=principal.actor)
    except SessionBusy:
        raise SessionBusy("The answer is still being stopped; delete the conversation again in a moment.") from None
    return Response(status_code=204)


@router.post(
    "/{id}/branch", status_code=201, responses=answers(Session, 400, 401, 403, 404, 409, 413, 422, 429, status=201)
)
async def branch_conversation(
    request: Request, wired: Wired, principal: Caller, session: OwnSession, show: Show, body: BranchBody
) -> Response:
    """Let a conversation go on as a copy that ends before its person's newest message, so that it is said again there.

    The conversation itself is closed; the visitor's lists have the copy in its place once something was said there.
    Operators see both, `forked_from` and `replaced_by` name the other. It waits for nothing: 409 while a run is at
    work. What the copy stores counts as stored, and it is 429 too where a message would be.
    """
    by = principal.actor if principal.visitor else session.actor
    copy = await wired.core.conversations.branch(session.id, body.message, by=by, origin=origin_of(request))
    return answer(session_wire(await wired.core.session(copy), show), 201)
