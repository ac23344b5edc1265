"""Forms with a file, as they arrive: bounded before they are parsed, and kept on disk beyond a megabyte."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from agent_core import InvalidInput, TooLarge
from agent_core.messages import visible

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
