"""What is drawn: a table of rows, one plain chart to which most charts are reduced, and their cells as text; pure."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
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


FORMATS = ("text", "number", "integer", "percent (0.12 is 12 %)", "date", "datetime", "currency:EUR (or another code)")
"""The formats in words; see `FORMAT`."""
FORMAT = re.compile(r"text|number|integer|percent|date|datetime|currency:[A-Z]{3}")
"""What the `format` of a column may be; `percent` shows 0.12 as 12 %, a currency is its ISO 4217 code."""
NUMERIC = re.compile(r"(?:(number|integer|percent)|currency:([A-Z]{3}))(?:\.([0-9]))?")
"""The formats of numbers, whose columns are aligned right; those of a chart may fix the decimals: `percent.1`."""

# Signs and decimals as the English locale of CLDR has them; a currency without a sign is written as its code.
_SIGNS = {
    "USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "CNY": "CN¥", "KRW": "₩", "BRL": "R$", "CAD": "CA$",
    "AUD": "A$", "MXN": "MX$", "NZD": "NZ$", "HKD": "HK$", "TWD": "NT$", "ILS": "₪", "VND": "₫", "PHP": "₱",
}  # fmt: skip
_NO_DECIMALS = frozenset(
    {"BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"}
)
_THREE_DECIMALS = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(_DAY.pattern + r"[T ].{4,}")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MAX_DIGITS = 1000
"""Characters of a text that is read as a number."""
_EXACT = Context(prec=1_000_000, rounding=ROUND_HALF_UP)
_MILLISECONDS = 1e11
"""From here on a number under a format of dates is milliseconds since 1970; a smaller one may be a year."""
_HUGE, _TINY = Decimal("1e21"), Decimal("1e-9")
"""Outside of these a number that is not whole in JSON is written with an exponent."""


def formatted(value: Any, format: str | None = None) -> str:
    """Return *value* of JSON as the text of a cell; null is the empty text, and what does not fit *format* is as it is.

    Numbers have English signs. Without *format* they are not grouped, since they may be ids or years. `number` has
    three decimals or three significant digits, whichever shows more, `percent` one or two: `Intl.NumberFormat` does
    the same with `roundingPriority: "morePrecision"`. A moment with an offset is shown in UTC, others as they are.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if format in ("date", "datetime"):
        return _dated(value, with_time=format == "datetime")
    numeric = _numeric(format) if format else None
    number = number_of(value) if numeric else None
    if number is not None and numeric:
        return _numbered(number, numeric)
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return _plain(value)
    return as_json(value)


def number_of(value: Any) -> Decimal | None:
    """Return the number that *value* of JSON is, also one written as text; None when it is none, or not finite."""
    if isinstance(value, str):
        return Decimal(value) if len(value) <= _MAX_DIGITS and _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        return Decimal(f"{value:.15g}") if math.isfinite(value) else None
    return Decimal(value)


def amount_sign(format: str | None) -> str:
    """Return the sign that *format* writes at each amount: `%`, that of a currency, or the empty text."""
    match = NUMERIC.fullmatch(format or "")
    if match is None:
        return ""
    kind, currency, _ = match.groups()
    return "%" if kind == "percent" else _sign(currency).strip() if currency else ""


def alignments(table: DataTable) -> tuple[Align, ...]:
    """Return how each column of *table* is aligned: as it says, numbers right, all else left."""
    return tuple(
        column.align or ("right" if _is_numeric(column, (row.get(column.key) for row in table.rows)) else "left")
        for column in table.columns
    )


