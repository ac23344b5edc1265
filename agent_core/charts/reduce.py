"""Vega-Lite to one plain chart, with the numbers that Vega itself would draw; pure."""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import Any, NamedTuple

from agent_core.charts.spec import is_list, is_number, is_object, words
from agent_core.charts.values import ChartType, PlainChart, PlainSeries
from agent_core.charts.vega import (
    ABSENT,
    INHERITED,
    NULL,
    ORDERING,
    NotPlain,
    TimeUnit,
    aggregated,
    bins_of,
    bounded,
    figures,
    instant,
    label_of,
    name_of,
    plain_name,
    spacing,
    total,
    transformed_rows,
    unit_named,
    written,
)

Definition = Mapping[str, Any]

DISCRETE = ("nominal", "ordinal")
VIEW = words(
    "$schema name title description data datasets transform mark encoding width height view config autosize padding"
    " background bounds align center spacing"
)
MARK = words(
    "type color fill stroke opacity fillOpacity strokeOpacity strokeWidth strokeDash strokeCap strokeJoin cornerRadius"
    " cornerRadiusEnd cornerRadiusTopLeft cornerRadiusTopRight cornerRadiusBottomLeft cornerRadiusBottomRight tooltip"
    " point line interpolate filled size shape innerRadius outerRadius padAngle width height binSpacing aria"
    " description discreteBandSize continuousBandSize minBandSize clip tension blend"
)
CURVES = ("linear", "monotone", "cardinal", "catmull-rom", "natural")
"""Curves that pass through their points."""
CONFIG = words(
    "axis axisX axisY axisBand axisLeft axisBottom axisDiscrete axisQuantitative axisTemporal background font header"
    " legend padding range title view style autosize aria"
)
"""Parts of a configuration that change the look only; those named after a mark are judged as marks."""
EXPRESSIONS = frozenset({"expr", "signal", "param", "calculate"})
AXIS_MEANS = frozenset({"format", "formatType", "title", "disable"})
MARKED = frozenset({"mark", "bar", "line", "area", "arc", "point", "circle", "square"})

CHANNELS = frozenset({"x", "y", "theta", "color", "fill", "stroke", "shape", "detail", "xOffset", "yOffset", "tooltip"})
"""Channels whose field is drawn."""
LOOKS = words("opacity fillOpacity strokeOpacity strokeWidth strokeDash size angle description text")
"""Channels that may have a fixed value; one of `y2`, say, also ends the stacking."""
SPLITTING = ("color", "fill", "stroke", "shape", "detail")
CATEGORY = frozenset({"field", "type", "timeUnit", "bin", "sort", "title", "axis", "scale"})
MEASURE = frozenset({"field", "type", "aggregate", "title", "axis", "scale", "stack", "legend"})
MEASURE_SCALE = frozenset({"type", "zero", "nice", "domain", "domainMin", "domainMax", "padding"})
SPLIT = frozenset({"field", "type", "sort", "title", "legend", "scale"})


def is_dressing(spec: Mapping[str, Any], encoding: Mapping[str, Any]) -> bool:
    """Return whether all of *spec* but its rows and the fields that are drawn is its look."""
    config = spec.get("config")
    return (
        spec.keys() <= VIEW
        and not _computes(spec)
        and _is_plain_mark(spec.get("mark"))
        and (config is None or (is_object(config) and all(_is_plain_config(*each) for each in config.items())))
        and all(_is_shown(channel, each) for channel, each in encoding.items())
        and _groups_nothing_else(encoding)
    )


def is_measure(definition: Definition) -> bool:
    """Return whether a channel shows an amount. Raises `NotPlain` when it does so in a way that is not plain."""
    aggregate = definition.get("aggregate")
    if aggregate is None and (definition.get("type") != "quantitative" or definition.get("bin")):
        if definition.keys() - CATEGORY:
            raise NotPlain
        return False
    scale = definition.get("scale")
    if definition.keys() - MEASURE or definition.get("type", "quantitative") != "quantitative":
        raise NotPlain
    if scale is not None and not (
        is_object(scale) and not scale.keys() - MEASURE_SCALE and scale.get("type", "linear") == "linear"
    ):
        raise NotPlain
    if not isinstance(definition.get("field"), str) and aggregate != "count":
        raise NotPlain
    return True


