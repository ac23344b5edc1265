"""What the demonstration draws when it is asked for a sample: a table, and a chart of each kind."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_Object = dict[str, Any]
_ASKED = re.compile(
    r"\bsample\s+(?:(?P<table>table)|(?P<heatmap>heat\s?map)"
    r"|(?:(?P<kind>bar|column|line|area|pie|scatter)\s+)?(?:chart|graph|plot))",
    re.IGNORECASE,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun")
_VISITS: Final[Mapping[str, tuple[int, ...]]] = {
    "Search": (420, 510, 480, 610, 690, 740),
    "Friends": (180, 160, 230, 250, 310, 290),
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri")
_HOURS = ("9:00", "11:00", "13:00", "15:00", "17:00")
_TABLE: Final[_Object] = {
    "title": "Sample: a small shop",
    "columns": [
        {"key": "product", "label": "Product"},
        {"key": "sold", "label": "Sold", "format": "integer"},
        {"key": "revenue", "label": "Revenue", "format": "currency:EUR"},
        {"key": "change", "label": "Change", "format": "percent"},
        {"key": "restocked", "label": "Restocked", "format": "date"},
    ],
    "rows": [
        {"product": "Teapot", "sold": 1240, "revenue": 30876.0, "change": 0.12, "restocked": "2026-01-12"},
        {"product": "Kettle", "sold": 385, "revenue": 18287.5, "change": -0.034, "restocked": "2026-02-03"},
        {"product": "Cup", "sold": 5210, "revenue": 41159.0, "change": 0.271, "restocked": "2026-02-20"},
        {"product": "Tea towel", "sold": 96, "revenue": 1142.4, "change": 0.0, "restocked": "2025-11-30"},
    ],
}


def figures_asked(text: str) -> Iterator[tuple[str, _Object]]:
    """Yield the tool and the arguments of each sample that *text* asks for, the first one of each tool."""
    figures = dict[str, _Object]()
    for match in _ASKED.finditer(text):
        if match["table"]:
            figures.setdefault("render_table", _TABLE)
        else:
            kind = "heatmap" if match["heatmap"] else (match["kind"] or "bar").lower()
            figures.setdefault("render_chart", _chart("bar" if kind == "column" else kind))
    yield from figures.items()


def presented(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the sentence that goes with what *tool* has drawn."""
    if tool == "render_table":
        return "Here is the sample table." if arguments == _TABLE else "Here is the table."
    title = str(arguments.get("title"))
    kind = next((kind for kind in _CHARTS if title == _CHARTS[kind][0]), None)
    if kind is None:
        return "Here is the chart."
    return "Here is the sample heatmap." if kind == "heatmap" else f"Here is the sample {kind} chart."


def _chart(kind: str) -> _Object:
    title, mark, rows, encoding = _CHARTS[kind]
    return {"title": title, "vega_lite_spec": {"mark": mark, "data": {"values": rows}, "encoding": encoding}}


def _field(name: str, type: str = "quantitative", **more: Any) -> _Object:
    return {"field": name, "type": type, **more}


def _monthly(*sources: str) -> list[_Object]:
    return [
        {"month": month, "source": source, "visits": visits}
        for source in sources
        for month, visits in zip(_MONTHS, _VISITS[source], strict=True)
    ]


_MONTH: Final = _field("month", "ordinal", sort=None, title="Month")
_COUNT: Final = _field("visits", title="Visits")
_SOURCE: Final = _field("source", "nominal", title="From")
_CHARTS: Final[Mapping[str, tuple[str, str, list[_Object], _Object]]] = {
    "bar": ("Sample: visits per month", "bar", _monthly("Search"), {"x": _MONTH, "y": _COUNT}),
    "line": (
        "Sample: visits over time",
        "line",
        _monthly("Search", "Friends"),
        {"x": _MONTH, "y": _COUNT, "color": _SOURCE},
    ),
    "area": (
        "Sample: all visits over time",
        "area",
        _monthly("Search", "Friends"),
        {"x": _MONTH, "y": _COUNT, "color": _SOURCE},
    ),
    "pie": (
        "Sample: where visits come from",
        "arc",
        [{"source": "Search", "visits": 3450}, {"source": "Friends", "visits": 1420}, {"source": "Ads", "visits": 610}],
        {"theta": _COUNT, "color": _SOURCE},
    ),
    "scatter": (
        "Sample: price and number sold",
        "point",
        [{"price": 5 + 4 * n, "sold": 520 - 38 * n + (n * 53) % 61} for n in range(12)],
        {"x": _field("price", title="Price"), "y": _field("sold", title="Sold")},
    ),
    "heatmap": (
        "Sample: visits by day and hour",
        "rect",
        [
            {"day": day, "hour": hour, "visits": 12 + (7 * d + 5 * h) % 23 + 6 * h}
            for d, day in enumerate(_DAYS)
            for h, hour in enumerate(_HOURS)
        ],
        {
            "x": _field("hour", "ordinal", sort=None, title="Hour"),
            "y": _field("day", "ordinal", sort=None, title="Day"),
            "color": _COUNT,
        },
    ),
}
"""Title, mark, rows and encoding of each kind."""
