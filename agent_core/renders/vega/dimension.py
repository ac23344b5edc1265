"""The categories and the series of a chart: one key for each row, and the keys in the order of the drawing."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from agent_core.renders.vega.bins import bins_of
from agent_core.renders.vega.cells import INHERITED, NULL, label_of, plain_name
from agent_core.renders.vega.dressing import is_measure
from agent_core.renders.vega.instants import TimeUnit, instant, spacing, unit_named, written
from agent_core.renders.vega.measures import ABSENT, ORDERING, aggregated, figures
from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_list, is_number, is_object

Row = Mapping[str, Any]
Definition = Mapping[str, Any]

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
