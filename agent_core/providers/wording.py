"""What the wires have in common when they put a message into words: files, names, and starts that are made once."""

import base64
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from agent_core.agents import Snapshot
from agent_core.messages import File

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"
ANSWER = "answer"
"""The name under which a schema of answers is sent: the APIs want one."""
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_STARTS = 64


class Readable(NamedTuple):
    """Bytes that a model reads by itself; each wire has its own form for them."""

    kind: Literal["image", "pdf"]
    mime: str
    data: bytes

    @property
    def url(self) -> str:
        """Return the bytes as a data URL."""
        return f"data:{self.mime};base64,{base64.b64encode(self.data).decode()}"


def readable(file: File, data: bytes | None) -> Readable | str:
    """Return what a model is shown of *file*: its bytes, its text, or a note that says why there is neither."""
    mime = file.mime.partition(";")[0].strip().lower()
    if data is None:
        return note(file, "it is no longer stored")
    if not data:
        return note(file, "it is empty")
    if mime in _IMAGES or mime == _PDF:
        return Readable("pdf" if mime == _PDF else "image", mime, data)
    if mime.startswith("text/"):
        return f"[File {file.name}]\n{data.decode(errors='replace')}"
    return note(file, "files of this type cannot be read")


def note(file: File, why: str) -> str:
    """Return what stands in the place of *file* where it cannot be shown."""
    return f"[File {file.name} ({file.mime}, {file.size} bytes): {why}]"


def plain_name(name: str, most: int) -> str:
    """Return *name* as the APIs take it, with up to *most* characters: a model may have called a tool by any name."""
    return _OTHER.sub("_", name)[:most] or "unnamed"


class Starts:
    """The starts of requests, made once per snapshot; the one used longest ago is let go."""

    def __init__(self, make: Callable[[Snapshot], bytes]) -> None:
        self._make = make
        self._made: dict[str, bytes] = {}

    def of(self, snapshot: Snapshot) -> bytes:
        """Return the start of a request with *snapshot*."""
        start = self._made.pop(snapshot.hash, None)
        self._made[snapshot.hash] = start = self._make(snapshot) if start is None else start
        if len(self._made) > _STARTS:
            del self._made[next(iter(self._made))]
        return start
