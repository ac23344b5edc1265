"""QuickChart: links to pictures of charts that another server draws with Chart.js. Off unless an operator wants it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from agent_core.net.fetch import Bounds, Fetch, FetchFailed
from agent_core.renders.formats import NUMERIC
from agent_core.renders.values import PlainChart, PlainSeries

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
