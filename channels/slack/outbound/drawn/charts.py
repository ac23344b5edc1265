"""A chart in Slack: its own block, else a picture, the table of its data, and its text; pure."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from agent_core import DataTable, PlainChart, RenderHead, TableColumn, chart_text, data_of, head_of, shorten, spec_text
from channels.base import ShownRender
from channels.slack.outbound.drawn.form import ChartLink, Form, PngUpload, file_name, note
from channels.slack.outbound.drawn.ladder import FormMaker
from channels.slack.outbound.drawn.native import NativeChart, native
from channels.slack.outbound.drawn.room import MESSAGE, Room
from channels.slack.outbound.drawn.tables import data_table_form, table_form
from channels.slack.outbound.drawn.words import ACROSS, preformatted, summary
from channels.slack.web_api import limits

_TITLE = 100
_WHOLE = 10**15


def chart_steps(render: ShownRender, chart: PlainChart | None, *, links: bool) -> list[FormMaker]:
    """Return the forms of a chart, the best first; *chart* is None when it did not reduce to a plain one.

    With *links* a plain chart that is not Slack's own is a picture of the service of `QUICKCHART_URL`.
    """
    steps: list[FormMaker] = []
    if chart is not None:
        steps.append(lambda room: native_form(render, chart) if room.charts else None)
        if links:
            steps.append(lambda _room: link_form(render, chart))
    steps.append(lambda _room: picture_form(render))
    data = plain_data(chart) if chart is not None else max(data_of(_spec(render)), key=_size, default=None)
    if data is not None and data.rows:
        steps += [
            partial(data_table_form, render, data),
            partial(table_form, render, data),
        ]
    steps.append(partial(text_form, render, chart))
    return steps


def native_form(render: ShownRender, chart: PlainChart) -> Form | None:
    """Return *chart* as Slack's own block, None when it cannot be one."""
    block = native(chart, heading(render), _spec(render))
    if not isinstance(block, NativeChart):
        return None
    below = [note(block.remark)] if block.remark else []
    return Form((block.block, *below), chart_words(render))


def picture_form(render: ShownRender) -> Form | None:
    """Return a picture of the chart, drawn from its specification and uploaded; None without one."""
    spec = _spec(render)
    if not spec:
        return None
    title = heading(render)
    words = chart_words(render)
    return Form((), words, PngUpload(dict(spec), file_name(title, "png", "chart"), title, alt_of(render)))


def link_form(render: ShownRender, chart: PlainChart) -> Form:
    """Return a picture of *chart* that a service draws from what its address says."""
    return Form((), chart_words(render), ChartLink(chart, heading(render), alt_of(render)))


def text_form(render: ShownRender, chart: PlainChart | None, room: Room = MESSAGE) -> Form | None:
    """Return the text of the chart in a block in which nothing is syntax."""
    blocks = preformatted(render, partial(text_of, render, chart), room)
    return Form(tuple(blocks), chart_words(render)) if blocks else None


def text_of(render: ShownRender, chart: PlainChart | None, limit: int) -> str:
    """Return the chart as text of *limit* characters."""
    if chart is not None:
        return chart_text(chart, width=ACROSS, limit=limit)
    return spec_text(_spec(render), width=ACROSS, limit=limit)


def heading(render: ShownRender) -> str:
    """Return the title of the chart; without one, what it shows."""
    return shorten(_head(render).heading, limits.TABLE_CAPTION.value)


def alt_of(render: ShownRender) -> str:
    """Return what the picture of the chart shows, in words for those who do not see it."""
    return shorten("\n".join((heading(render), *filter(None, _head(render).facts))), limits.IMAGE_ALT.value)


def chart_words(render: ShownRender) -> str:
    """Return the chart for notifications and screen readers: its title, its shape, and its extremes."""
    facts = _head(render).facts
    return summary(": ".join((shorten(heading(render), _TITLE), *facts[:1])), *facts[1:])


def _head(render: ShownRender) -> RenderHead:
    return head_of(render.kind, render.payload, render.title)


def plain_data(chart: PlainChart) -> DataTable:
    """Return the numbers of *chart* as a table: a row for each category, or for each point of a scatter chart."""
    if chart.type == "scatter":
        several = len(chart.series) > 1
        columns = [TableColumn("x", chart.x or "x"), TableColumn("y", chart.y or "y", format=chart.format)]
        rows = [
            {"name": each.name, "x": _rounded(x), "y": _rounded(y)} for each in chart.series for x, y in each.points
        ]
        return DataTable((*([TableColumn("name", "Series")] if several else []), *columns), tuple(rows))
    keys = [f"s{n}" for n in range(len(chart.series))]
    columns = [
        TableColumn(key, each.name or chart.y or "Value", format=chart.format)
        for key, each in zip(keys, chart.series, strict=True)
    ]
    rows = [
        {"label": label, **{key: _rounded(each.values[n]) for key, each in zip(keys, chart.series, strict=True)}}
        for n, label in enumerate(chart.categories)
    ]
    return DataTable((TableColumn("label", chart.x or "Category"), *columns), tuple(rows))


def _rounded(value: float | None) -> float | int | None:
    """Return *value* as people write it: without the last digits of a sum, and whole if it is."""
    if value is None or not math.isfinite(value):
        return value
    short = float(f"{value:.12g}")
    return int(short) if short.is_integer() and abs(short) < _WHOLE else short


def _size(table: DataTable) -> int:
    return len(table.rows)


def _spec(render: ShownRender) -> Mapping[str, Any]:
    spec = render.payload.get("spec")
    return cast("dict[str, Any]", spec) if isinstance(spec, dict) else {}
