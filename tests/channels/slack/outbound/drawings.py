"""Answers with tables and charts for the tests of a thread, and what draws charts there."""

import asyncio
import struct
import zlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from agent_core import events as e
from agent_core.charts.draw import DrawingFailed
from agent_core.charts.values import PlainChart
from agent_core.messages import Text
from channels.slack.figures import NO_CHARTS, PlannedFile, ThreadFigures
from channels.spec import ConversationView, ShownRender
from tests.channels.slack.answers import USAGE, Log

BEFORE, AFTER = "Here it comes.", "That was it, as asked."
COLUMNS = [{"key": "region", "label": "Region"}, {"key": "sum", "label": "Sum", "format": "integer"}]
ROWS = [{"region": "North", "sum": 1200}, {"region": "South", "sum": 900}]
TABLE = {"columns": COLUMNS, "rows": ROWS}
LONG = {"columns": COLUMNS, "rows": [{"region": f"Region {n}", "sum": n} for n in range(400)]}
PLAIN = {
    "type": "bar",
    "title": "Orders",
    "categories": ["Jan", "Feb"],
    "series": [{"name": "2026", "values": [12.0, 14.0]}],
}
SPEC = {"mark": "bar", "data": {"values": [{"month": "Jan", "n": 12}, {"month": "Feb", "n": 14}]}}
NATIVE = {"spec": SPEC, "plain": PLAIN}
PICTURE = {"spec": SPEC}


def png(width: int = 8, height: int = 6) -> bytes:
    """Return a picture of one colour."""
    rows = b"".join(b"\0" + b"\x12\x64\xa3" * width for _ in range(height))
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)))
    made = (
        struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in (*parts, (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


class NoFiles:
    """The files of a thread in which none was uploaded, and none is."""

    session = "ses_1"

    async def load(self) -> None: ...

    def peek(self, _plan: PlannedFile) -> None: ...


def figures() -> ThreadFigures:
    """Return the tables and charts of a thread without files and pictures."""
    return ThreadFigures(cast("Any", NoFiles()), NO_CHARTS, cast("Any", None))


def view_of(*renders: ShownRender) -> ConversationView:
    """Return a conversation with one message that shows *renders*."""
    call = SimpleNamespace(renders=renders)
    return cast("Any", SimpleNamespace(recent=(SimpleNamespace(calls=(call,)),)))


class OneColour:
    """Draws every chart as the same picture, once it is *allowed*."""

    def __init__(self, *, waits: bool = False) -> None:
        self.drawn: list[Mapping[str, Any]] = []
        self.allowed = asyncio.Event()
        if not waits:
            self.allowed.set()

    async def png(self, spec: Mapping[str, Any], /, *, owner: str = "") -> bytes:
        await self.allowed.wait()
        self.drawn.append(spec)
        return png()


class CountingCharts:
    """Draws charts, each after all others that were asked for; *most* were drawn at once."""

    def __init__(self) -> None:
        self.most = self._now = 0

    async def png(self, _spec: Mapping[str, Any], /, *, owner: str = "") -> bytes:
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(20):  # all that can begin meanwhile begins
            await asyncio.sleep(0)
        self._now -= 1
        return png()


class RefusingCharts:
    """Draws nothing."""

    async def png(self, _spec: Mapping[str, Any], /, *, owner: str = "") -> bytes:
        raise DrawingFailed("It takes too long.")


class Linking:
    """Links every chart to an address of its own."""

    async def link(self, chart: PlainChart, /) -> str | None:
        return f"https://charts.example.com/{len(chart.categories)}"


def shown(kind: str, payload: dict[str, Any], *, id: str = "ren_1", call: str = "call_1") -> e.RenderShown:
    """Return the fact that a tool shows something."""
    return e.RenderShown(render=id, call=call, kind=kind, title="Orders", payload=payload, text=f"text of {id}")


def drawing(*renders: tuple[str, dict[str, Any]]) -> Log:
    """Text, a tool that shows *renders*, and more text, in pieces."""
    log = Log()
    log.ask("Draw it")
    log.say("Here it ", "comes.")
    log.add(
        log.said(BEFORE, stop="tools"),
        e.StepCompleted(n=1, usage=USAGE, cost=None),
        e.ToolRequested(call="call_1", name="render_chart", arguments={}, index=0, step=1),
        e.ToolStarted(call="call_1"),
    )
    for n, (kind, payload) in enumerate(renders, 1):
        log.add(shown(kind, payload, id=f"ren_{n}"))
    log.add(
        e.ToolCompleted(call="call_1", outcome="done", parts=(Text("shown"),), truncated=False),
        e.StepStarted(n=2, attempt=1, message="msg_3", takes=(), snapshot="sha256:1"),
    )
    log.say("That was ", "it, ", "as asked.", message="msg_3")
    log.end(AFTER, "msg_3")
    return log