def series_of(encoding: Mapping[str, Any], category: Definition, offset: str | None) -> Definition | None:
    """Return the definition whose values are series, None when there is one series; *category* colours nothing new.

    Raises `NotPlain` when several fields split the marks.
    """
    channels = SPLITTING if offset is None else (*SPLITTING, offset)
    split: dict[str, Definition] = {}
    for channel in channels:
        for each in _listed(encoding.get(channel)):
            if "field" not in each:
                continue
            field = each["field"]
            if not isinstance(field, str) or each.keys() - SPLIT or each.get("type", "nominal") not in DISCRETE:
                raise NotPlain
            if field == category.get("field") and channel != offset:
                if "timeUnit" in category or "bin" in category:
                    raise NotPlain
                continue
            split.setdefault(field, each)
    if len(split) > 1:
        raise NotPlain
    return next(iter(split.values()), None)


def splits_categories(encoding: Mapping[str, Any], category: Definition) -> bool:
    """Return whether a colour, or another channel that splits the marks, has the field of the categories."""
    listed = [each for channel in SPLITTING for each in _listed(encoding.get(channel))]
    return any(each.get("field") == category.get("field") for each in listed)


def titled(definition: Definition, guide: str = "axis") -> str | None:
    """Return the title of an axis or a legend: its own, that of the channel, or the one that Vega-Lite makes."""
    part = definition.get(guide, {})
    if part is None:
        return None
    if not is_object(part):
        raise NotPlain
    if "title" in part:
        return title_of(part["title"])
    return title_of(definition["title"]) if "title" in definition else name_of(definition)


def title_of(title: Any) -> str | None:
    """Return a title, which may have several lines, or be the text of an object. Raises `NotPlain`."""
    if is_object(title):
        title = title.get("text")
    if is_list(title):
        title = " ".join(str(each) for each in title)
    if not (title is None or isinstance(title, str)):
        raise NotPlain
    return title or None


def _computes(spec: Mapping[str, Any]) -> bool:
    """Return whether an expression is outside the rows, whose value only Vega knows."""
    waiting: list[Any] = [each for key, each in spec.items() if key not in ("data", "datasets")]
    while waiting:
        each = waiting.pop()
        if is_object(each):
            if any(key in EXPRESSIONS or str(key).endswith("Expr") for key in each):
                return True
            waiting += each.values()
        elif is_list(each):
            waiting += each
    return False


def _is_plain_mark(mark: Any) -> bool:
    if not is_object(mark):
        return isinstance(mark, str)
    return mark.keys() <= MARK and mark.get("interpolate", "linear") in CURVES


def _is_plain_config(key: str, value: Any) -> bool:
    if key in MARKED:
        return _is_plain_mark(value)
    if key not in CONFIG:
        return False
    return not (key.startswith("axis") and is_object(value) and AXIS_MEANS & value.keys())


def _is_shown(channel: str, definition: Any) -> bool:
    """Return whether a channel is one whose field is drawn, or has a fixed value for its look."""
    return all(
        "condition" not in each
        and "datum" not in each
        and (channel in CHANNELS or (channel in LOOKS and set(each) == {"value"}))
        for each in _listed(definition)
    )


def _groups_nothing_else(encoding: Mapping[str, Any]) -> bool:
    """Return whether the fields of tooltips make no groups: where anything is aggregated, each field makes some."""
    drawn = [each for key, listed in encoding.items() if key != "tooltip" for each in _listed(listed)]
    channels = _listed(encoding.get("tooltip"))
    if not any("aggregate" in each for each in drawn):
        return not any("aggregate" in each or "bin" in each for each in channels)
    groups = [_grouping(each) for each in drawn if "field" in each and "aggregate" not in each]
    return all("aggregate" in each or "field" not in each or _grouping(each) in groups for each in channels)


