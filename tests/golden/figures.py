"""What a tool shows in the golden log `figures`: each kind of drawing, and what cannot be drawn as its kind says."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent_core.charts.text import chart_text, spec_text, table_text
from agent_core.charts.values import ChartType, DataTable, PlainChart, PlainSeries, TableColumn
from agent_core.tools.base import NewRender

ORDERS = DataTable(
    (
        TableColumn("id", "Order", format="text"),
        TableColumn("customer", "Customer"),
        TableColumn("total", "Total", format="currency:EUR"),
        TableColumn("share", "Share", format="percent"),
        TableColumn("items", "Items", format="integer"),
        TableColumn("on", "Ordered", format="date"),
        TableColumn("paid", "Paid", align="center"),
        TableColumn("note", "Note"),
    ),
    (
        {
            "id": 1001,
            "customer": "Zoë 日本語",
            "total": 1234.5,
            "share": 0.755,
            "items": 12,
            "on": "2026-02-15",
            "paid": True,
        },
        {"id": 1002, "customer": "Bo & <b>Sons</b>", "total": -3, "share": 0.2, "items": 0, "note": "=1+1"},
        {
            "id": 1003,
            "customer": None,
            "total": "0.1",
            "on": "2026-02-15T23:30:00-05:00",
            "note": {"tags": ["new", None]},
        },
        {"id": 1004, "customer": "a\u202eb \x1b[2J", "note": "<!channel> *bold* | `code`\nnext line"},
    ),
)
MONTHS = ("Jan", "Feb", "Mar")
STACK = PlainChart(
    "bar", MONTHS, (PlainSeries("EU", (12, 19.5, 7)), PlainSeries("US", (5, 0, 9))), x="Month", y="Orders", stacked=True
)
TREND = PlainChart(
    "line", MONTHS, (PlainSeries("EU", (12, 19.5, 7)), PlainSeries("US", (5, None, 9))), x="Month", y="Orders"
)
CLOUD = PlainChart("scatter", (), (PlainSeries("y", points=((1, 2.5), (3, -4))),), x="x", y="y")
HEAT: dict[str, Any] = {
    "mark": "rect",
    "data": {
        "values": [
            {"day": day, "hour": hour, "n": n} for n, (day, hour) in enumerate([("Mo", 9), ("Mo", 10), ("Tu", 9)])
        ]
    },
    "encoding": {
        "x": {"field": "hour", "type": "ordinal"},
        "y": {"field": "day", "type": "nominal"},
        "color": {"field": "n", "type": "quantitative"},
    },
}

BY_HAND = "Cities:\n\n| City | Orders |\n| :-- | --: |\n| Oslo | 1,200 |\n| Bo & <b>Sons</b> | 80 |\n\nThat is all."
"""What the model answers: a table of Markdown, as models write them although there is a tool."""


def one_series(kind: ChartType) -> PlainChart:
    return PlainChart(kind, MONTHS, (PlainSeries("Orders", (12, 19.5, 7)),), x="Month", y="Orders")


def of_chart(title: str, chart: PlainChart) -> NewRender:
    payload = {"spec": spec_of(chart), "plain": msgspec.to_builtins(chart)}
    return NewRender("chart", payload, chart_text(chart), title=title)


def spec_of(chart: PlainChart) -> dict[str, Any]:
    """Return a specification that says what *chart* says."""
    if chart.type == "scatter":
        return {
            "mark": "point",
            "data": {"values": [{"x": x, "y": y} for x, y in chart.series[0].points]},
            "encoding": {axis: {"field": axis, "type": "quantitative"} for axis in ("x", "y")},
        }
    rows = [
        {"month": month, "region": series.name, "orders": value}
        for series in chart.series
        for month, value in zip(chart.categories, series.values, strict=True)
    ]
    month: dict[str, Any] = {"field": "month", "type": "nominal", "sort": None, "title": "Month"}
    orders = {"field": "orders", "type": "quantitative", "title": "Orders"}
    color = {"color": {"field": "region", "type": "nominal"}} if len(chart.series) > 1 else {}
    encoding = {"x": month, "y": orders, **color}
    if chart.type == "pie":
        encoding = {"theta": orders, "color": month}
    return {"mark": "arc" if chart.type == "pie" else chart.type, "data": {"values": rows}, "encoding": encoding}


FIGURES: Mapping[str, NewRender] = {
    "table": NewRender("table", msgspec.to_builtins(ORDERS), table_text(ORDERS), title="Orders of February"),
    "bar": of_chart("Orders by month", one_series("bar")),
    "stack": of_chart("Orders by month and region", STACK),
    "line": of_chart("Orders over time", TREND),
    "area": of_chart("Orders as an area", one_series("area")),
    "pie": of_chart("Shares of the months", one_series("pie")),
    "scatter": of_chart("Two numbers", CLOUD),
    "heatmap": NewRender("chart", {"spec": HEAT}, spec_text(HEAT), title="Orders by day and hour"),
    "unknown": NewRender("tally_marks", {"tea": 3}, "tea: 3", title="Who drinks what"),
    "misfit": NewRender(
        "table", {"columns": [{"label": "no key"}], "rows": "none"}, "No table.", title="A broken table"
    ),
}
