"""Routes of files that people send: taken in before the message that they belong to, and given back as kept."""

import re
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from agent_core import FILE_KINDS, MAX_FILE, File, FileObject, Forbidden, InvalidInput, NotFound
from app.api.bodies.forms import FORM, sent_form
from app.api.bodies.stored import StoredFile, file_wire
from app.api.bodies.wire import answer
from app.api.deps import PERSONS, Caller, Services, Wired, origin_of, owns
from app.api.files import file as as_file
from app.api.files import known
from app.api.problems import answers, reference
from channels.web.identity import Principal
from channels.web.settings import WebFiles, files_for, settings_of

OPERATORS = WebFiles(max_bytes=MAX_FILE, max_count=20)
"""What operators may send, to any agent."""
INERT = {"Content-Security-Policy": "sandbox; default-src 'none'"}
_ID = re.compile(r"file_[\w-]{1,40}", re.ASCII)
_SAME = {304: {"description": "Not Modified"}}
router = APIRouter(prefix="/v1/files", tags=["files"])


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


@router.post(
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
    return answer(file_wire(file), 201)


async def own_file(id: str, wired: Wired, principal: Caller) -> FileObject:
    """Return the file *id*; to a visitor only one that they sent, or that one of their own sessions has."""
    if not _ID.fullmatch(id):
        raise NotFound("file", id)
    for each in await wired.core.files.find(id):
        if await _may_read(wired, principal, each):
            return each
    raise NotFound("file", id)


_BYTES = {200: {"description": "OK", "content": {mime: {"schema": reference("File")} for mime in FILE_KINDS}}}


@router.get("/{id}", response_class=Response, responses=answers("File", 401, 403, 404, 422) | _SAME | _BYTES)
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
