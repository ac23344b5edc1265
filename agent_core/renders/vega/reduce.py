"""Vega-Lite to one plain chart, with the numbers that Vega itself would draw."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from agent_core.renders.values import ChartType, PlainChart, PlainSeries
from agent_core.renders.vega.amount_formats import amount_format
from agent_core.renders.vega.dimension import Definition, Dimension, Ordering, Row, category_axis, discrete, plain_name
from agent_core.renders.vega.dressing import (
    DISCRETE,
    is_dressing,
    is_measure,
    series_of,
    splits_categories,
    title_of,
    titled,
)
from agent_core.renders.vega.measures import ABSENT, aggregated, bounded, figures, name_of, total
from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_list, is_object
from agent_core.renders.vega.transforming import transformed_rows

MAX_SERIES = 100
TYPES: Mapping[str, ChartType] = {
    "bar": "bar",
    "line": "line",
    "area": "area",
    "arc": "pie",
    "point": "scatter",
    "circle": "scatter",
    "square": "scatter",
}


def reduced(spec: Mapping[str, Any]) -> PlainChart | None:
    """Return the plain chart that shows what a checked specification shows; None when there is none, or in doubt.

    Dates are read as UTC. It holds at most 5,000 categories and 100 series. Raises nothing for any JSON.
    """
    try:
        view = _view(spec)
        match view.type:
            case "pie":
                return _pie(view)
            case "scatter":
                return _scatter(view)
            case _:
                return _drawn_on_axes(view)
    except NotPlain:
        return None


@dataclass(frozen=True)
class _View:
    type: ChartType
    title: str | None
    rows: Sequence[Row]
    encoding: Mapping[str, Any]


def _view(spec: Any) -> _View:
    if not is_object(spec):
        raise NotPlain
    mark = spec.get("mark")
    name = mark.get("type") if is_object(mark) else mark
    encoding = spec.get("encoding")
    if not isinstance(name, str) or name not in TYPES or not is_object(encoding) or not is_dressing(spec, encoding):
        raise NotPlain
    if "shape" in encoding and name != "point":
        raise NotPlain  # other marks have no shape, and are not split by it
    transforms = spec.get("transform", ())
    rows = transformed_rows(_rows(spec), transforms, _dated(encoding, transforms))
    if not rows or (any(is_object(each) and each.get("bin") for each in encoding.values()) and _aggregates(transforms)):
        raise NotPlain
    channels = {channel: each for channel, each in encoding.items() if is_object(each) or channel == "detail"}
    return _View(TYPES[name], title_of(spec.get("title")), rows, channels)


def _dated(encoding: Mapping[str, Any], transforms: Any) -> frozenset[str]:
    """Return the fields that are read as dates, since a channel or a transform makes dates of them."""
    channels = [each for listed in encoding.values() for each in (listed if is_list(listed) else [listed])]
    named = [*channels, *(transforms if is_list(transforms) else ())]
    dates = [each for each in named if is_object(each) and (each.get("type") == "temporal" or each.get("timeUnit"))]
    return frozenset(str(each.get("field")) for each in dates)


def _aggregates(transforms: Any) -> bool:
    return any("filter" not in each for each in transforms)


def _rows(spec: Mapping[str, Any]) -> Sequence[Row]:
    data = spec.get("data")
    if not is_object(data) or data.get("format"):
        raise NotPlain
    values = data.get("values")
    if values is None:
        sets = spec.get("datasets")
        values = sets.get(str(data.get("name"))) if is_object(sets) else None
    if not is_list(values) or not all(map(is_object, values)):
        raise NotPlain
    return values


def _drawn_on_axes(view: _View) -> PlainChart:
    across, up = view.encoding.get("x"), view.encoding.get("y")
    if across is None or up is None:
        raise NotPlain
    horizontal = is_measure(across) and not is_measure(up)
    category, measure, offset = (up, across, "yOffset") if horizontal else (across, up, "xOffset")
    if not is_measure(measure) or is_measure(category) or ({"xOffset", "yOffset"} - {offset}) & view.encoding.keys():
        raise NotPlain
    if horizontal and (view.type != "bar" or category.get("type", "nominal") not in DISCRETE or "bin" in category):
        raise NotPlain
    if offset in view.encoding and not _groups_bars(view, category):
        raise NotPlain
    split = series_of(view.encoding, category, offset)
    if view.type != "bar" and splits_categories(view.encoding, category):
        raise NotPlain  # each category would be a line of one point
    adds = _adds_up(view.type, measure)
    stacked = adds and split is not None and offset not in view.encoding
    totals = "sum" if stacked or (adds and "aggregate" not in measure) else "min"
    ordering = Ordering(view.rows, view.encoding, totals)
    categories, series = category_axis(category, ordering, fills=view.type == "bar"), _series(split, ordering)
    if all(any("|" in label for label in each) for each in (categories.labels, series.labels)):
        raise NotPlain  # Vega joins the names of groups by it, so that two groups may be one
    marks = _marks(view.rows, measure, categories, series)
    if view.type != "bar" and {key for key, _ in marks} != set(categories.ordered):
        raise NotPlain  # Vega draws the line through what is empty
    name, along = titled(measure) or name_of(measure), titled(category)
    return PlainChart(
        view.type,
        tuple(categories.labels),
        tuple(
            PlainSeries(label if split else name, _values(view.type, marks, categories, key, measure, stacked=stacked))
            for key, label in zip(series.ordered, series.labels, strict=True)
        ),
        view.title,
        along,
        titled(measure),
        stacked=stacked,
        horizontal=horizontal,
        format=amount_format(measure),
    )


def _groups_bars(view: _View, category: Definition) -> bool:
    """Return whether an offset places bars beside one another within each category."""
    kind = category.get("type", "temporal" if "timeUnit" in category else "nominal")
    return view.type == "bar" and kind in DISCRETE and "bin" not in category


def _pie(view: _View) -> PlainChart:
    measure, split = view.encoding.get("theta"), series_of(view.encoding, {}, None)
    if measure is None or split is None or not is_measure(measure) or {"x", "y"} & view.encoding.keys():
        raise NotPlain
    if not _adds_up("pie", measure):
        raise NotPlain
    slices = discrete(split, Ordering(view.rows, view.encoding, "sum"))
    marks = _marks(view.rows, measure, slices, ONE)
    values = [_value(marks.get((key, 0)), measure) for key in slices.ordered]
    drawn = [(label, value) for label, value in zip(slices.labels, values, strict=True) if value is not None]
    if not any(value for _, value in drawn) or any(value < 0 for _, value in drawn):
        raise NotPlain
    name = titled(measure, "legend") or name_of(measure)
    return PlainChart(
        "pie",
        tuple(label for label, _ in drawn),
        (PlainSeries(name, tuple(value for _, value in drawn)),),
        view.title,
        titled(split, "legend"),
        name,
    )


def _scatter(view: _View) -> PlainChart:
    across, up = view.encoding.get("x"), view.encoding.get("y")
    if across is None or up is None or {"xOffset", "yOffset"} & view.encoding.keys():
        raise NotPlain
    if not all(is_measure(each) and "aggregate" not in each and "stack" not in each for each in (across, up)):
        raise NotPlain
    if amount_format(across) is not None:
        raise NotPlain
    split = series_of(view.encoding, {}, None)
    series = _series(split, Ordering(view.rows, view.encoding, "min"))
    points: dict[Hashable, list[tuple[float, float]]] = {key: [] for key in series.ordered}
    columns = plain_name(across["field"]), plain_name(up["field"])
    for row, key in zip(view.rows, series.keys, strict=True):
        numbers = figures([row.get(name) for name in columns])
        if len(numbers) == len(columns):
            points[key].append((numbers[0], numbers[1]))
    if not any(points.values()):
        raise NotPlain
    name = titled(up) or name_of(up)
    drawn = tuple(
        PlainSeries(label if split else name, points=tuple(points[key]))
        for key, label in zip(series.ordered, series.labels, strict=True)
    )
    return PlainChart("scatter", (), drawn, view.title, titled(across), titled(up), format=amount_format(up))


def _adds_up(type: ChartType, measure: Definition) -> bool:
    """Return whether marks at one place are drawn on top of one another, as is the default of bars and areas."""
    can = type in ("bar", "area", "pie")
    stack = measure.get("stack", can)
    if stack in (True, "zero") and can:
        return True
    if stack in (None, False):
        return False
    raise NotPlain


def _series(split: Definition | None, ordering: Ordering) -> Dimension:
    if split is None:
        return Dimension([0] * len(ordering.rows), [0], [""])
    series = discrete(split, ordering)
    if len(series.ordered) > MAX_SERIES:
        raise NotPlain
    return series


ONE = Dimension([], [0], [""])
"""The one series of a pie."""
Marks = Mapping[tuple[Hashable, Hashable], list[Any]]


def _marks(rows: Sequence[Row], measure: Definition, categories: Dimension, series: Dimension) -> Marks:
    """Return the cells of each mark, by category and series."""
    column = None if measure.get("aggregate") == "count" else plain_name(measure["field"])
    marks: dict[tuple[Hashable, Hashable], list[Any]] = {}
    for row, category, one in zip(rows, categories.keys, series.keys or repeat(0), strict=False):
        if category is not None:
            marks.setdefault((category, one), []).append(None if column is None else row.get(column, ABSENT))
    return marks


def _values(
    type: ChartType, marks: Marks, categories: Dimension, series: Hashable, measure: Definition, *, stacked: bool
) -> tuple[float | None, ...]:
    """Return the values of a series by category: None where no mark is, 0 where a stack of areas has no row."""
    by_category = [marks.get((key, series)) for key in categories.ordered]
    is_raw = "aggregate" not in measure
    several = is_raw and any(cells is not None and len(cells) > 1 for cells in by_category)
    if several and (type != "bar" or not _adds_up(type, measure)):
        raise NotPlain
    values = [_value(cells, measure) for cells in by_category]
    if type == "area" and stacked:
        return tuple(0.0 if cells is None else value for cells, value in zip(by_category, values, strict=True))
    if type != "bar" and _is_interrupted(by_category):
        raise NotPlain
    return tuple(values)


def _value(cells: list[Any] | None, measure: Definition) -> float | None:
    if cells is None:
        return None
    if "aggregate" in measure:
        return aggregated(measure["aggregate"], cells)
    numbers = figures(cells)
    if numbers and min(numbers) < 0 < max(numbers):
        raise NotPlain
    return bounded(total(numbers)) if numbers else None


def _is_interrupted(series: list[list[Any] | None]) -> bool:
    """Return whether a line goes on after a category without rows: Vega draws it through, a plain chart has a gap."""
    present = [index for index, cells in enumerate(series) if cells is not None]
    return bool(present) and present[-1] - present[0] >= len(present)
