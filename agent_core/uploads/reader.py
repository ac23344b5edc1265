"""Reads what people send: what it is, whether it may be kept, and what a model can be shown of it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from agent_core.clock import Clock, SystemClock
from agent_core.confined.fairness import FairQueue, OwnerBarred, QueueFull
from agent_core.confined.process import ConfinedProcess, ProcessLost, ProcessUnavailable, TooMuch
from agent_core.errors import InvalidInput, RateLimited, Unavailable
from agent_core.messages import FILE_KINDS, clean_name, visible
from agent_core.uploads.kinds import shown, text_in

_WORKER = Path(__file__).with_name("worker.py")
_RETRY_AFTER, _BARRED_FOR = 5, 60


class FileCheck(Protocol):
    """Asks whether a file may be kept, such as a scanner for viruses."""

    async def refusal(self, data: bytes) -> str | None:
        """Return what is wrong with the file; None when nothing is. Raises `Unavailable` if that cannot be said."""
        ...


@dataclass(frozen=True, slots=True)
class ReadingBounds:
    """What reading may take: *processes* side by side, *waiting* files; see `DrawingBounds` for the rest."""

    processes: int = 2
    waiting: int = 32
    seconds: float = 15.0
    resident: int = 400
    allocated: int = 768


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

    def __init__(self, bounds: ReadingBounds | None = None, *, clock: Clock | None = None) -> None:
        self._bounds, self._clock = bounds or ReadingBounds(), clock or SystemClock()
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
        bounds = self._bounds
        process = await ConfinedProcess.start(_WORKER, bounds.allocated, reading)
        try:
            ok, body = await process.work(data, self._clock, seconds=bounds.seconds, resident=bounds.resident)
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
            self._queue = FairQueue(self._bounds.processes, self._bounds.waiting, self._clock)
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