def _grouping(definition: Definition) -> tuple[Any, ...]:
    return definition.get("field"), definition.get("timeUnit"), definition.get("bin")


def _listed(definition: Any) -> list[Definition]:
    """Return the definitions of a channel, which may have none, one or several. Raises `NotPlain`."""
    if definition is None:
        return []
    listed = definition if is_list(definition) else [definition]
    if not all(map(is_object, listed)):
        raise NotPlain
    return list(listed)


Row = Mapping[str, Any]

MAX_CATEGORIES = 5_000
SPARSE = 3
"""How many times as many categories as there are values a time axis may have: more would be mostly empty."""
DISCRETE_SCALE = frozenset(
    {"type", "domain", "range", "scheme", "padding", "paddingInner", "paddingOuter", "round", "align"}
)
DISCRETE_SCALES = (None, "band", "point", "ordinal")


class Dimension(NamedTuple):
    """*keys* are those of the rows, None where a row is not drawn; *labels* are those of the keys in *ordered*."""

    keys: list[Hashable]
    ordered: list[Hashable]
    labels: list[str]


class Ordering(NamedTuple):
    """What an order may refer to: the rows, the definitions of all channels, the aggregate of those that name none."""

    rows: Sequence[Row]
    encoding: Mapping[str, Any]
    default: str


def category_axis(definition: Definition, ordering: Ordering, *, fills: bool) -> Dimension:
    """Return the categories along an axis; when *fills*, a time axis gets the units that no row has.

    Raises `NotPlain` when the axis is one of numbers, or one whose categories would not be evenly spaced.
    """
    cells = column(ordering.rows, definition)
    if definition.get("bin") not in (None, False):
        return _binned(definition, cells)
    unit = _time_unit(definition)
    kind = definition.get("type", "temporal" if unit else "nominal")
    if kind == "temporal":
        return _timeline(definition, cells, unit, fills=fills)
    if kind not in ("nominal", "ordinal"):
        raise NotPlain
    return discrete(definition, ordering)


def discrete(definition: Definition, ordering: Ordering) -> Dimension:
    """Return the values of a discrete field, in the order of its `sort`. Raises `NotPlain`."""
    cells = column(ordering.rows, definition)
    unit = _time_unit(definition)
    if unit is not None:
        times = _times(cells, unit.floor)
        order = _ordered(definition, times, sorted(set(times)), ordering)
        return Dimension([*times], order, _time_labels(order, unit, _format(definition)))
    if _format(definition) is not None:
        raise NotPlain
    kinds = {"number" if is_number(cell) else type(cell).__name__ for cell in cells if cell is not None}
    if len(kinds) > 1:
        raise NotPlain
    values = set(cells)
    if values & INHERITED:
        raise NotPlain  # Vega's stacks look categories up among the properties of an object
    ascending = sorted((each for each in values if each is not None), key=_rank)
    keys: list[Hashable] = [NULL if cell is None else cell for cell in cells]
    order = _ordered(definition, keys, [NULL, *ascending] if None in values else ascending, ordering)
    return Dimension(keys, order, unique([label_of(each) for each in order]))


def column(rows: Sequence[Row], definition: Definition) -> list[Any]:
    """Return the cells of a definition's field. Raises `NotPlain` where one is missing, or no text, number or null."""
    field = definition.get("field")
    if not isinstance(field, str) or "aggregate" in definition:
        raise NotPlain
    cells = [row.get(plain_name(field), ABSENT) for row in rows]
    if not all(cell is None or isinstance(cell, str | bool) or is_number(cell) for cell in cells):
        raise NotPlain
    return cells


def unique(labels: list[str]) -> list[str]:
    """Return *labels*. Raises `NotPlain` when two are the same, or when they are too many."""
    if len(set(labels)) < len(labels) or len(labels) > MAX_CATEGORIES:
        raise NotPlain
    return labels


