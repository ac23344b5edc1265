"""What is drawn: a table of rows, and one plain chart to which most charts are reduced."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

Align = Literal["left", "center", "right"]
Read = TypeVar("Read")
ChartType = Literal["bar", "line", "area", "pie", "scatter"]


class TableColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column: the *key* of its cells in each row, its heading, and how they are shown (see `formats.formatted`)."""

    key: str
    label: str
    align: Align | None = None
    format: str | None = None


class DataTable(msgspec.Struct, frozen=True):
    """The payload of a render of the kind `table`. A row without a column's key has an empty cell there."""

    columns: tuple[TableColumn, ...]
    rows: tuple[dict[str, Any], ...]


class PlainSeries(msgspec.Struct, frozen=True, omit_defaults=True):
    """One series: a value for each category, None for a gap; the *points* (x, y) of a scatter chart instead."""

    name: str
    values: tuple[float | None, ...] = ()
    points: tuple[tuple[float, float], ...] = ()


class PlainChart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chart as every surface can draw it: what a specification says, with aggregates and labels computed.

    *categories* are the labels along the *x* axis, each once, in the order in which they are drawn; a pie has one
    series, whose values are its slices. *x* and *y* are titles of axes. *stacked* series are drawn on top of one
    another, others side by side (bars) or over one another. *horizontal* bars have their categories along the side:
    *x* is still the title of the categories' axis. The values of a *stacked* chart are those of each series alone.
    *format* is how amounts, of a scatter chart those along *y*, are written (see `formats.NUMERIC`).
    """

    type: ChartType
    categories: tuple[str, ...]
    series: tuple[PlainSeries, ...]
    title: str | None = None
    x: str | None = None
    y: str | None = None
    stacked: bool = False
    horizontal: bool = False
    format: str | None = None


class _RoughTable(msgspec.Struct, frozen=True):
    """A table as tools of others may send it."""

    rows: tuple[dict[str, Any] | tuple[Any, ...], ...]
    columns: tuple[str | dict[str, Any], ...] | None = None


def table_of(payload: Mapping[str, Any]) -> DataTable | None:
    """Return the table in the payload of a render, None when there is none: tools of others may show anything.

    What is plain is read: columns as mere names or without a label, rows as lists of cells, rows without columns.
    """
    rough = _read(dict(payload), _RoughTable)
    if rough is None:
        return None
    if rough.columns is None:
        return table_of_rows([row for row in rough.rows if isinstance(row, dict)])
    columns = tuple(column for each in rough.columns if (column := _column(each)) is not None)
    wide = any(isinstance(row, tuple) and len(row) > len(columns) for row in rough.rows)
    if wide or len(columns) < len(rough.columns):
        return None
    return DataTable(columns, tuple(_row(row, columns) for row in rough.rows))


def chart_of(payload: Mapping[str, Any]) -> PlainChart | None:
    """Return the plain chart in the payload of a render, which is `{spec, plain?}`; None when there is none."""
    chart = _read(payload.get("plain"), PlainChart)
    if chart is None or not chart.series:
        return None
    fits = chart.type == "scatter" or all(len(each.values) == len(chart.categories) for each in chart.series)
    return chart if fits else None


def table_of_rows(rows: Sequence[Mapping[str, Any]]) -> DataTable:
    """Return *rows* as a table of all their keys, in the order in which they first occur."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return DataTable(tuple(TableColumn(key, key) for key in keys), tuple(dict(row) for row in rows))


def _column(column: str | dict[str, Any]) -> TableColumn | None:
    if isinstance(column, str):
        return TableColumn(column, column)
    key, label = column.get("key"), column.get("label")
    align, format = column.get("align"), column.get("format")
    if not isinstance(key, str):
        return None
    return TableColumn(
        key,
        label if isinstance(label, str) else key,
        align if align in ("left", "center", "right") else None,
        format if isinstance(format, str) else None,
    )


def _row(row: dict[str, Any] | tuple[Any, ...], columns: tuple[TableColumn, ...]) -> dict[str, Any]:
    if isinstance(row, dict):
        return row
    return {column.key: cell for column, cell in zip(columns, row, strict=False)}


def _read(value: object, of: type[Read]) -> Read | None:
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError:
        return None
