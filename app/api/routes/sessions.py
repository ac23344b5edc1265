"""Routes of sessions: conversations, their messages and their events."""

# ruff: noqa: FAST003 - the path's `id` is taken by the dependencies that find what it names

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from agent_core import Actor, Controls, Event, Forbidden, Inbound, InvalidInput, Page, SessionStatus, SystemClock
from agent_core.store.listing import Wanted
from app.api.bodies.requests import (
    MAX_VISITORS_METADATA,
    ForkBody,
    Overlap,
    PostBody,
    ReplyBody,
    SessionBody,
    actor_of,
)
from app.api.bodies.wire import (
    Message,
    Posted,
    Session,
    answer,
    message_wire,
    page,
    posted,
    rfc3339,
    session_wire,
)
from app.api.deciders import Deciding
from app.api.deps import (
    MAX_SEQ,
    NAMED,
    PERSONS,
    After,
    Caller,
    Cursor,
    Limit,
    Name,
    Operator,
    OwnSession,
    Show,
    Wired,
    agent_for,
    origin_of,
    seat_of,
    sender,
)
from app.api.entrance.body import BodyRoute
from app.api.problems import NOT_BLANK, answers
from app.api.routes.uploads import parts_of
from app.api.sse import SSE, open_stream
from channels.web.settings import settings_of

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=BodyRoute)
Sought = Annotated[str, Query(min_length=1, max_length=200, pattern=NOT_BLANK)]


@router.post("", status_code=201, responses=answers(Session, 400, 401, 403, 404, 413, 422, 429, status=201))
async def open_session(request: Request, wired: Wired, principal: Caller, show: Show, body: SessionBody) -> Response:
    """Open a session with an agent."""
    agent = await agent_for(principal, body.agent, wired.core)
    actor = principal.actor
    if principal.visitor and len(msgspec.json.encode(body.metadata)) > MAX_VISITORS_METADATA:
        raise InvalidInput("metadata", f"at most {MAX_VISITORS_METADATA:,} bytes of JSON from a visitor.")
    if body.actor is not None:
        named = actor_of(body.actor)
        if principal.visitor and named.id != actor.id:
            raise Forbidden(f"`actor`: {NAMED}")
        actor = actor if principal.visitor else named
    session = await wired.core.open_session(agent=agent, actor=actor, metadata=body.metadata, origin=origin_of(request))
    return answer(session_wire(session, show), 201)


async def wanted_of(
    wired: Wired,
    principal: Caller,
    *,
    actor: Name | None = None,
    agent: Name | None = None,
    status: SessionStatus | None = None,
) -> Wanted:
    """Return which sessions are listed; of a visitor's only the visitor's own."""
    if principal.visitor:
        if actor not in {None, principal.actor.id}:
            raise Forbidden(f"`actor`: {NAMED}")
        actor = principal.actor.id
    if principal.visitor or agent is not None:
        agent = await agent_for(principal, agent, wired.core)
    kinds = PERSONS if principal.visitor else None
    return Wanted(
        actor=actor, kinds=kinds, agent=agent, status=status, own=principal.visitor, unrevoked=principal.visitor
    )


@router.get("", responses=answers(Page[Session], 400, 401, 403, 404, 422))
async def list_sessions(
    wired: Wired,
    principal: Caller,
    show: Show,
    limit: Limit,
    wanted: Annotated[Wanted, Depends(wanted_of)],
    *,
    q: Sought | None = None,
    order: Annotated[Literal["created", "activity"], Query()] = "created",
    cursor: Cursor = None,
) -> Response:
    """List sessions, the newest first, or those with the latest activity (`order`); a visitor's own only.

    With `q`, the operator's, those in which each of its words is found: in titles, in names and ids of people, and in
    what was said; by activity. A search ends after 5,000 sessions: a page of it may be short, or empty, and still have
    a `next_cursor`.
    """
    if principal.visitor and q is not None:
        raise Forbidden("`q` is the operator's; leave it out.")
    if q is not None or order == "activity":
        listed = await wired.core.listing.find(wanted, q, limit=limit, cursor=cursor)
    else:
        listed = await wired.core.listing.newest(wanted, limit=limit, cursor=cursor)
    return page(listed, session_wire, show)


@router.get("/{id}", responses=answers(Session, 401, 403, 404, 422))
async def get_session(session: OwnSession, show: Show) -> Response:
    """Return a session."""
    return answer(session_wire(session, show))


@router.get("/{id}/messages", responses=answers(Page[Message], 400, 401, 403, 404, 422))
async def list_messages(wired: Wired, session: OwnSession, show: Show, limit: Limit, cursor: Cursor = None) -> Response:
    """List a session's messages, oldest first."""
    return page(await wired.core.messages(session.id, limit=limit, cursor=cursor), message_wire, show)


@router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_session(wired: Wired, _: Operator, id: str) -> Response:
    """Remove a session and its log."""
    await wired.core.delete_session(id)
    return Response(status_code=204)


