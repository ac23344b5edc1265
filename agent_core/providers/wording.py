"""What the wires' encoders share: files, names, and the cached start of a request."""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec.structs import replace

from agent_core.agents import Snapshot
from agent_core.messages import File, Message, Part, Text, ToolResult, is_text, is_whole, mime_of
from agent_core.providers.base import Encode, Files

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"
UNSEEN = "a picture, and this model cannot see pictures"
"""Why a note stands for a picture."""
ANSWER = "answer"
"""The name of an output schema, which the APIs require."""
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_STARTS = 64


class Readable(NamedTuple):
    """A file that a model reads as it is; each wire has its own form for it."""

    kind: Literal["image", "pdf"]
    mime: str
    data: bytes
    name: str

    @property
    def url(self) -> str:
        """Return the bytes as a data URL."""
        return f"data:{self.mime};base64,{base64.b64encode(self.data).decode()}"


def readable(parts: Iterable[Part], files: Files, *, pdfs: bool = True) -> Iterator[Readable | str]:
    """Yield what a model is shown of *parts*: files and text, without blank text, which the APIs refuse.

    Without *pdfs* their text stands for them, where there is one.
    """
    for part in parts:
        if isinstance(part, Text) and part.text.strip():
            yield part.text
        elif isinstance(part, File):
            if part.text is not None and not (pdfs and is_whole(part)):
                yield _text(part, files.get(part.text))
            else:
                yield _file(part, files.get(part.file))


def _text(file: File, data: bytes | None) -> str:
    """Return the text that stands for *file*."""
    if data is None:
        return note(file, "it is no longer stored")
    return f"[File {file.name}]\n{data.decode(errors='replace')}"


def _file(file: File, data: bytes | None) -> Readable | str:
    """Return the bytes of *file*, its text, or a note that says why there is neither."""
    mime = mime_of(file)
    if data is None:
        return note(file, "it is no longer stored")
    if not data:
        return note(file, "it is empty")
    if mime in _IMAGES or mime == _PDF:
        return Readable("pdf" if mime == _PDF else "image", mime, data, file.name)
    if is_text(file):
        return _text(file, data)
    return note(file, "files of this type cannot be read")


@lru_cache(maxsize=256)
def blind(encode: Encode) -> Encode:
    """Return *encode* for a model that sees no pictures, the same for the same: the name and size stand for each."""

    def encode_blind(message: Message, files: Files) -> bytes:
        return encode(_without_pictures(message) if message.role != "assistant" else message, files)

    return encode_blind


def _without_pictures(message: Message) -> Message:
    parts = tuple(map(_unseen, message.parts))
    return message if parts == message.parts else replace(message, parts=parts)


def _unseen(part: Part) -> Part:
    match part:
        case File() if mime_of(part) in _IMAGES and part.text is None:
            return Text(note(part, UNSEEN))
        case ToolResult():
            return replace(part, parts=tuple(map(_unseen, part.parts)))
        case _:
            return part


def note(file: File, why: str) -> str:
    """Return the text that replaces *file* where it cannot be shown."""
    return f"[File {file.name} ({file.mime}, {file.size} bytes): {why}]"


def plain_name(name: str, limit: int) -> str:
    """Return *name* as the APIs take it, with up to *limit* characters: a model may have called a tool by any name."""
    return _OTHER.sub("_", name)[:limit] or "unnamed"


def joined(start: bytes, wires: Iterable[bytes], end: bytes) -> bytes:
    """Return *start*, the *wires* that are not empty with commas between them, and *end*.

    A conversation may be megabytes, so it is copied once; a comma comes first unless *start* opens the list.
    """
    pieces = [start]
    for wire in wires:
        if wire:
            pieces += (b",", wire)
    if start.endswith(b"[") and len(pieces) > 1:
        del pieces[1]
    pieces.append(end)
    return b"".join(pieces)


class RewrittenEntry(NamedTuple):
    """A message of the window with another request JSON than it was given, for a server that refused that."""

    message: Message
    wire: bytes


class Starts:
    """The starts of requests, made once per snapshot and its cache marks; the least recently used one is dropped."""

    def __init__(self, make: Callable[..., bytes]) -> None:
        self._make = make
        self._made: dict[tuple[object, ...], bytes] = {}

    def of(self, snapshot: Snapshot, *marks: object) -> bytes:
        """Return the start of a request with *snapshot* and *marks*, what else the maker takes."""
        key = (snapshot.hash, *marks)
        start = self._made.pop(key, None)
        self._made[key] = start = self._make(snapshot, *marks) if start is None else start
        if len(self._made) > _STARTS:
            del self._made[next(iter(self._made))]
        return start
