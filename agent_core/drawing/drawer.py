"""Draws charts in a process of its own, which is bounded in time and memory, without sockets and files but fonts."""

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from agent_core.clock import Clock, SystemClock
from agent_core.confined.fairness import FairQueue, OwnerBarred, QueueFull
from agent_core.confined.process import ConfinedProcess, ProcessLost, ProcessUnavailable, TooMuch
from agent_core.drawing.errors import DrawingFailed, DrawingUnavailable, reported
from agent_core.drawing.finished import FinishedDrawings
from agent_core.drawing.renderer import MAX_JOB

__all__ = ["Drawer", "DrawingBounds", "DrawingFailed", "DrawingUnavailable"]
_MEGABYTE = 1 << 20
_MAX_SCALE = 4.0
_WORKER = Path(__file__).with_name("renderer.py")
_LESS = "draw fewer rows, marks or categories, or aggregate the data first"


@dataclass(frozen=True, slots=True)
class DrawingBounds:
    """What drawing may take.

    *processes* draw side by side, and *waiting* jobs wait for them, few of one owner. A job has *seconds*; a process
    that holds more than *resident* megabytes meanwhile, or allocates more than *allocated*, is killed. It is replaced
    after *jobs* and ended when *idle* seconds pass without one. Finished drawings take *cache* bytes at most.
    """

    processes: int = 1
    waiting: int = 32
    seconds: float = 5.0
    resident: int = 512
    allocated: int = 1024
    jobs: int = 200
    idle: float = 60.0
    cache: int = 16 * _MEGABYTE


BOUNDS = DrawingBounds()


class _Drawing:
    """One drawing that is asked for, by *wanted* callers at this moment; *owner* was the first of them."""

    def __init__(self, message: bytes, owner: str, done: asyncio.Future[bytes]) -> None:
        self.message, self.owner, self.done, self.wanted = message, owner, done, 0


