"""What a file is: by its bytes where they say it, else by its name, and never by what alone the sender says. Pure."""

import asyncio
import os
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import filetype  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from agent_core.clock import Clock, SystemClock
from agent_core.confined.fairness import FairQueue, OwnerBarred, QueueFull
from agent_core.confined.process import ConfinedProcess, ProcessLost, ProcessUnavailable, TooMuch
from agent_core.errors import InvalidInput, RateLimited, Unavailable
from agent_core.messages import FILE_KINDS, MAX_FILE_TEXT, clean, clean_name, kind_of_name, visible

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


_WORKER = Path(__file__).with_name("worker.py")
_RETRY_AFTER, _BARRED_FOR = 5, 60


class FileCheck(Protocol):
    """Asks whether a file may be kept, such as a scanner for viruses."""

    async def refusal(self, data: bytes) -> str | None:
        """Return what is wrong with the file; None when nothing is. Raises `Unavailable` if that cannot be said."""
        ...


_PROCESSES, _WAITING = 2, 32
"""Processes side by side, and files that wait for one."""
_READING_SECONDS, _RESIDENT, _ALLOCATED = 15.0, 400, 768
"""What reading one file may take: seconds, and megabytes that are held or allocated; see `DrawingBounds`."""


class ReadFile(msgspec.Struct, frozen=True):
    """A file as it is kept: its bytes, and the *text* that stands for it where a model does not take them."""

    name: str
    mime: str
    data: bytes
    text: str | None = None
    pages: int | None = None


class _About(msgspec.Struct):
    """What the process says of a file."""

    mime: str | None = None
    text: str | None = None
    pages: int | None = None


class FileReader:
    """Reads files, each in a process of its own: what breaks out of a decoder meets no file of another person.

    A *check* is asked about each file first. Files of one *owner* wait for each other, see `FairQueue`, for the check
    too. It may be used from one event loop after another.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.check: FileCheck | None = None
        self._queue: FairQueue | None = None
        self._place: tuple[asyncio.AbstractEventLoop, int] | None = None

    async def read(self, data: bytes, *, name: str, mime: str, owner: str) -> ReadFile:
        """Return the file, of the type *mime*, as it is to be kept.

        Raises `InvalidInput`, `RateLimited`, `Unavailable`.
        """
        queue, reading = self._queue_here(), FILE_KINDS[mime].reading
        async with _place_in(queue, owner):
            if self.check is not None and (why := await self.check.refusal(data)) is not None:
                raise InvalidInput("file", f"was refused by the check of files: {why}.")
            if reading == "text":
                return await asyncio.to_thread(_text, data, name, mime)
            about, made = await self._confined(data, reading, queue, owner)
        if made:
            data, mime = made, about.mime or mime
        return ReadFile(clean_name(name, mime), mime, data, about.text and visible(about.text), about.pages)

    async def _confined(self, data: bytes, reading: str, queue: FairQueue, owner: str) -> tuple[_About, bytes]:
        """Return what a process says of *data*, and the bytes that it made of it."""
        process = await ConfinedProcess.start(_WORKER, _ALLOCATED, reading)
        try:
            ok, body = await process.work(data, self._clock, seconds=_READING_SECONDS, resident=_RESIDENT)
        except (TooMuch, ProcessLost) as error:
            queue.killed(owner)
            what = str(error) or "too much memory"
            raise InvalidInput("file", f"takes {what} to be read; send a smaller or simpler one.") from None
        finally:
            await asyncio.shield(process.kill())
        if not ok:
            raise InvalidInput("file", body.decode("utf-8", "replace")[:400])
        about, _, made = body.partition(b"\n")
        return msgspec.json.decode(about, type=_About), made

    def _queue_here(self) -> FairQueue:
        here = asyncio.get_running_loop(), os.getpid()
        if self._queue is None or self._place != here:
            self._queue = FairQueue(_PROCESSES, _WAITING, self._clock)
            self._place = here
        return self._queue


@asynccontextmanager
async def _place_in(queue: FairQueue, owner: str) -> AsyncGenerator[None]:
    """Hold a place in *queue*; raises `RateLimited`, `Unavailable`."""
    try:
        queue.enter(owner)
        try:
            async with queue.place(owner):
                queue.check(owner)
                yield
        finally:
            queue.leave(owner)
    except QueueFull:
        raise RateLimited(
            "Too many files are read now; send it again in a moment.", _RETRY_AFTER, limit="files"
        ) from None
    except OwnerBarred:
        what = "Two files from here took too long or too much within a minute; send others in a minute."
        raise RateLimited(what, _BARRED_FOR, limit="files") from None
    except ProcessUnavailable as error:
        raise Unavailable(f"The process that reads files {error}") from None


def _text(data: bytes, name: str, mime: str) -> ReadFile:
    text = text_in(data, mime)
    return ReadFile(clean_name(name, mime), mime, text.encode(), shown(text))


_CHUNK = 65_536
_SECONDS = 30.0
_MAX_NAME = 100
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ClamdCheck:
    """Asks a clamd at *address*: `host:port`, or the path of its socket."""

    def __init__(self, address: str, *, seconds: float = _SECONDS) -> None:
        self._connect, self._seconds = _connector(address), seconds

    async def refusal(self, data: bytes) -> str | None:
        """Return the name of what clamd found in *data*; raises `Unavailable` when it does not say."""
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._ask(data)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            raise Unavailable("The check of files cannot be reached now; send the file again in a moment.") from None
        verdict = answer.decode("utf-8", "replace").partition("stream:")[2].strip("\0\n ")
        if verdict == "OK":
            return None
        if verdict.endswith(" FOUND"):
            return visible(verdict.removesuffix(" FOUND"))[:_MAX_NAME]
        raise Unavailable("The check of files gave no answer about this file; is it larger than clamd takes?")

    async def _ask(self, data: bytes) -> bytes:
        reader, writer = await self._connect()
        try:
            writer.write(b"zINSTREAM\0")
            for at in range(0, len(data), _CHUNK):
                chunk = data[at : at + _CHUNK]
                writer.write(struct.pack("!I", len(chunk)) + chunk)
                await writer.drain()
            writer.write(struct.pack("!I", 0))
            await writer.drain()
            return await reader.readuntil(b"\0")
        finally:
            writer.close()


def _connector(address: str) -> Callable[[], Awaitable[Connection]]:
    if address.startswith("/"):
        return lambda: asyncio.open_unix_connection(address)
    host, _, port = address.rpartition(":")
    return lambda: asyncio.open_connection(host.strip("[]"), int(port))
