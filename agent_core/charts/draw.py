"""Draws charts in a process of its own, which is bounded in time and memory, without sockets and files but fonts.

Where an operator wants it, QuickChart, another server, draws plain charts instead.
"""

import asyncio
import os
import re
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import msgspec

from agent_core.charts.renderer import MAX_JOB
from agent_core.charts.values import NUMERIC, PlainChart, PlainSeries
from agent_core.clock import Clock, SystemClock
from agent_core.confined.fairness import FairQueue, OwnerBarred, QueueFull
from agent_core.confined.process import ConfinedProcess, ProcessLost, ProcessUnavailable, TooMuch
from agent_core.errors import DrawingFailed, DrawingUnavailable
from agent_core.net.fetch import Bounds, Fetch, FetchFailed

_MAX_MESSAGE = 400
_STEPS = ("Vega-Lite to SVG conversion failed:", "Error:", "TypeError:", "RangeError:", "SyntaxError:")
_INTERNAL = ("Cannot read propert", "Cannot destructure", "Cannot set propert", "Cannot convert", "undefined")
_UNKNOWN = (
    "the renderer stopped without saying where{}. Simplify it: begin with `data`, one `mark` and the fields of "
    "`encoding`, without `config`, `scale`, `transform` and `resolve`, and add those one at a time."
)
_PLACE = re.compile(r"(?:\b[a-z]+:/|(?<![\w.<])/)[^\s\"']+|\bext:[^\s\"']+")


def reported(message: str) -> DrawingFailed:
    """Return the error for *message* of the renderer: its first line, bounded, without addresses and stacks."""
    text = message.split("\n    at ", maxsplit=1)[0]
    for step in _STEPS:
        text = text.strip().removeprefix(step)
    text = _PLACE.sub("…", text.strip().partition("\n")[0])
    text = "".join(each for each in text if each.isprintable())[:_MAX_MESSAGE]
    if not text or text.startswith(_INTERNAL) or "is not a function" in text:
        # What is wrong is somewhere in the specification: a cause that is guessed sends a model the wrong way.
        return DrawingFailed(f"The chart cannot be drawn: {_UNKNOWN.format(f' ({text})' if text else '')}")
    return DrawingFailed(f"The chart cannot be drawn: {text}.".replace("..", "."))


_OVERHEAD = 200
_FAILED_FOR = 60_000
"""Milliseconds for which a chart that failed is not tried again: it would hold the process from others each time."""


class FinishedDrawings:
    """The drawings used last, by the digest of their job, up to *size* bytes; failures for a minute."""

    def __init__(self, size: int, clock: Clock) -> None:
        self._size, self._clock = size, clock
        self._kept: OrderedDict[bytes, bytes | tuple[str, int]] = OrderedDict()
        self._used = 0

    @property
    def used(self) -> int:
        """Return how many bytes are kept."""
        return self._used

    def get(self, digest: bytes) -> bytes | None:
        """Return a drawing, None when there is none; raise DrawingFailed for one that failed lately."""
        match self._kept.get(digest):
            case None:
                return None
            case bytes(drawing):
                self._kept.move_to_end(digest)
                return drawing
            case (message, until):
                if until > self._clock.now():
                    raise DrawingFailed(message)
                self._drop(digest)
                return None

    def put(self, digest: bytes, drawing: bytes) -> None:
        """Keep a *drawing*, unless it alone would take half of the space."""
        if len(drawing) * 2 <= self._size:
            self._keep(digest, drawing)

    def put_failure(self, digest: bytes, error: DrawingFailed) -> None:
        """Keep that a drawing failed, and why."""
        self._keep(digest, (str(error), self._clock.now() + _FAILED_FOR))

    def _keep(self, digest: bytes, entry: bytes | tuple[str, int]) -> None:
        if digest in self._kept:
            self._drop(digest)
        self._kept[digest] = entry
        self._used += _cost(entry)
        while self._used > self._size:
            self._drop(next(iter(self._kept)))

    def _drop(self, digest: bytes) -> None:
        self._used -= _cost(self._kept.pop(digest))


def _cost(entry: bytes | tuple[str, int]) -> int:
    return _OVERHEAD + len(entry if isinstance(entry, bytes) else entry[0])


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