class Drawer:
    """Draws Vega-Lite as PNG and SVG; every method raises DrawingFailed when there is no drawing.

    The process starts at the first use. A job that fails is never tried again by itself. *owner* is for whom a chart
    is drawn, such as a session: owners take turns, see `fairness`. The drawer may be used from
    one event loop after another, and after a fork: each begins with processes of its own. Tests pass a *clock*.
    """

    def __init__(self, bounds: DrawingBounds = BOUNDS, *, clock: Clock | None = None) -> None:
        self._bounds, self._clock = bounds, clock or SystemClock()
        self._finished = FinishedDrawings(bounds.cache, self._clock)
        self._room: _Room | None = None

    async def png(self, spec: Mapping[str, Any], *, scale: float = 2.0, dark: bool = False, owner: str = "") -> bytes:
        """Return *spec* drawn on white, or on a dark background; *scale* is in pixels per unit, up to 4.

        A chart that would have too many pixels is drawn at a smaller scale, down to 1, before it is refused.
        """
        return await self._draw(spec, "png", scale=scale, dark=dark, owner=owner)

    async def svg(self, spec: Mapping[str, Any], *, dark: bool = False, owner: str = "") -> bytes:
        """Return *spec* drawn as SVG in UTF-8 without a background, in the colours of a light or a dark page."""
        return await self._draw(spec, "svg", dark=dark, owner=owner)

    async def check(self, spec: Mapping[str, Any], *, owner: str = "") -> None:
        """Compile and measure *spec* without drawing it."""
        await self._draw(spec, "check", owner=owner)

    async def close(self) -> None:
        """End all processes; who waits for a drawing gets DrawingUnavailable."""
        room, self._room = self._room, None
        if room is not None and room.is_here():
            await room.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the ids of the processes there are now."""
        return self._room.pids if self._room is not None else ()

    async def _draw(
        self,
        spec: Mapping[str, Any],
        form: Literal["png", "svg", "check"],
        *,
        owner: str,
        scale: float = 2.0,
        dark: bool = False,
    ) -> bytes:
        if not 0 < scale <= _MAX_SCALE:
            raise DrawingFailed(f"The scale of a drawing is more than 0 and at most {_MAX_SCALE:g}.")
        message = _written({"form": form, "spec": dict(spec), "scale": scale, "dark": dark})
        digest = sha256(message).digest()
        drawing = self._finished.get(digest)
        if drawing is not None:
            return drawing
        if self._room is None or not self._room.is_here():
            if self._room is not None:
                self._room.abandon()
            self._room = _Room(self._bounds, self._clock, self._finished)
        return await self._room.draw(digest, message, owner)


class _Room:
    """The processes and jobs of one event loop."""

    def __init__(self, bounds: DrawingBounds, clock: Clock, finished: FinishedDrawings) -> None:
        self._bounds, self._clock, self._finished = bounds, clock, finished
        self._loop, self._parent = asyncio.get_running_loop(), os.getpid()
        self._jobs: dict[bytes, _Drawing] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._queue = FairQueue(bounds.processes, bounds.waiting, clock)
        self._free: list[ConfinedProcess] = []
        self._busy: set[ConfinedProcess] = set()
        self._idling: asyncio.Task[None] | None = None

    def is_here(self) -> bool:
        """Return whether it belongs to the event loop and the process that ask."""
        return self._loop is asyncio.get_running_loop() and self._parent == os.getpid()

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(each.pid for each in (*self._free, *self._busy) if each.alive)

    def abandon(self) -> None:
        """End what belonged to an event loop that is not this one; a fork leaves its parent's processes alone."""
        for process in (*self._free, *self._busy):
            process.abandon(inherited=self._parent != os.getpid())

    async def draw(self, digest: bytes, message: bytes, owner: str) -> bytes:
        """Return what the job of *message* gives; several callers of one job share it."""
        job = self._jobs.get(digest)
        if job is None:
            with _in_words():
                self._queue.enter(owner)
            job = self._jobs[digest] = _Drawing(message, owner, self._loop.create_future())
            task = self._loop.create_task(self._work(digest, job))
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        job.wanted += 1
        try:
            # A caller that goes away neither ends the job of others nor leaves half an answer in the pipe.
            return await asyncio.shield(job.done)
        finally:
            job.wanted -= 1

    async def close(self) -> None:
        """End all that runs here."""
        tasks = [*self._working, *([self._idling] if self._idling else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end_free()
        await asyncio.gather(*self._ending)

    async def _work(self, digest: bytes, job: _Drawing) -> None:
        try:
            async with self._queue.place(job.owner):
                with _in_words():
                    if not job.wanted:
                        return
                    self._queue.check(job.owner)
                    drawing = await self._on_a_process(job)
                self._finished.put(digest, drawing)
                job.done.set_result(drawing)
        except DrawingFailed as error:
            if not isinstance(error, DrawingUnavailable):
                self._finished.put_failure(digest, error)
            job.done.set_exception(error)
            job.done.exception()  # the callers may have gone: that is no error of the event loop
        finally:
            del self._jobs[digest]
            self._queue.leave(job.owner)
            if not job.done.done():
                job.done.set_exception(DrawingUnavailable("Drawing has ended, since the server stops."))
                job.done.exception()

    async def _on_a_process(self, job: _Drawing) -> bytes:
        process, usable = await self._take(), False
        self._busy.add(process)
        try:
            ok, body = await self._bounded(process, job)
            usable = process.taken < self._bounds.jobs
        finally:
            if not usable:
                await asyncio.shield(self._end(process))
            self._busy.discard(process)
            if usable:
                self._give_back(process)
        if not ok:
            raise reported(body.decode("utf-8", "replace"))
        return body

    async def _take(self) -> ConfinedProcess:
        """Return a process that is free, or a new one."""
        if self._idling is not None:
            self._idling.cancel()
            self._idling = None
        while self._free:
            process = self._free.pop()
            if process.alive:
                return process
            process.abandon(inherited=False)
        return await ConfinedProcess.start(_WORKER, self._bounds.allocated)

    def _give_back(self, process: ConfinedProcess) -> None:
        self._free.append(process)
        if self._idling is None and not self._busy:
            self._idling = self._loop.create_task(self._idle())

    async def _idle(self) -> None:
        """End the processes when no job comes for a while."""
        await self._clock.sleep(self._bounds.idle)
        self._idling = None
        self._end_free()

    def _end_free(self) -> None:
        while self._free:
            self._end(self._free.pop())

    def _end(self, process: ConfinedProcess) -> asyncio.Task[None]:
        """End *process* in a task that outlives who asked for it: a process that is not waited for stays a zombie."""
        task = self._loop.create_task(process.kill())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _bounded(self, process: ConfinedProcess, job: _Drawing) -> tuple[bool, bytes]:
        """Return what *process* says to the job; raise DrawingFailed when it takes too much, or dies of it."""
        bounds = self._bounds
        try:
            return await process.work(job.message, self._clock, seconds=bounds.seconds, resident=bounds.resident)
        except TooMuch as excess:
            self._queue.killed(job.owner)
            raise DrawingFailed(f"The drawing takes {excess}; {_LESS}.") from None
        except ProcessLost:
            self._queue.killed(job.owner)
            raise DrawingFailed(f"The drawing takes too much memory, or cannot be drawn at all; {_LESS}.") from None


@contextmanager
def _in_words() -> Generator[None]:
    """Raise DrawingUnavailable where the block raises what the queue and the process say."""
    try:
        yield
    except QueueFull:
        raise DrawingUnavailable("Too many drawings wait already; ask again in a few seconds.") from None
    except OwnerBarred:
        raise DrawingUnavailable(
            "Two charts from here took too long or too much within a minute; ask again in a minute, "
            "and draw fewer rows, marks or categories."
        ) from None
    except ProcessUnavailable as error:
        raise DrawingUnavailable(f"The drawing process {error}") from None


def _written(job: dict[str, Any]) -> bytes:
    try:
        message = msgspec.json.encode(job)
    except (TypeError, ValueError, RecursionError) as error:
        raise DrawingFailed(f"The chart is no JSON: {str(error)[:200]}.") from None
    if len(message) > MAX_JOB:
        raise DrawingFailed(f"The chart has {len(message):,} bytes, and at most {MAX_JOB:,} are drawn; {_LESS}.")
    return message
