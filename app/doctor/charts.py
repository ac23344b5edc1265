"""What the doctor reports on charts: whether one can be drawn on this machine, and who is sent them."""

import asyncio
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from agent_core import Drawer, DrawingFailed
from app.doctor.findings import Finding
from app.settings import Settings

TIMEOUT = 10.0
"""Seconds for a QuickChart server to answer."""
SAMPLE = {
    "data": {"values": [{"day": "Mon", "n": 2}, {"day": "Tue", "n": 5}]},
    "mark": "bar",
    "encoding": {"x": {"field": "day", "type": "nominal"}, "y": {"field": "n", "type": "quantitative"}},
}
_REMEDY = (
    "install the package `vl-convert-python` of this version's lock file; set no `ulimit -v`, as V8 reserves 50 GB of "
    "addresses that it never uses, and no `ulimit -d` below 1 GB; until then charts that no surface draws itself "
    "are shown as text"
)


def charts(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Start the drawing process and draw a chart; ask the server of QUICKCHART_URL where charts are sent to it."""
    yield _drawn()
    if settings.chart_backend == "quickchart":
        yield _sent(settings, offline=offline)


def _drawn() -> Finding:
    began = time.perf_counter()
    try:
        picture = asyncio.run(_draw())
    except DrawingFailed as error:
        return Finding("fail", "charts", f"no chart can be drawn here: {error}", _REMEDY)
    duration = (time.perf_counter() - began) * 1000
    return Finding("ok", "charts", f"drawn on this machine, the first of {len(picture):,} bytes in {duration:.0f} ms")


async def _draw() -> bytes:
    drawer = Drawer()
    try:
        return await drawer.png(SAMPLE)
    finally:
        await drawer.close()


def _sent(settings: Settings, *, offline: bool) -> Finding:
    """Report who is sent the data of charts; asked is only whether the server is there."""
    host = urlsplit(settings.quickchart_url).hostname
    text = f"Slack's pictures of charts are links to {host}, which is sent their data"
    if offline:
        return Finding("ok", "quickchart", f"{text}; not asked")
    try:
        status = httpx.get(f"{settings.quickchart_url}/healthcheck", timeout=TIMEOUT).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "correct QUICKCHART_URL, or set CHART_BACKEND=local"
        return Finding("fail", "quickchart", f"{host} cannot be reached ({type(error).__name__})", remedy)
    if status >= httpx.codes.BAD_REQUEST:
        return Finding("warn", "quickchart", f"{host} answered {status}", "check that it is a QuickChart server")
    return Finding("ok", "quickchart", text)
