"""Renders as plain text: what is drawn, in full, for a reader of words; pure.

The text is aligned by the cells of a screen, and what is hidden in it is written as numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agent_core.domain.shorten import shorten
from agent_core.renders.bars import bars, finite, sparkline
from agent_core.renders.cells import one_line, seen
from agent_core.renders.formats import alignments, formatted
from agent_core.renders.grid import GridColumn, grid
from agent_core.renders.heads import chart_name, spec_name
from agent_core.renders.specs import data_of, described
from agent_core.renders.values import DataTable, PlainChart

MAX_TEXT = 100_000
"""Characters of a text at most."""
MAX_COLUMNS = 100
"""Columns of a table that are shown."""
MAX_CELL = 1000
"""Characters of a cell that are shown."""
MAX_NAME = 200
"""Characters that are shown of the name of a column, a category or a series; less where many columns share the text."""
MIN_NAME = 20
BAR = 30
"""Cells of the longest bar; a line of signs has twice as many."""


def table_text(table: DataTable, *, width: int | None = None, rows: int | None = None, limit: int = MAX_TEXT) -> str:
    """Return *table* as aligned text, in lines of at most *width* cells; of *rows* rows and *limit* characters at most.

    Columns that are too many for *width* are shown in groups, each with the first column. The last line says what is
    left out.
    """
    if not table.columns:
        return "(no columns)"
    shown_columns = table.columns[:MAX_COLUMNS]
    fitting = max(1, limit // len(shown_columns))  # a row has a character for each column at least
    shown_table = DataTable(shown_columns, table.rows[: fitting if rows is None else min(rows, fitting)])
    columns = [
        GridColumn(
            _name(column.label, shown_columns, limit),
            [_cell(formatted(row.get(column.key), column.format)) for row in shown_table.rows],
            align,
            firm=align == "right" or column.format in ("date", "datetime"),
        )
        for column, align in zip(shown_table.columns, alignments(shown_table), strict=True)
    ]
    lines, there = grid(columns, into=width, limit=limit)
    text = "\n".join(line.text for line in lines)
    return "\n".join([text, *_left_out(len(table.rows) - there, "row"), *_more_columns(table), *_empty(table)])


class ChartLine(NamedTuple):
    """One line of a chart; at its end is a mark of the series with this number, where there is one."""

    text: str
    series: int | None = None


def chart_lines(chart: PlainChart, *, width: int | None = None, limit: int = MAX_TEXT) -> Iterator[ChartLine]:
    """Yield the lines of *chart* as text: a bar or a line of signs for each of its values, and all its numbers."""
    yield ChartLine(f"{chart_name(chart)}:")
    yield ChartLine("")
    match chart.type:
        case "scatter":
            yield from _points(chart, width, limit)
        case "line" | "area":
            trends = [*_trends(chart, width, limit), ChartLine("")]
            yield from trends
            left = limit - sum(len(line.text) + 1 for line in trends)
            yield from _numbers(chart, width, max(left, limit // 2))
        case "bar" | "pie":
            yield from _bars(chart, width, limit)


def chart_text(chart: PlainChart, *, width: int | None = None, limit: int = MAX_TEXT) -> str:
    """Return *chart* as text, in lines of at most *width* cells and with *limit* characters at most."""
    return "\n".join(line.text for line in chart_lines(chart, width=width, limit=limit))


def spec_text(spec: Mapping[str, Any], *, width: int | None = None, limit: int = MAX_TEXT) -> str:
    """Return a chart that has no plain form as text: what it shows, and the rows of its data."""
    tables = data_of(spec)
    texts = [table_text(table, width=width, limit=limit // len(tables)) for table in tables]
    return "\n\n".join(["\n".join([f"{spec_name(spec)}:", *described(spec)]), *texts])


def _name(text: str, beside: Sequence[object], limit: int) -> str:
    """Return *text* on one line: as much as it may have with as many columns *beside* it."""
    longest = max(MIN_NAME, min(MAX_NAME, limit // (4 * max(1, len(beside)))))
    return one_line(shorten(text, longest))


def _label(text: str) -> str:
    return _name(text, (), MAX_TEXT)


def _cell(text: str) -> str:
    return seen(shorten(text, MAX_CELL)).strip("\n")


def _left_out(count: int, noun: str) -> Iterator[str]:
    if count:
        yield f"… and {count:,} more {noun if count == 1 or noun.endswith('s') else f'{noun}s'}"


def _more_columns(table: DataTable) -> Iterator[str]:
    yield from _left_out(max(0, len(table.columns) - MAX_COLUMNS), "column")


def _empty(table: DataTable) -> Iterator[str]:
    if not table.rows:
        yield "(no rows)"


class _Value(NamedTuple):
    """A line of a bar chart: a *category* at its first series, and the number of the series, None for a total."""

    category: str
    name: str
    value: float | None
    series: int | None


def _bars(chart: PlainChart, width: int | None, limit: int) -> Iterator[ChartLine]:
    """Yield a line with a bar for each value, those of one category together, and a total below each stack."""
    several = len(chart.series) > 1
    names = [_label(series.name) for series in chart.series]
    lines = [line for n in range(len(chart.categories)) for line in _of_category(chart, names, n)]
    values = [line.value for line in lines]
    columns = [GridColumn(_label(chart.x or ""), [line.category for line in lines])]
    if several:
        columns.append(GridColumn("", [line.name for line in lines]))
    head = _label((chart.y or "") if several else chart.series[0].name)
    columns.append(GridColumn(head, [_number(value, chart.format) for value in values], "right"))
    if chart.type == "pie":
        columns.append(GridColumn("share", _shares(values), "right"))
    drawn = bars([line.value if line.series is not None else None for line in lines], _bar_cells(width))
    columns.append(GridColumn("", drawn, firm=True))
    yield from _grid(columns, width, limit, "value", [line.series for line in lines])


def _of_category(chart: PlainChart, names: Sequence[str], n: int) -> Iterator[_Value]:
    for at, series in enumerate(chart.series):
        yield _Value(_label(chart.categories[n]) if at == 0 else "", names[at], series.values[n], at)
    if chart.stacked and len(chart.series) > 1:
        yield _Value("", "total", sum(finite(series.values[n]) or 0.0 for series in chart.series), None)


def _shares(values: Sequence[float | None]) -> list[str]:
    total = sum(max(0.0, finite(value) or 0.0) for value in values)
    return [formatted((finite(value) or 0.0) / total, "percent") if total > 0 else "" for value in values]


def _trends(chart: PlainChart, width: int | None, limit: int) -> Iterator[ChartLine]:
    """Yield a line of signs for each series, with its least and its largest value."""
    there = [[value for each in series.values if (value := finite(each)) is not None] for series in chart.series]
    columns = [
        GridColumn("", [_label(series.name) for series in chart.series]),
        GridColumn("min", [_number(min(values, default=None), chart.format) for values in there], "right"),
        GridColumn("max", [_number(max(values, default=None), chart.format) for values in there], "right"),
        GridColumn("", [sparkline(series.values, 2 * _bar_cells(width)) for series in chart.series], firm=True),
    ]
    yield from _grid(columns, width, limit, "series", range(len(chart.series)))


def _numbers(chart: PlainChart, width: int | None, limit: int) -> Iterator[ChartLine]:
    """Yield a table of the categories and the value that each series has there."""
    columns = [GridColumn(_label(chart.x or ""), [_label(category) for category in chart.categories])]
    columns += [
        GridColumn(
            _name(series.name, chart.series, limit), [_number(value, chart.format) for value in series.values], "right"
        )
        for series in chart.series
    ]
    yield from _grid(columns, width, limit, "value")


def _points(chart: PlainChart, width: int | None, limit: int) -> Iterator[ChartLine]:
    named = [(_label(series.name), series.points) for series in chart.series]
    points = [(name, x, y) for name, places in named for x, y in places]
    columns = [GridColumn("", [name for name, _, _ in points])] if len(chart.series) > 1 else []
    columns.append(GridColumn(_label(chart.x or "x"), [_number(x) for _, x, _ in points], "right"))
    columns.append(GridColumn(_label(chart.y or "y"), [_number(y, chart.format) for _, _, y in points], "right"))
    yield from _grid(columns, width, limit, "point")


def _grid(
    columns: Sequence[GridColumn], width: int | None, limit: int, noun: str, series: Sequence[int | None] = ()
) -> Iterator[ChartLine]:
    """Yield *columns* as lines, each with the series of its row."""
    lines, rows = grid(columns, into=width, limit=limit)
    for text, row in lines:
        yield ChartLine(text, None if row is None or not series else series[row])
    for text in _left_out(len(columns[0].cells) - rows, noun):
        yield ChartLine(text)


def _number(value: float | None, format: str | None = None) -> str:
    return formatted(value, format or "number") if finite(value) is not None else ""


def _bar_cells(width: int | None) -> int:
    """Return the cells of the longest bar: less where there is little room."""
    return BAR if width is None else max(5, min(BAR, width // 3))
