"""Routes of sessions, conversations, files and people."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from msgspec.structs import replace
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from agent_core.agents import Controls
from agent_core.channels import Inbound
from agent_core.clock import SystemClock
from agent_core.errors import Forbidden, InvalidInput, NotFound, SessionBusy, TooLarge
from agent_core.events import Event
from agent_core.messages import FILE_KINDS, MAX_FILE, Actor, File, FileObject, visible
from agent_core.objects import Page, SessionStatus
from agent_core.runtime.access import Forgotten
from agent_core.store.listing import Wanted
from app.api.body import BodyRoute
from app.api.deps import (
    MAX_SEQ,
    NAMED,
    PERSONS,
    After,
    Caller,
    Cursor,
    Deciding,
    Limit,
    Name,
    Operator,
    OwnSession,
    Services,
    Show,
    Wired,
    agent_for,
    known,
    origin_of,
    owns,
    seat_of,
    sender,
)
from app.api.deps import file as as_file
from app.api.problems import NOT_BLANK, answers, reference
from app.api.requests import (
    MAX_VISITORS_METADATA,
    BranchBody,
    ForkBody,
    Overlap,
    PostBody,
    ReplyBody,
    SessionBody,
    TitleBody,
    actor_of,
)
from app.api.sse import SSE, open_stream
from app.api.wire import (
    Feedback,
    Message,
    OwnConversation,
    Posted,
    Session,
    StoredFile,
    answer,
    copied,
    message_wire,
    page,
    posted,
    rfc3339,
    session_wire,
)
from channels.web.identity import OPERATOR, Principal
from channels.web.settings import WebFiles, files_for, settings_of

FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "session": {"type": "string", "minLength": 1, "maxLength": 200},
                    },
                }
            }
        },
    }
}
"""The body for OpenAPI."""
AROUND = 16_384
"""Bytes of a form besides its file: boundaries, headers, the field `session`."""
_MAX_FIELD = 1_000
_MAX_ID = 200


@dataclass(frozen=True, slots=True)
class SentForm:
    """A form: a file under a name, of the type that its sender says, and the session that it is meant for."""

    file: UploadFile
    name: str
    declared: str | None
    session: str | None

    async def data(self, most: int) -> bytes:
        """Return the file's bytes; raises `TooLarge` when they are more than *most*."""
        if (self.file.size or 0) > most:
            raise TooLarge("file", f"at most {most:,} bytes.")
        return await self.file.read()


@asynccontextmanager
async def sent_form(request: Request, most: int) -> AsyncIterator[SentForm]:
    """Read the form that *request* sends, of *most* bytes and what is around them, and delete it at the end.

    Raises `InvalidInput`, `TooLarge`, and what receiving raises.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise InvalidInput("file", "send a form, `multipart/form-data`, with the file in the field `file`.")
    stream = _bounded(request, most + AROUND, most)
    parser = MultiPartParser(request.headers, stream, max_files=1, max_fields=1, max_part_size=_MAX_FIELD)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise InvalidInput("file", f"the form cannot be read: {error.message}") from None
    except ClientDisconnect:
        raise InvalidInput("file", "the form did not arrive whole.") from None
    try:
        yield _form(list(form.multi_items()))
    finally:
        await form.close()


async def _bounded(request: Request, most: int, file: int) -> AsyncGenerator[bytes]:
    """Yield the body as it arrives; raises `TooLarge` after *most* bytes, for a *file* of so many."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise TooLarge("file", f"at most {file:,} bytes.")
        yield chunk


def _form(fields: list[tuple[str, str | UploadFile]]) -> SentForm:
    values = dict(fields)
    if strange := next((name for name in values if name not in ("file", "session")), None):
        raise InvalidInput(visible(strange)[:100], "there is no such field; a form has `file`, and may have `session`.")
    file, session = values.get("file"), values.get("session")
    if not isinstance(file, UploadFile):
        raise InvalidInput("file", "send a file, with a file name.")
    if session is not None and (not isinstance(session, str) or not 0 < len(session) <= _MAX_ID or "\0" in session):
        raise InvalidInput("session", f"the id of a session, of 1 to {_MAX_ID} characters.")
    return SentForm(file, file.filename or "", file.content_type, session)


OPERATORS = WebFiles(max_bytes=MAX_FILE, max_count=20)
"""What operators may send, to any agent."""
INERT = {"Content-Security-Policy": "sandbox; default-src 'none'"}
_ID = re.compile(r"file_[\w-]{1,40}", re.ASCII)
_SAME = {304: {"description": "Not Modified"}}
uploads_router = APIRouter(prefix="/v1/files", tags=["files"])


async def allowed_files(principal: Principal, wired: Services) -> WebFiles:
    """Return which files the caller may send; raises `Forbidden` when they are none."""
    if principal.agent is None:
        return OPERATORS
    web = settings_of((await wired.core.agents.get(principal.agent)).definition)
    files = files_for(web, anonymous=principal.is_anonymous)
    if files is None:
        who = " of visitors whom no site names" if web.files is not None else ""
        raise Forbidden(f"This agent takes no files{who}.")
    return files


