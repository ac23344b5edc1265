"""A core whose tools show a table, charts and something of an own kind, with an easel in the place of the renderer."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from agent_core.core import Core
from agent_core.testing import Answer, ScriptedProvider, call, say, step_of
from agent_core.tools.base import NewRender
from agent_core.tools.functions import tool
from tests.app.frames import frames
from tests.conftest import MakeCore
from tests.published import frame_schema

PICTURE = b"\x89PNG\r\n\x1a\n of a chart"
DRAWING = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
CITIES = [{"city": "Oslo", "people": 717710}, {"city": "Århus", "people": None}]
COLUMNS = [{"key": "city", "label": "City"}, {"key": "people", "label": "People", "format": "integer"}]
TABLE = {"columns": COLUMNS, "rows": CITIES}
SPEC = {
    "data": {"values": [{"day": "Mon", "n": 2}, {"day": "Tue", "n": 5}]},
    "mark": "bar",
    "encoding": {"x": {"field": "day", "type": "nominal"}, "y": {"field": "n", "type": "quantitative"}},
}
LOADED = {**SPEC, "data": {"url": "https://evil.example/x.csv"}}


@tool
async def table() -> NewRender:
    """Show a table."""
    return NewRender("table", TABLE, "Oslo 717,710", title='Cities: "of"\r\n../the north')


@tool
async def chart() -> NewRender:
    """Show a chart."""
    return NewRender("chart", {"spec": SPEC}, "Mon 2, Tue 5")


@tool
async def remote() -> NewRender:
    """Show a chart whose data is elsewhere."""
    return NewRender("chart", {"spec": LOADED}, "a chart")


@tool
async def gauge() -> NewRender:
    """Show something of an own kind."""
    return NewRender("gauge", {"value": 7}, "7 of 10")


@dataclass
class Easel:
    """Draws for the tests: *asked* is what was drawn, and how, *owners* for whom.

    It waits for *open*, and raises *error*.
    """

    asked: list[tuple[Mapping[str, Any], float, bool]] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None

    async def png(
        self, spec: Mapping[str, Any], /, *, scale: float = 2.0, dark: bool = False, owner: str = ""
    ) -> bytes:
        self.asked.append((spec, scale, dark))
        self.owners.append(owner)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return PICTURE

    async def svg(self, spec: Mapping[str, Any], /, *, dark: bool = False, owner: str = "") -> bytes:
        await self.png(spec, dark=dark, owner=owner)
        return DRAWING

    async def check(self, spec: Mapping[str, Any], /, *, owner: str = "") -> None:
        if self.error is not None:
            raise self.error


def answered(request: Any) -> Answer:
    """Call the tools that the message names, then end."""
    said = next(entry.message for entry in reversed(request.messages) if entry.message.role == "user")
    named = " ".join(part.text for part in said.parts).split()
    return [call(name) for name in named] if step_of(request) == 0 else [say("There.")]


def ready() -> Easel:
    """Return an easel that draws at once."""
    easel = Easel()
    easel.open.set()
    return easel


async def core_with(make_core: MakeCore, easel: Easel) -> Core:
    return await make_core(ScriptedProvider(answered), tools=(table, chart, remote, gauge), drawer=easel)


async def shown(by: httpx.AsyncClient, *names: str) -> list[str]:
    """Ask for what the tools *names* show, and return the paths of the renders."""
    opened = {"agent": "assistant", "actor": "bob"} if by.headers["Authorization"].endswith("key") else {}
    path = f"/v1/sessions/{(await by.post('/v1/sessions', json=opened)).json()['id']}"
    await by.post(f"{path}/messages", json={"text": " ".join(names)})
    seen = frames((await by.get(f"{path}/events?until=idle")).text)
    for frame in seen:
        frame_schema().validate({name: value for name, value in frame._asdict().items() if value is not None})
    return [f"/v1/renders/{frame.data['render']}" for frame in seen if frame.event == "render.shown"]
