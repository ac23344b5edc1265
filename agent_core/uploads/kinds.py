"""What a file is: by its bytes where they say it, else by its name, and never by what alone the sender says. Pure."""

from typing import Any

import filetype  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from agent_core.errors import InvalidInput
from agent_core.messages import FILE_KINDS, MAX_FILE_TEXT, clean, kind_of_name

_ZIP = "application/zip"
_SAME: dict[str, str] = {"image/apng": "image/png"}
_HEAD = 8_192
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\b"))


def kind_of(data: bytes, name: str, declared: str | None) -> str:
    """Return the MIME type of a file of `FILE_KINDS`; raises `InvalidInput` for what is none of them.

    *declared* is what the sender says: it decides among texts whose *name* has no ending.
    """
    if not data:
        raise InvalidInput("file", "is empty; send a file that holds something.")
    guess: Any = filetype.guess(data[:_HEAD])  # pyright: ignore[reportUnknownMemberType]
    mime: str = "" if guess is None else _SAME.get(guess.mime, guess.mime) or ""
    named = kind_of_name(name)
    if mime in FILE_KINDS:
        return mime
    if mime == _ZIP and named is not None and FILE_KINDS[named].reading in ("docx", "sheet"):
        return named
    wanted = named or ("" if "." in name.strip(".") else (declared or "").partition(";")[0].strip().lower())
    if not mime and wanted in FILE_KINDS and FILE_KINDS[wanted].reading == "text":
        return wanted
    if named is not None:
        raise InvalidInput("file", f"`{clean(name)[:100]}` does not hold what its name says.")
    raise InvalidInput("file", f"`{clean(name)[:100]}` is of a type that cannot be sent.")


def least_kept(data: bytes, mime: str) -> int:
    """Return of how many bytes at least the file *data* will be once it is read: an image may become a small one."""
    match FILE_KINDS[mime].reading:
        case "image":
            return 1
        case "text":
            return max(1, len(data) // 2 - 1)  # UTF-16 becomes UTF-8, without its mark
        case _:
            return len(data)


def text_in(data: bytes, mime: str) -> str:
    """Return the text of a text file; raises `InvalidInput` for bytes that are none."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decoded(data, "utf-16")
    if data.translate(None, _CONTROLS) != data:
        raise InvalidInput("file", "is no text, though its name says so.")
    try:
        text = _decoded(data, "utf-8-sig")
    except InvalidInput:
        text = _decoded(data, "cp1252")  # what spreadsheets on Windows still write
    if mime == "application/json":
        try:
            msgspec.json.decode(text, type=msgspec.Raw)  # its syntax: objects would take 25 times the memory
        except (msgspec.MsgspecError, RecursionError):
            raise InvalidInput("file", "is no JSON, though its name says so.") from None
    return text


def shown(text: str) -> str | None:
    """Return the beginning of a *text* that is too long for a model; None when it is short enough."""
    if len(text) <= MAX_FILE_TEXT:
        return None
    return f"{text[:MAX_FILE_TEXT]}\n[The rest is left out: these are {MAX_FILE_TEXT:,} of {len(text):,} characters.]"


def _decoded(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise InvalidInput("file", "is no text that can be read; save it as UTF-8.") from None