def as_json(value: Any) -> str:
    """Return a nested *value* as compact JSON; dots where it is too deep, or has a number of too many digits."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (RecursionError, ValueError):
        return "…"


def _is_numeric(column: TableColumn, values: Iterable[Any]) -> bool:
    if column.format is not None:
        return NUMERIC.fullmatch(column.format) is not None
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there)


def _plain(value: float) -> str:
    """Return a number without groups, and without the noise of binary fractions."""
    number = number_of(value)
    if number is None or _is_far(number):
        return str(value)
    return _trimmed(f"{number or abs(number):f}")


def _is_far(number: Decimal) -> bool:
    """Return whether *number*, which is not whole, would be a row of zeros."""
    return number.as_tuple().exponent != 0 and bool(number) and not _TINY <= abs(number) < _HUGE


@lru_cache(256)
def _numeric(format: str) -> tuple[str | None, str, int | None] | None:
    """Return what a format of numbers says: its kind or its currency, and the decimals that it fixes."""
    match = NUMERIC.fullmatch(format)
    if match is None:
        return None
    kind, currency, decimals = match.groups()
    return kind, currency, None if decimals is None else int(decimals)


def _numbered(number: Decimal, format: tuple[str | None, str, int | None]) -> str:
    kind, currency, fixed = format
    if _is_far(number):
        return f"{number:.3g}" if abs(number) < 1 else f"{number:.15g}"
    if kind == "integer":
        return _rounded(number, 0)
    if kind == "percent":
        return f"{_decimal(_scaled(number, 2), fixed, limit=1, digits=2)}%"
    if kind == "number":
        return _decimal(number, fixed, limit=3, digits=3)
    amount = _rounded(number, _decimals(currency) if fixed is None else fixed)
    sign = _sign(currency)
    return f"-{sign}{amount[1:]}" if amount.startswith("-") else f"{sign}{amount}"


def _sign(currency: str) -> str:
    return _SIGNS.get(currency, f"{currency}\u00a0")


def _decimals(currency: str) -> int:
    return 0 if currency in _NO_DECIMALS else 3 if currency in _THREE_DECIMALS else 2


def _decimal(number: Decimal, fixed: int | None, *, limit: int, digits: int) -> str:
    """Return *number* with *fixed* decimals; without these, with as many as it needs."""
    if fixed is not None:
        return _rounded(number, fixed)
    return _trimmed(_rounded(number, _places(number, limit=limit, digits=digits)))


def _scaled(number: Decimal, places: int) -> Decimal:
    return number.scaleb(places, context=_EXACT)


def _places(number: Decimal, *, limit: int, digits: int) -> int:
    """Return the decimals of *number*: *limit*, or as many as *digits* significant ones need."""
    return max(limit, digits - 1 - number.adjusted()) if number else 0


def _rounded(number: Decimal, places: int) -> str:
    """Return *number* grouped with *places* decimals; half is rounded away from zero, and there is no minus zero."""
    rounded = number.quantize(Decimal(1).scaleb(-places), context=_EXACT)
    return f"{rounded or abs(rounded):,f}"


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _dated(value: Any, *, with_time: bool) -> str:
    if isinstance(value, int | float):
        return _of_milliseconds(value, with_time=with_time)
    if not isinstance(value, str):
        return formatted(value)
    try:
        if _DAY.fullmatch(value):
            return _day(datetime.fromisoformat(value))
        if not _MOMENT.fullmatch(value):
            return value
        moment = datetime.fromisoformat(value)
        return _moment(moment if moment.tzinfo is None else moment.astimezone(UTC), with_time=with_time)
    except (ValueError, OverflowError):
        return value


def _of_milliseconds(value: float, *, with_time: bool) -> str:
    if not math.isfinite(value) or abs(value) < _MILLISECONDS:
        return _plain(value)
    try:
        return _moment(datetime.fromtimestamp(value / 1000, UTC), with_time=with_time)
    except (ValueError, OverflowError, OSError):
        return _plain(value)


def _moment(moment: datetime, *, with_time: bool) -> str:
    if not with_time:
        return _day(moment)
    seconds = f":{moment:%S}" if moment.second else ""
    return f"{_day(moment)}, {moment:%H:%M}{seconds}{' UTC' if moment.tzinfo else ''}"


def _day(moment: datetime) -> str:
    return f"{_MONTHS[moment.month - 1]} {moment.day}, {moment.year}"