def _binned(definition: Definition, cells: list[Any]) -> Dimension:
    if definition.get("type", "quantitative") != "quantitative" or _format(definition) is not None:
        raise NotPlain
    if definition.get("sort", "ascending") not in (None, "ascending") or definition.get("scale") is not None:
        raise NotPlain
    numbers = figures(cells)
    bins = bins_of(numbers, definition["bin"])
    keys: list[Hashable] = [None if cell is None else bins.index(cell) for cell in cells]
    indices = range(len(bins))
    return Dimension(keys, list(indices), unique([bins.label(each) for each in indices]))


def _timeline(definition: Definition, cells: list[Any], unit: TimeUnit | None, *, fills: bool) -> Dimension:
    if definition.get("sort", "ascending") not in (None, "ascending"):
        raise NotPlain
    scale = definition.get("scale")
    if scale is not None and not (is_object(scale) and not scale.keys() - {"type", "nice", "padding"}):
        raise NotPlain
    keys = _times(cells, lambda at: at if unit is None else unit.floor(at))
    present = sorted(set(keys))
    if not present:
        raise NotPlain
    steps = unit or spacing(present)
    order = _steps(present, steps)
    if len(order) > len(present) and not fills:
        raise NotPlain
    return Dimension([*keys], [*order], _time_labels(order, steps, _format(definition)))


def _times(cells: list[Any], floor: Callable[[datetime], datetime]) -> list[datetime]:
    """Return the instant of each cell; equal cells are read once, since most rows share theirs with others."""
    if not {type(cell) for cell in cells} <= {str, int, float}:
        raise NotPlain
    times = {cell: floor(instant(cell)) for cell in set(cells)}
    return [times[cell] for cell in cells]


def _steps(present: list[datetime], unit: TimeUnit) -> list[datetime]:
    """Return each unit from the first to the last of *present*. Raises `NotPlain` when these are not among them."""
    steps = [present[0]]
    limit = min(SPARSE * len(present) + 1, MAX_CATEGORIES)
    while steps[-1] < present[-1]:
        if len(steps) == limit:
            raise NotPlain
        try:
            steps.append(unit.next(steps[-1]))
        except (OverflowError, ValueError) as error:
            raise NotPlain from error
    if not set(present) <= set(steps):
        raise NotPlain
    return steps


def _time_labels(order: Iterable[Any], unit: TimeUnit, format: str | None) -> list[str]:
    """Return the labels by *format* where they differ, by the unit's own otherwise."""
    times = list(order)
    if format is not None and len(set(labels := [written(each, format) for each in times])) == len(times):
        return unique(labels)
    return unique([written(each, unit.format) for each in times])


def _time_unit(definition: Definition) -> TimeUnit | None:
    unit = definition.get("timeUnit")
    if is_object(unit) and set(unit) == {"unit"}:
        unit = unit["unit"]
    if unit is not None and not isinstance(unit, str):
        raise NotPlain
    return None if unit is None else unit_named(unit)


def _format(definition: Definition) -> str | None:
    axis = definition.get("axis")
    if axis is not None and not is_object(axis):
        raise NotPlain
    format = axis.get("format") if axis else None
    if format is not None and not isinstance(format, str):
        raise NotPlain
    return format


def _ordered(definition: Definition, keys: Sequence[Hashable], ascending: list[Any], ordering: Ordering) -> list[Any]:
    """Return the keys in the order that a definition's scale or `sort` gives; *ascending* has each once."""
    scale = definition.get("scale")
    if scale is not None:
        if not is_object(scale) or scale.keys() - DISCRETE_SCALE or scale.get("type") not in DISCRETE_SCALES:
            raise NotPlain
        if (domain := scale.get("domain")) is not None:
            named = _keys(domain)
            if len(named) != len(ascending) or set(named) != set(ascending):
                raise NotPlain
            return named
    appearing = list(dict.fromkeys(keys))
    match definition.get("sort", "ascending"):
        case "ascending":
            return ascending
        case "descending":
            return ascending[::-1]
        case None:
            return appearing
        case sort if is_list(sort):
            if "timeUnit" in definition:
                raise NotPlain
            first = [each for each in dict.fromkeys(_keys(sort)) if each in appearing]
            return first + [each for each in appearing if each not in first]
        case sort:
            return _by_totals(sort, keys, appearing, ordering)


