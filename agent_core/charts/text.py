"""Tables and charts as text: in full for a reader of words, in a line or two, and as CSV; pure."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from agent_core.charts.layout import GridColumn, bars, cut, finite, grid, one_line, seen, sparkline
from agent_core.charts.rows import counted
from agent_core.charts.values import (
    DataTable,
    PlainChart,
    alignments,
    as_json,
    chart_of,
    formatted,
    number_of,
    table_of,
    table_of_rows,
)
from agent_core.messages import shorten

_PARTS = {
    "layer": "layers",
    "hconcat": "charts side by side",
    "vconcat": "charts one below the other",
    "concat": "charts",
}
_DEEPEST = 24
"""Levels of views within views that are read."""
_MAX_VIEWS = 20
"""Views that are described."""
_MAX_TABLES = 100
"""Tables of data that are read: each is compared with those before it."""
_MAX_WORD = 200
"""Characters of a word of a specification that are shown."""
_MAX_DESCRIPTION = 2_000
"""As many as a checked specification may have."""


def described(spec: Mapping[str, Any]) -> list[str]:
    """Return sentences about *spec*: what its marks are and which field each channel shows; not its title."""
    description = spec.get("description")
    sentences = (
        [one_line(description[:_MAX_DESCRIPTION])] if isinstance(description, str) and description.strip() else []
    )
    views = [sentence for view in _walked(spec) if (sentence := _sentence(view))]
    more = ["There are more views."] if len(views) > _MAX_VIEWS else []
    return [*sentences, *views[:_MAX_VIEWS], *more] or ["A chart."]


def data_of(spec: Mapping[str, Any]) -> tuple[DataTable, ...]:
    """Return the tables of rows that are in *spec*, each once, in the order of its views; the first `_MAX_TABLES`."""
    data: list[list[dict[str, Any]]] = []
    named = object_of(spec.get("datasets"))
    for view in _walked(spec):
        rows = _rows(object_of(view.get("data")), named)
        if rows and rows not in data:
            data.append(rows)
        if len(data) == _MAX_TABLES:
            break
    return tuple(table_of_rows(rows) for rows in data)


def channels_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return which field the channels of *spec* show, in words; what several views say is that of the first."""
    channels: dict[str, str] = {}
    for view in islice(_walked(spec), _MAX_VIEWS):
        for name, each in _encoded(view):
            if "datum" not in each and (what := _field(each)):
                channels.setdefault(one_line(name), what)
    return channels


def fields_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the fields that the channels of *spec* show, each once, as they are in its rows."""
    named = (each.get("field") for view in islice(_walked(spec), _MAX_VIEWS) for _, each in _encoded(view))
    return list(dict.fromkeys(field for field in named if isinstance(field, str)))


def _encoded(view: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the channels of *view*, and each definition of those that have several."""
    for name, channel in object_of(view.get("encoding")).items():
        yield from ((name, object_of(each)) for each in _list(channel) or [channel])


