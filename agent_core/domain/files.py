"""Files that people send: which kinds there are, how large they may be, and their names. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from agent_core.domain.messages import File, visible

MAX_FILE = 25_000_000
"""Bytes of a file, whatever an agent allows."""
MAX_FILES = 20
"""Files of one message."""
MAX_FILE_NAME = 200
"""Characters of a file's name."""
KEPT_FOR = 86_400_000
"""Milliseconds for which a file waits for a message that takes it."""
MAX_PDF_BYTES, MAX_PDF_PAGES = 5_000_000, 100
"""Of a PDF that models are sent as it is: all vendors take that, and several fit into one request."""
MAX_FILE_TEXT = 100_000
"""Characters of a file that models are shown: as many as a message may have."""
Reading = Literal["image", "pdf", "docx", "sheet", "text"]
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_SHEET = "application/vnd.oasis.opendocument.spreadsheet"


class FileKind(msgspec.Struct, frozen=True):
    """One type of files: the *endings* of its names, the first of which it gets, and how it is read."""

    endings: tuple[str, ...]
    reading: Reading


FILE_KINDS: Mapping[str, FileKind] = MappingProxyType(
    {
        "image/png": FileKind(("png",), "image"),
        "image/jpeg": FileKind(("jpg", "jpeg"), "image"),
        "image/webp": FileKind(("webp",), "image"),
        "image/gif": FileKind(("gif",), "image"),
        "application/pdf": FileKind(("pdf",), "pdf"),
        _WORD: FileKind(("docx",), "docx"),
        _EXCEL: FileKind(("xlsx",), "sheet"),
        _SHEET: FileKind(("ods",), "sheet"),
        "text/plain": FileKind(("txt", "log"), "text"),
        "text/csv": FileKind(("csv",), "text"),
        "text/markdown": FileKind(("md", "markdown"), "text"),
        "application/json": FileKind(("json",), "text"),
    }
)
"""What may be sent, by MIME type. Not SVG and not HTML, which are programs where they are opened."""
_FORBIDDEN = frozenset('/\\:*?"<>|')


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A File: one that a person sent. *session* is where it is, None until a message or its sender says that."""

    id: str
    name: str
    mime: str
    size: int
    session: str | None
    created_at: int
    agent: str | None
    actor: str
    actor_kind: str
    text: str | None = None
    pages: int | None = None

    @property
    def part(self) -> File:
        """Return the part of a message that names the file."""
        return File(self.id, self.name, self.mime, self.size, self.text, self.pages)


def is_whole(file: File) -> bool:
    """Return whether models that take files are sent *file*, of which there is a text, as it is."""
    return file.mime == "application/pdf" and file.size <= MAX_PDF_BYTES and (file.pages or 0) <= MAX_PDF_PAGES


def mime_of(file: File) -> str:
    """Return the type of *file* in small letters, without parameters."""
    return file.mime.partition(";")[0].strip().lower()


def is_text(file: File) -> bool:
    """Return whether models are shown the bytes of *file* as text."""
    return mime_of(file).startswith("text/") or mime_of(file) == "application/json"


def kind_of_name(name: str) -> str | None:
    """Return the MIME type that a file's *name* says by its ending."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    return next((mime for mime, kind in FILE_KINDS.items() if ending in kind.endings), None)


def clean_name(name: str, mime: str) -> str:
    """Return *name* without paths, controls and what systems take for more than a name, with an ending of *mime*."""
    last = visible(name).replace("\\", "/").rpartition("/")[2]
    cleaned = " ".join("".join(" " if each in _FORBIDDEN or not each.isprintable() else each for each in last).split())
    stem, _, ending = cleaned.strip(". ").rpartition(".")
    endings, other = FILE_KINDS[mime].endings, kind_of_name(ending and f"x.{ending}")
    if stem and other is not None and FILE_KINDS[other].reading == FILE_KINDS[mime].reading == "image":
        ending = ending if other == mime else endings[0]  # an image that was encoded in another format
    elif not stem or ending.lower() not in endings:
        stem, ending = cleaned, endings[0]
    stem = stem[: MAX_FILE_NAME - len(ending) - 1].strip(". ")
    return f"{stem or 'file'}.{ending.lower()}"
