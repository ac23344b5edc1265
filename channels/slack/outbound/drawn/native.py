"""A plain chart as Slack's own block, or why it cannot be one; pure.

Slack's block has bars, lines, areas and slices of 20 categories and 12 series, with one number for each.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from agent_core import PlainChart, PlainSeries, amount_sign, shorten
from channels.slack.outbound.drawn.coarser import adds_up, coarser
from channels.slack.outbound.drawn.form import Json
from channels.slack.outbound.drawn.names import plain_name, short_names
from channels.slack.web_api import limits

OTHER = "Other"
_MAX_NUMBER = 1e300  # a sum of several of these is no number any more


class NativeChart(NamedTuple):
    """A *block*, and a *remark* on what in it is not as it was asked for, if anything."""

    block: Json
    remark: str = ""


class NotNative(NamedTuple):
    """Why a chart cannot be Slack's own block."""

    reason: str


def native(chart: PlainChart, title: str, spec: Mapping[str, Any]) -> NativeChart | NotNative:
    """Return *chart*, reduced from *spec*, as the block `data_visualization` with *title*."""
    if any(value is not None and not abs(value) < _MAX_NUMBER for each in chart.series for value in each.values):
        return NotNative("a value is too large for a block, or no number")
    match chart.type:
        case "scatter":
            return NotNative("Slack has no scatter chart")
        case "pie":
            chart_block, remark = _pie(chart)
        case _:
            chart_block, remark = _axes(chart, spec)
    if isinstance(chart_block, NotNative):
        return chart_block
    block = {
        "type": "data_visualization",
        "title": shorten(plain_name(title), limits.CHART_TITLE.value) or "Chart",
        "chart": chart_block,
    }
    return NativeChart(block, remark)


def _pie(chart: PlainChart) -> tuple[Json | NotNative, str]:
    """Return the slices, those that have no size left out, and the smallest as one if they are too many."""
    if len(chart.series) != 1:
        return NotNative("a pie has one series"), ""
    values = chart.series[0].values
    if any(value is not None and value < 0 for value in values):
        return NotNative("a slice has a negative size"), ""
    slices = [(name, value) for name, value in zip(chart.categories, values, strict=True) if value]
    if not slices:
        return NotNative("no slice has a size"), ""
    limit, remark = limits.CHART_SEGMENTS.value, ""
    if len(slices) > limit:
        order = sorted(range(len(slices)), key=lambda n: -slices[n][1])
        largest, rest = sorted(order[: limit - 1]), order[limit - 1 :]
        other = math.fsum(slices[n][1] for n in rest)
        slices = [*(slices[n] for n in largest), (OTHER, other)]
        remark = f"{OTHER}: the {len(rest)} smallest together."
    names = short_names(name for name, _ in slices)
    segments = [{"label": name, "value": value} for name, (_, value) in zip(names, slices, strict=True)]
    return {"type": "pie", "segments": segments}, remark


def _axes(chart: PlainChart, spec: Mapping[str, Any]) -> tuple[Json | NotNative, str]:
    """Return bars, lines or areas; horizontal bars stand up, since Slack has no others."""
    if len(chart.series) > limits.CHART_SERIES.value:
        return NotNative(f"{len(chart.series)} series are more than Slack takes"), ""
    remark, limit = "", limits.CHART_POINTS.value
    whole = _filled(chart)
    if isinstance(whole, NotNative):
        return whole, ""
    if len(whole.categories) > limit:
        added = coarser(whole, limit) if adds_up(spec) else None
        if added is None:
            return NotNative(f"{len(whole.categories)} categories are more than Slack takes"), ""
        whole, unit = added
        remark = f"Added up by {unit}: Slack's own charts have at most {limit} points."
        whole = _filled(whole)
        if isinstance(whole, NotNative):
            return whole, ""
    if not whole.categories:
        return NotNative("there is no data"), ""
    return _with_axes(whole), remark


def _filled(chart: PlainChart) -> PlainChart | NotNative:
    """Return *chart* without gaps: they are 0 for bars and areas, and a line has none where all have one."""
    if chart.type != "line":
        series = tuple(PlainSeries(each.name, tuple(value or 0 for value in each.values)) for each in chart.series)
        return structs.replace(chart, series=series)
    filled = [n for n in range(len(chart.categories)) if any(each.values[n] is not None for each in chart.series)]
    series = tuple(PlainSeries(each.name, tuple(each.values[n] for n in filled)) for each in chart.series)
    if any(value is None for each in series for value in each.values):
        return NotNative("a line has a gap")
    return structs.replace(chart, categories=tuple(chart.categories[n] for n in filled), series=series)


def _with_axes(chart: PlainChart) -> Json:
    labels = short_names(chart.categories)
    names = short_names(each.name or chart.y or "" for each in chart.series)
    axis: Json = {"categories": list(labels)}
    if along := shorten(plain_name(chart.x or ""), limits.CHART_AXIS.value):
        axis["x_label"] = along
    sign = amount_sign(chart.format)  # the block writes none at its values
    if up := _with_sign(plain_name(chart.y or ""), sign):
        axis["y_label"] = up
    series = [
        {"name": name, "data": _points(labels, each.values, 100 if sign == "%" else 1)}
        for name, each in zip(names, chart.series, strict=True)
    ]
    return {"type": chart.type, "series": series, "axis_config": axis}


def _with_sign(title: str, sign: str) -> str:
    """Return the *title* of an axis with the *sign* of its amounts after it, if that is not in it."""
    if not sign or sign in title:
        return shorten(title, limits.CHART_AXIS.value)
    after = f" ({sign})"
    return f"{shorten(title, limits.CHART_AXIS.value - len(after))}{after}" if title else sign


def _points(labels: Sequence[str], values: Sequence[float | None], factor: int) -> list[Json]:
    return [{"label": label, "value": _times(value or 0, factor)} for label, value in zip(labels, values, strict=True)]


def _times(value: float, factor: int) -> float:
    """Return *value* times *factor* without the last digits of a product."""
    return value if factor == 1 else float(f"{value * factor:.12g}")