_VERSION = "4"
"""Of Chart.js: the service takes 2.9.4 unless it is named."""
_PICTURE = {"width": 600, "height": 360, "devicePixelRatio": 2, "format": "png", "backgroundColor": "white"}
_MAX_LINK = 3000
"""Characters of a link: what channels take as the address of an image, and servers as a request."""
_SAFE = "!*'(),:;@$/"
_PUBLIC = "quickchart.io"
_CREATED = Bounds(seconds=10.0, first_byte=10.0, size=10_000)
_OK = 200
# Vega's own colours, so that a chart looks alike on every surface.
_COLORS = (
    *("#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b"),
    *("#eeca3b", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac"),
)
_HALF = "80"
"""Of a colour, as the end of its hexadecimal number: areas that lie over one another are seen through."""


class QuickChart:
    """Links to pictures of plain charts at *url*; the data of each chart goes to that server and to all who follow."""

    def __init__(self, url: str, fetch: Fetch) -> None:
        self._url, self._fetch = url.rstrip("/"), fetch
        self._is_public = urlsplit(url).hostname == _PUBLIC

    async def link(self, chart: PlainChart) -> str | None:
        """Return the address of a picture of *chart*, None when there is none: then draw it here.

        A link that holds the whole chart needs no request and never expires. A chart that is too long for one is
        stored at the public service, which keeps it for three days at least; other servers have no such route.
        """
        wanted = chart_js(chart)
        config = quote(msgspec.json.encode(wanted).decode(), safe=_SAFE)
        link = f"{self._url}/chart?v={_VERSION}&w=600&h=360&devicePixelRatio=2&bkg=white&f=png&c={config}"
        if len(link) <= _MAX_LINK:
            return link
        return await self._stored(wanted) if self._is_public else None

    async def _stored(self, wanted: dict[str, Any]) -> str | None:
        body = msgspec.json.encode({"version": _VERSION, **_PICTURE, "chart": wanted})
        try:
            answer = await self._fetch(
                f"{self._url}/chart/create",
                method="POST",
                headers={"content-type": "application/json"},
                body=body,
                bounds=_CREATED,
            )
            reply = msgspec.json.decode(answer.body, type=_Created)
        except (FetchFailed, msgspec.DecodeError, UnicodeDecodeError):
            return None
        is_theirs = reply.url.startswith(f"{self._url}/") and len(reply.url) <= _MAX_LINK and reply.url.isprintable()
        return reply.url if answer.status == _OK and reply.success and is_theirs else None


class _Created(msgspec.Struct):
    """What the service answers."""

    success: bool
    url: str


def chart_js(chart: PlainChart) -> dict[str, Any]:
    """Return *chart* as a configuration of Chart.js 4: values alone, no function in it."""
    is_pie = chart.type == "pie"
    plugins = {
        "title": {"display": chart.title is not None, "text": chart.title or ""},
        "legend": {"display": is_pie or len(chart.series) > 1},
    }
    options: dict[str, Any] = {"plugins": plugins}
    if not is_pie:
        options["scales"] = _scales(chart)
    if chart.horizontal:
        options["indexAxis"] = "y"
    kind = "line" if chart.type == "area" else chart.type
    data: dict[str, Any] = {"datasets": [_dataset(chart, n, each) for n, each in enumerate(chart.series)]}
    if chart.type != "scatter":
        data["labels"] = list(chart.categories)
    return {"type": kind, "data": data, "options": options}


def _dataset(chart: PlainChart, n: int, series: PlainSeries) -> dict[str, Any]:
    color = _COLORS[n % len(_COLORS)]
    look: dict[str, Any] = {"label": series.name, "borderColor": color, "backgroundColor": color}
    match chart.type:
        case "scatter":
            return {**look, "data": [{"x": x, "y": y} for x, y in series.points]}
        case "pie":
            colors = [_COLORS[each % len(_COLORS)] for each in range(len(series.values))]
            return {"label": series.name, "data": _filled(series.values), "backgroundColor": colors}
        case "area":
            below = "-1" if chart.stacked and n else "origin"
            return {**look, "data": list(series.values), "fill": below, "backgroundColor": color + _HALF}
        case "bar" | "line":
            return {**look, "data": list(series.values)}


def _filled(values: Sequence[float | None]) -> list[float]:
    return [each or 0 for each in values]


def _scales(chart: PlainChart) -> dict[str, Any]:
    """Return the axes: of a horizontal chart the categories are along *y*."""
    along, up = ("y", "x") if chart.horizontal else ("x", "y")
    ticks = _ticks(chart.format)
    return {
        along: {"stacked": chart.stacked, "title": _named(chart.x)},
        up: {
            "stacked": chart.stacked,
            "beginAtZero": chart.type in ("bar", "area"),
            "title": _named(chart.y),
            **({"ticks": {"format": ticks}} if ticks else {}),
        },
    }


def _ticks(format: str | None) -> dict[str, Any]:
    """Return how numbers along an axis are written, as `Intl.NumberFormat` takes it."""
    match = NUMERIC.fullmatch(format or "")
    if match is None:
        return {}
    kind, currency, decimals = match.groups()
    styles = {
        "percent": {"style": "percent", "maximumFractionDigits": 1},
        None: {"style": "currency", "currency": currency},
    }
    digits = "0" if kind == "integer" else decimals
    fixed = {} if digits is None else {"minimumFractionDigits": int(digits), "maximumFractionDigits": int(digits)}
    return {**styles.get(kind, {}), **fixed}


def _named(title: str | None) -> dict[str, Any]:
    return {"display": title is not None, "text": title or ""}
