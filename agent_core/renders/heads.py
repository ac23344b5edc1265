"""What a table or a chart is called where it has no title, and what it shows in a line or two; pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from agent_core.renders.cells import cut, one_line
from agent_core.renders.formats import formatted, number_of
from agent_core.renders.rows import counted
from agent_core.renders.specs import channels_of, data_of, described, fields_of, object_of
from agent_core.renders.values import DataTable, PlainChart, chart_of, table_of

_HEADING = 150
"""Cells of a heading that is made of names."""
_NAME = 30
_NAMES = 6
_COLUMNS = 3
_RANGES = 2
"""Series or fields whose extremes are said."""


class RenderHead(NamedTuple):
    """The *heading* of a render, on one line, and *facts* about what it shows, a line each, the first its kind."""

    heading: str
    facts: tuple[str, ...]


def head_of(kind: str, payload: Mapping[str, Any], title: str | None = None) -> RenderHead:
    """Return the head of a render; that of a kind which is not known has its title, else its kind, and no facts."""
    own = one_line(title or "")
    if kind == "table" and (table := table_of(payload)) is not None:
        return RenderHead(own or table_name(table), (_table_facts(table),))
    if kind == "chart" and (chart := chart_of(payload)) is not None:
        return RenderHead(own or one_line(chart.title or "") or chart_name(chart), tuple(_chart_facts(chart)))
    if kind == "chart" and (spec := object_of(payload.get("spec"))):
        return RenderHead(own or title_of_spec(spec) or spec_name(spec), tuple(_spec_facts(spec)))
    return RenderHead(own or one_line(kind).capitalize(), ())


def table_name(table: DataTable) -> str:
    """Return the name of *table* without a title, such as `Table of city and n`."""
    labels = [cut(one_line(column.label), _NAME) for column in table.columns]
    return f"Table of {_listed(labels, _COLUMNS)}" if labels else "Table"


def chart_name(chart: PlainChart) -> str:
    """Return the name of *chart* without a title, such as `Bar chart of n by city`."""
    kind = f"{'stacked ' if chart.stacked else ''}{chart.type} chart"
    return cut(f"{kind[0].upper()}{kind[1:]}{_of_by(chart.y, chart.x)}", _HEADING)


def spec_name(spec: Mapping[str, Any]) -> str:
    """Return the name of a chart of *spec* without a title, such as `Chart of n by city`."""
    fields = channels_of(spec)
    if "x" in fields and "y" in fields:
        return cut(f"Chart{_of_by(fields['y'], fields['x'])}", _HEADING)
    names = list(dict.fromkeys(fields.values()))
    return cut(f"Chart of {_listed(names, _COLUMNS)}", _HEADING) if names else "Chart"


def title_of_spec(spec: Mapping[str, Any]) -> str | None:
    """Return the title of *spec* as text; it may also be an object or several lines."""
    title: Any = spec.get("title")
    title = cast("dict[str, Any]", title).get("text") if isinstance(title, dict) else title
    lines = cast("list[Any]", title) if isinstance(title, list) else [title]
    return one_line(" ".join(each for each in lines if isinstance(each, str))) or None


def _of_by(y: str | None, x: str | None) -> str:
    return f"{f' of {one_line(y)}' if y else ''}{f' by {one_line(x)}' if x else ''}"


def _listed(names: Sequence[str], limit: int) -> str:
    """Return the first *limit* of *names* in words."""
    if len(names) > limit:
        return f"{', '.join(names[:limit])} and {len(names) - limit:,} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _table_facts(table: DataTable) -> str:
    return f"table of {counted(len(table.rows), 'row')} and {counted(len(table.columns), 'column')}"


def _chart_facts(chart: PlainChart) -> list[str]:
    """Return the kind and the size of *chart*, and the extremes of its first series."""
    if chart.type == "scatter":
        points = [point for series in chart.series for point in series.points]
        across = _range(chart.x or "x", [x for x, _ in points])
        up = _range(chart.y or "y", [y for _, y in points], chart.format)
        return [f"scatter chart of {counted(len(points), 'point')}", across, up]
    count = len(chart.categories)
    sizes = counted(count, "category", "categories")
    if len(chart.series) > 1:
        names = ", ".join(cut(one_line(each.name), _NAME) for each in chart.series[:_NAMES])
        more = ", …" if len(chart.series) > _NAMES else ""
        sizes = f"{sizes} and {len(chart.series)} series: {names}{more}"
    return [f"{chart.type} chart of {sizes}", *(_extremes(chart, n) for n in range(min(_RANGES, len(chart.series))))]


def _extremes(chart: PlainChart, n: int) -> str:
    """Return the highest and the lowest value of series *n*, and where they are."""
    series = chart.series[n]
    values = [(value, at) for at, value in enumerate(series.values) if value is not None]
    if not values:
        return ""
    (high, top), (low, bottom) = max(values, key=lambda each: each[0]), min(values, key=lambda each: each[0])
    first, last = (cut(one_line(chart.categories[at]), _NAME) for at in (top, bottom))
    name = f"{cut(one_line(series.name), _NAME)}: " if len(chart.series) > 1 and series.name else ""
    limit, least = _number(high, chart.format), _number(low, chart.format)
    if high == low:
        return f"{name}{limit} throughout" if len(values) > 1 else f"{name}{first} {limit}"
    return f"{name}highest {first} {limit}, lowest {last} {least}"


def _spec_facts(spec: Mapping[str, Any]) -> list[str]:
    """Return what a chart without a plain form shows: its marks and fields, its rows, and the extremes of numbers."""
    table = max(data_of(spec), key=lambda each: len(each.rows), default=None)
    facts = [" ".join(described(spec)).removesuffix(".")]
    if table is None:
        return facts
    facts.append(f"drawn from {counted(len(table.rows), 'row')}")
    ranges = [_range(name, _numbers(table, name)) for name in fields_of(spec)]
    return [*facts, *[each for each in ranges if each][:_RANGES]]


def _numbers(table: DataTable, name: str) -> list[float]:
    """Return the cells of the column *name* when they are numbers, and none otherwise."""
    cells = [row[name] for row in table.rows if row.get(name) is not None]
    numbers = [number for each in cells if not isinstance(each, str) and (number := number_of(each)) is not None]
    return [float(each) for each in numbers] if len(numbers) == len(cells) else []


def _range(name: str, values: Sequence[float], format: str | None = None) -> str:
    label = cut(one_line(name), _NAME)
    return f"{label}: highest {_number(max(values), format)}, lowest {_number(min(values), format)}" if values else ""


def _number(value: float, format: str | None = None) -> str:
    return f"{value:,.12g}" if format is None else formatted(value, format)