def _walked(spec: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield *spec* and the views in it, those around others first."""
    if not spec or depth > _DEEPEST:
        return
    yield spec
    for part in _PARTS:
        for each in _list(spec.get(part)):
            yield from _walked(object_of(each), depth + 1)
    yield from _walked(object_of(spec.get("spec")), depth + 1)


def _rows(data: Mapping[str, Any], named: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of *data*; a value that is no object is in the field `data`, as in Vega-Lite."""
    values = data["values"] if "values" in data else named.get(str(data.get("name")))
    return [object_of(row) if isinstance(row, dict) else {"data": row} for row in _list(values)]


def _sentence(view: Mapping[str, Any]) -> str:
    """Return what *view* shows, without what the views in it show; the empty text where that is all."""
    for part, words in _PARTS.items():
        if part in view:
            return f"{len(_list(view[part]))} {words}."
    if "repeat" in view:
        return f"One chart for each of {_word(view['repeat'])}."
    if facet := object_of(view.get("facet")):
        by = [facet] if "field" in facet else [object_of(each) for each in facet.values()]
        return f"One chart for each {' and '.join(filter(None, map(_field, by)))}."
    if "mark" not in view:
        return ""
    mark = object_of(view["mark"]).get("type", view["mark"])
    channels = ", ".join(f"{one_line(name)} is {what}" for name, each in _encoded(view) if (what := _field(each)))
    return f"Marks of the kind {_word(mark)}{': ' if channels else ''}{channels}."


def _field(channel: Mapping[str, Any]) -> str:
    """Return which field *channel* shows and how it is computed; the empty text where it shows none."""
    field, aggregate = channel.get("field"), channel.get("aggregate")
    if field is None and aggregate is None:
        return _word(channel["datum"]) if "datum" in channel else ""
    name = "records" if field is None else _word(field)
    if channel.get("bin"):
        name = f"{name} in bins"
    if isinstance(unit := channel.get("timeUnit"), str):
        name = f"{name} by {_word(unit)}"
    return name if aggregate is None else f"{_word(aggregate)} of {name}"


def _word(value: Any) -> str:
    return one_line((value if isinstance(value, str) else as_json(value))[:_MAX_WORD])


def object_of(value: Any) -> dict[str, Any]:
    """Return *value* of JSON where it is an object, otherwise one without members."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


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
            yield from _table_of_values(chart, width, max(left, limit // 2))
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
    columns.append(GridColumn(head, [_amount(value, chart.format) for value in values], "right"))
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
        GridColumn("min", [_amount(min(values, default=None), chart.format) for values in there], "right"),
        GridColumn("max", [_amount(max(values, default=None), chart.format) for values in there], "right"),
        GridColumn("", [sparkline(series.values, 2 * _bar_cells(width)) for series in chart.series], firm=True),
    ]
    yield from _grid(columns, width, limit, "series", range(len(chart.series)))


def _table_of_values(chart: PlainChart, width: int | None, limit: int) -> Iterator[ChartLine]:
    """Yield a table of the categories and the value that each series has there."""
    columns = [GridColumn(_label(chart.x or ""), [_label(category) for category in chart.categories])]
    columns += [
        GridColumn(
            _name(series.name, chart.series, limit), [_amount(value, chart.format) for value in series.values], "right"
        )
        for series in chart.series
    ]
    yield from _grid(columns, width, limit, "value")


def _points(chart: PlainChart, width: int | None, limit: int) -> Iterator[ChartLine]:
    named = [(_label(series.name), series.points) for series in chart.series]
    points = [(name, x, y) for name, places in named for x, y in places]
    columns = [GridColumn("", [name for name, _, _ in points])] if len(chart.series) > 1 else []
    columns.append(GridColumn(_label(chart.x or "x"), [_amount(x) for _, x, _ in points], "right"))
    columns.append(GridColumn(_label(chart.y or "y"), [_amount(y, chart.format) for _, _, y in points], "right"))
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


def _amount(value: float | None, format: str | None = None) -> str:
    return formatted(value, format or "number") if finite(value) is not None else ""


def _bar_cells(width: int | None) -> int:
    """Return the cells of the longest bar: less where there is little room."""
    return BAR if width is None else max(5, min(BAR, width // 3))


_IGNORABLE = re.compile(
    "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0\\U000e0100-\\U000e01ef]"
)
"""Without ink although letters or marks: Unicode's default ignorable code points, and Braille's blank."""
MAX_CELLS = 1_000_000
"""Cells of a file: rows without most of their columns would make a large one of a small payload."""
MAX_CSV_BYTES = 10_000_000
"""Bytes of a file; what repeats is a long name of a series."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def csv_of(kind: str, payload: Mapping[str, Any]) -> bytes | None:
    """Return the data of a render as CSV (RFC 4180, UTF-8 with its mark, all quoted); None where it has no rows.

    None too where it would have more than `MAX_CELLS`, before any is written, or more than `MAX_CSV_BYTES`.

    Values are raw, not formatted. A text that a spreadsheet would take for a formula has an apostrophe before it. Of a
    chart it has the categories and each series; of one without a plain form the rows of its largest data set.
    """
    lines = _lines(kind, payload)
    if lines is None:
        return None
    file, text = bytearray(b"\xef\xbb\xbf"), io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    for line in lines:
        writer.writerow([_csv_cell(value) for value in line])
        file += text.getvalue().encode("utf-8", "replace")
        if len(file) > MAX_CSV_BYTES:
            return None
        text.seek(0)
        text.truncate()
    return bytes(file)


def _lines(kind: str, payload: Mapping[str, Any]) -> Iterable[Sequence[Any]] | None:
    if kind == "table":
        table = table_of(payload)
        return None if table is None or _is_large(table) else _of_table(table)
    if kind != "chart":
        return None
    if chart := chart_of(payload):
        return _of_chart(chart)
    tables = data_of(object_of(payload.get("spec")))
    largest = max(tables, key=lambda table: len(table.rows), default=None)
    return None if largest is None or _is_large(largest) else _of_table(largest)


def _is_large(table: DataTable) -> bool:
    return len(table.rows) * len(table.columns) > MAX_CELLS


def _of_table(table: DataTable) -> Iterable[Sequence[Any]]:
    yield [column.label for column in table.columns]
    yield from ([row.get(column.key) for column in table.columns] for row in table.rows)


def _of_chart(chart: PlainChart) -> Iterable[Sequence[Any]]:
    if chart.type == "scatter":
        several = len(chart.series) > 1
        yield [*(["series"] if several else []), chart.x or "x", chart.y or "y"]
        yield from ([*([each.name] if several else []), *point] for each in chart.series for point in each.points)
        return
    yield [chart.x or "category", *(series.name for series in chart.series)]
    yield from zip(chart.categories, *(series.values for series in chart.series), strict=True)


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else str(value)
    if isinstance(value, int):
        return str(number_of(value))  # digits without a limit
    text = value if isinstance(value, str) else as_json(value)
    return f"'{text}" if _is_formula(text) and not _NUMBER.fullmatch(text) else text


def _is_formula(text: str) -> bool:
    """Return whether a cell of *text* is a formula (OWASP, CSV injection): in any width, after what is not seen."""
    if text.startswith(("\t", "\r", "\n", "\0")):
        return True
    first = next((sign for sign in text if not _is_unseen(sign)), "")
    return unicodedata.normalize("NFKC", first).startswith(("=", "+", "-", "@"))


def _is_unseen(sign: str) -> bool:
    return sign.isspace() or unicodedata.category(sign)[0] in "CZ" or _IGNORABLE.match(sign) is not None