@uploads_router.post(
    "",
    status_code=201,
    responses=answers(StoredFile, 400, 401, 403, 404, 413, 422, 429, status=201),
    openapi_extra=FORM,
)
async def send_file(request: Request, wired: Wired, principal: Caller) -> Response:
    """Take a file in, in the field `file` of a form; it waits a day for the message that names it in `files`.

    Its type is found out from its bytes, images are encoded again, and of documents the text is read. With `session`
    it belongs to that conversation from now on.
    """
    allowed = await allowed_files(principal, wired)
    async with sent_form(request, allowed.max_bytes) as form:
        if form.session is not None and not owns(principal, await wired.core.session(form.session)):
            raise NotFound("session", form.session)
        file = await wired.core.files.add(
            await form.data(allowed.max_bytes),
            name=form.name,
            declared=form.declared,
            accept=allowed.types,
            actor=principal.actor,
            origin=origin_of(request),
            agent=principal.agent,
            session=form.session,
        )
    return answer(copied(file, StoredFile), 201)


async def own_file(id: str, wired: Wired, principal: Caller) -> FileObject:
    """Return the file *id*; to a visitor only one that they sent, or that one of their own sessions has."""
    if not _ID.fullmatch(id):
        raise NotFound("file", id)
    for each in await wired.core.files.find(id):
        if await _may_read(wired, principal, each):
            return each
    raise NotFound("file", id)


_BYTES = {200: {"description": "OK", "content": {mime: {"schema": reference("File")} for mime in FILE_KINDS}}}


@uploads_router.get("/{id}", response_class=Response, responses=answers("File", 401, 403, 404, 422) | _SAME | _BYTES)
async def get_file(request: Request, wired: Wired, file: Annotated[FileObject, Depends(own_file)]) -> Response:
    """Download a file as it is kept."""
    tag = f'"{file.id}"'  # a file never changes
    if (same := known(request, tag)) is not None:
        return same
    response = as_file(await wired.core.files.data(file), file.mime, tag, attached=file.name)
    response.headers.update(INERT)
    return response


async def parts_of(wired: Services, principal: Principal, ids: Sequence[str], session: str | None) -> tuple[File, ...]:
    """Return the parts that name the files *ids* in a message to *session*, None for a new one.

    Raises `Forbidden`, `InvalidInput` for what the caller may not send there.
    """
    if not ids:
        return ()
    allowed = await allowed_files(principal, wired)
    if len(ids) > allowed.max_count:
        raise InvalidInput("files", f"at most {allowed.max_count} files with one message.")
    if len(set(ids)) < len(ids):
        raise InvalidInput("files", "names a file twice.")
    return tuple([await _part(wired, principal, id, n, session) for n, id in enumerate(ids)])


async def _part(wired: Services, principal: Principal, id: str, n: int, session: str | None) -> File:
    try:
        parts = await wired.core.files.find(id) if _ID.fullmatch(id) else ()
    except NotFound:
        parts = ()
    for each in parts:
        is_here = each.session is not None and each.session == session
        if not principal.visitor or is_here or _sent(principal, each):
            return each.part
    raise InvalidInput(f"files[{n}]", f"there is no file `{id[:60]}` here; send it first: POST /v1/files.")


async def _may_read(wired: Services, principal: Principal, file: FileObject) -> bool:
    if not principal.visitor:
        return True
    if file.session is None:
        return _sent(principal, file)
    return owns(principal, await wired.core.session(file.session))


def _sent(principal: Principal, file: FileObject) -> bool:
    """Return whether the visitor *principal* sent *file*, which is in no session that is barred to them."""
    is_theirs = file.actor_kind in PERSONS and file.actor == principal.actor.id and file.agent == principal.agent
    return is_theirs and file.session not in principal.barred


# ruff: noqa: FAST003 - the path's `id` is taken by the dependencies that find what it names


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


# ruff: noqa: FAST003 - the path's `id` is taken by the dependencies that find what it names


conversations_router = APIRouter(prefix="/v1/web/conversations", tags=["web"], route_class=BodyRoute)


@conversations_router.get("", responses=answers(Page[OwnConversation], 400, 401, 403, 404, 422, 429))
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
    return page(listed, OwnConversation)


@conversations_router.get("/{id}/feedback", responses=answers(Page[Feedback], 400, 401, 403, 404, 422))
async def list_ratings(wired: Wired, principal: Caller, session: OwnSession) -> Response:
    """List the caller's own ratings of a conversation's answers, the newest first, 500 at most."""
    return page(await wired.core.conversations.ratings(session.id, principal.actor), Feedback)


@conversations_router.patch("/{id}", responses=answers(OwnConversation, 400, 401, 403, 404, 413, 422))
async def rename_conversation(wired: Wired, session: OwnSession, body: TitleBody) -> Response:
    """Give a conversation another title."""
    return answer(copied(await wired.core.conversations.rename(session.id, body.title), OwnConversation))


@conversations_router.delete("/{id}", status_code=204, responses=answers(None, 401, 403, 404, 409, 422, status=204))
async def delete_conversation(wired: Wired, principal: Caller, session: OwnSession) -> Response:
    """Delete a conversation, with those that it goes on from; what is being answered is stopped first."""
    try:
        await wired.core.conversations.remove(session.id, by=principal.actor)
    except SessionBusy:
        raise SessionBusy("The answer is still being stopped; delete the conversation again in a moment.") from None
    return Response(status_code=204)


@conversations_router.post(
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


actors_router = APIRouter(tags=["actors"])
ActorId = Annotated[str, Path(description="A person's id, whatever it contains.", min_length=1, max_length=200)]


@actors_router.delete(
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