@router.post("/{id}/fork", status_code=201, responses=answers(Session, 400, 401, 403, 404, 409, 413, 422, status=201))
async def fork_session(wired: Wired, _: Operator, id: str, body: ForkBody | None = None) -> Response:
    """Open a session that begins with a copy of this one's log."""
    return answer(session_wire(await wired.core.fork_session(id, at=body.at if body else None)), 201)


@router.post("/{id}/close", responses=answers(Session, 400, 401, 403, 404, 409, 413, 422))
async def close_session(wired: Wired, _: Operator, id: str) -> Response:
    """Close a session: it takes no further message."""
    return answer(session_wire(await wired.core.close_session(id)))


@router.post("/{id}/refreeze", responses=answers(Session, 400, 401, 403, 404, 409, 413, 422))
async def refreeze_session(wired: Wired, _: Operator, id: str) -> Response:
    """Let a session without a run take up the newest version of its agent, prompt included, with its next message."""
    return answer(session_wire(await wired.core.refreeze_session(id)))


@router.post(
    "/{id}/messages",
    status_code=202,
    responses=answers(Posted, 400, 401, 403, 404, 409, 413, 422, 429, status=202),
)
async def post_message(
    request: Request, wired: Wired, principal: Caller, session: OwnSession, body: PostBody
) -> Response:
    """Say something to the agent; the answer comes over the session's events.

    A visitor's message without an `overlap` has that of the agent's `web` settings.
    """
    if principal.visitor and body.controls is not None:
        raise Forbidden("`controls` are the operator's.")
    actor = principal.actor if principal.visitor else session.actor
    overlap: Overlap = body.overlap
    if principal.agent is not None and "overlap" not in body.model_fields_set:
        overlap = settings_of((await wired.core.agents.get(principal.agent)).definition).overlap
    inbound = Inbound(
        parts=(*body.texts, *await parts_of(wired, principal, body.files or (), session.id)),
        actor=actor,
        via=sender(principal, actor),
        overlap=overlap,
        key=body.idempotency_key,
        digest=body.digest() if body.idempotency_key else b"",
        controls=body.controls.value() if body.controls else Controls(),
        context=body.said_by_the_page,
        origin=origin_of(request),
        tool_context=principal.tool_context,
    )
    return answer(posted(await wired.core.receive(session.id, inbound)), 202)


@router.post(
    "/{id}/replies", status_code=201, responses=answers(Message, 400, 401, 403, 404, 409, 413, 422, status=201)
)
async def reply(wired: Wired, principal: Operator, id: str, body: ReplyBody) -> Response:
    """Answer the user as a person, in the agent's place; no run starts, and the agent reads it with its next step."""
    from channels.ledger import show_again  # noqa: PLC0415 - its tables bring megabytes that SQLite does without

    by = Actor(principal.actor.id, principal.actor.kind, body.name)
    message = await wired.core.replies.give(id, body.text, by=by, key=body.idempotency_key, also=show_again)
    return answer(message_wire(message), 201)


class Stretch(NamedTuple):
    """Which part of a log is asked for: what follows *after*, or the *last* messages, those before seq *before*."""

    after: int
    last: int | None
    before: int | None


async def stretch_of(
    after: After,
    last: Annotated[int | None, Query(ge=1, le=500)] = None,
    before: Annotated[int | None, Query(ge=1, le=MAX_SEQ)] = None,
) -> Stretch:
    """Return the stretch that the query names; raises `InvalidInput` for a `before` without a `last`."""
    if before is not None and last is None:
        raise InvalidInput("last", "`before` goes with `last`: say how many messages before it.")
    return Stretch(after, last, before)


@router.get(
    "/{id}/events",
    status_code=200,
    response_class=Response,
    responses=answers(SSE, 400, 401, 403, 404, 422, 429, media="text/event-stream"),
)
async def session_events(
    request: Request,
    wired: Wired,
    session: OwnSession,
    show: Show,
    mine: Deciding,
    stretch: Annotated[Stretch, Depends(stretch_of)],
    until: Annotated[Literal["idle"] | None, Query()] = None,
) -> Response:
    """Follow a session: its facts after the cursor, then what happens, as server-sent events.

    Without a cursor, `last` begins with about so many of the newest messages, where no run is open, so that they can
    be read as a log of their own; the header `Parley-After` has the seq after which they begin, 0 if that is the whole
    log. With `before` as well it is a page: the facts of so many messages before that seq, and the end.
    """
    after, last, before = stretch
    readers = await seat_of(request, session.id)
    if last is not None and before is not None:
        after, facts = await wired.core.conversations.earlier(session.id, last=last, before=before)
        source: AsyncIterator[list[Event]] = batches(facts)
    else:
        if last is not None and not after:
            after = await wired.core.conversations.start_of(session.id, last=last)
        source = wired.core.follow(session.id, after=after, until_idle=until == "idle")
    # What a page needs to tell news from what was there, whatever its own clock says.
    headers = {"Parley-Time": rfc3339(SystemClock().now())}
    headers |= {} if last is None else {"Parley-After": str(after)}
    return await open_stream(source, show=show, readers=readers, mine=mine, headers=headers)


async def batches(facts: Sequence[Event]) -> AsyncIterator[list[Event]]:
    """Yield *facts* as one batch."""
    yield [*facts]