def _keys(values: Any) -> list[Hashable]:
    """Return the keys of values that a specification lists. Raises `NotPlain`."""
    if not is_list(values) or not all(each is None or isinstance(each, str | int | float) for each in values):
        raise NotPlain
    return [NULL if each is None else each for each in values]


def _by_totals(sort: Any, keys: Sequence[Hashable], appearing: list[Any], ordering: Ordering) -> list[Any]:
    """Return the keys by an aggregate of the rows of each; those with equal ones in the order of their appearance."""
    field, op, descending = _criterion(sort, ordering)
    groups: dict[Hashable, list[Any]] = {key: [] for key in appearing}
    for key, row in zip(keys, ordering.rows, strict=True):
        groups[key].append(row.get(field, ABSENT))
    totals = {key: aggregated(op, cells, ORDERING) for key, cells in groups.items()}
    if None in totals.values():
        raise NotPlain
    sign = -1 if descending else 1
    return sorted(appearing, key=lambda key: sign * (totals[key] or 0))


def _criterion(sort: Any, ordering: Ordering) -> tuple[str, str, bool]:
    """Return field, aggregate and whether the order is descending, of a `sort` by a channel or by a field."""
    if isinstance(sort, str):
        sort = {"encoding": sort.removeprefix("-"), "order": "descending" if sort.startswith("-") else "ascending"}
    if not is_object(sort) or sort.get("order", "ascending") not in ("ascending", "descending"):
        raise NotPlain
    descending = sort.get("order") == "descending"
    if "encoding" in sort:
        channel = ordering.encoding.get(sort["encoding"]) if sort["encoding"] in ("x", "y", "theta") else None
        if not is_object(channel) or not is_measure(channel):
            raise NotPlain
        field, op = channel.get("field"), channel.get("aggregate", ordering.default)
    else:
        field, op = sort.get("field"), sort.get("op", ordering.default)
    if not isinstance(op, str) or not (isinstance(field, str) or op == "count"):
        raise NotPlain
    return plain_name(field or ""), op, descending


def _rank(value: Any) -> Any:
    """Return what orders texts as JavaScript does, by their UTF-16 code units."""
    return value.encode("utf-16-be", "surrogatepass") if isinstance(value, str) else value


_D3 = re.compile(r"(?P<sign>\$)?,?(?:\.(?P<decimals>[0-9]))?(?P<trims>~)?(?P<kind>[%fds]?)")


def amount_format(definition: Any) -> str | None:
    """Return the format of the axis of an amount as one of `formats.NUMERIC`, None when it has none.

    `%`, `$` (the currency of d3), `,`, `.2f` and `d` are read. `s`, which only shortens numbers,
    is left to each surface. Raises `NotPlain` on all others.
    """
    axis = definition.get("axis")
    if not is_object(axis):
        return None
    format = axis.get("format")
    if axis.get("formatType", "number") not in ("number", None):
        raise NotPlain
    if format is None or format == "":
        return None
    match = _D3.fullmatch(format) if isinstance(format, str) else None
    if match is None:
        raise NotPlain
    return _named(*match.group("sign", "decimals", "trims", "kind"))


def _named(sign: str | None, decimals: str | None, trims: str | None, kind: str) -> str:
    if (kind == "" and decimals is not None) or (kind == "%" and sign is not None):
        raise NotPlain  # significant digits, and `$12%`
    name = "percent" if kind == "%" else "number" if sign is None else "currency:USD"
    if kind == "d":
        return f"{name}.0"
    fixes = kind in ("%", "f") and decimals is not None and trims is None
    return f"{name}.{decimals}" if fixes else name


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
