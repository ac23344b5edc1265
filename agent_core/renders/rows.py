"""Rows of results: found in what a tool answered, then filtered, ordered, cut and reduced to columns. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from agent_core.domain.messages import clean
from agent_core.domain.shorten import shorten

Row = dict[str, Any]
PLACES = ("rows", "items", "results", "data", "result")
"""Where in an object its rows may be, in the order in which they are looked for."""
MAX_FOUND = 2_000_000
"""Characters of a result in which rows are looked for: some 30 ms of decoding, for which a thread holds the GIL."""
MAX_ROWS = 100_000
MAX_COLUMNS = 200
"""Columns that are named; the cells of further ones are kept too."""
_MAX_LIST = 400
_MAX_NAME = 60
_BEGINS = ("[", "{")
_SHOWN_VALUES = 10
# Other separators of lines too: a model may read them as line ends.
_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_UNSEEN = r"\u00ad\u200b-\u200f\u2060\ufeff"
_IMITATED = re.compile(
    rf"((?:^|[{_ENDS}])(?:[^\S{_ENDS}]|[{_UNSEEN}])*)(?=\[result r[0-9])",
    re.IGNORECASE,
)


class FoundRows(msgspec.Struct, frozen=True):
    """Rows of one result, with the union of their keys in the order in which they first come."""

    rows: tuple[Row, ...]
    columns: tuple[str, ...]


class HandleOfRows(msgspec.Struct, frozen=True):
    """What a session knows of kept rows: they are called `r<n>`, there are *count* of them, with these *columns*."""

    n: int
    count: int
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"r{self.n}"


def may_hold_rows(text: str) -> bool:
    """Return whether *text* is worth decoding: it begins as JSON does, and is not beyond `MAX_FOUND`."""
    return len(text) <= MAX_FOUND and text[:100].lstrip().startswith(_BEGINS)


def rows_in(text: str) -> FoundRows | None:
    """Return the rows in the JSON *text*: a list of objects, or one under a key of `PLACES`; None when it holds none.

    More than `MAX_ROWS` are none: nothing is kept in part.
    """
    if not may_hold_rows(text):
        return None
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    places = [cast("Row", value).get(name) for name in PLACES] if isinstance(value, dict) else [value]
    for each in places:
        if (rows := _rows(each)) is not None:
            return FoundRows(rows, columns_of(rows))
    return None


def columns_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the keys of *rows* in the order in which they first come, at most `MAX_COLUMNS`."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
        if len(names) >= MAX_COLUMNS:
            break
    return tuple(names)[:MAX_COLUMNS]


def note_of(handle: HandleOfRows) -> str:
    """Return the line by which a model knows the rows of a result: `[result r4: 214 rows x 6 columns: id, …]`."""
    rows, columns = counted(handle.count, "row"), counted(len(handle.columns), "column")
    return f"[result {handle.name}: {rows} x {columns}: {listed(handle.columns)}]"


def without_notes(text: str) -> str:
    """Return *text* of a tool with a backslash before each line that looks like one of `note_of`."""
    return _IMITATED.sub(r"\1\\", text) if "[result r" in text.casefold() else text


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return *count* of a *noun* in words: `1 row`, `2,000 rows`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str]) -> str:
    """Return *names* on one line of bounded length."""
    texts, length = list[str](), 0
    for name in names:
        plain = shorten(" ".join(clean(name).split()), _MAX_NAME)
        length += len(plain) + 2
        if length > _MAX_LIST:
            return ", ".join([*texts, "…"])
        texts.append(plain)
    return ", ".join(texts)


def select(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Return *rows* with the cells of *columns* only; a cell that a row lacks is left out."""
    return [{name: row[name] for name in columns if name in row} for row in rows]


def where_equal(rows: Sequence[Row], wanted: Mapping[str, Any]) -> list[Row]:
    """Return the rows whose cells equal those *wanted*; null is also a cell that is not there. 1 is 1.0, not true."""
    keys = [(name, _identity(value)) for name, value in wanted.items()]
    return [row for row in rows if all(_identity(row.get(name)) == value for name, value in keys)]


def values_of(rows: Sequence[Row], column: str) -> str:
    """Return some of the values of *column*, each once, on one line: what a filter could have named."""
    values: dict[Any, str] = {}
    for row in rows:
        values.setdefault(_identity(row.get(column)), _as_text(row.get(column)))
        if len(values) > _SHOWN_VALUES:
            return ", ".join([*list(values.values())[:_SHOWN_VALUES], "…"])
    return ", ".join(values.values())


def ordered(rows: Sequence[Row], by: Sequence[tuple[str, bool]]) -> list[Row]:
    """Return *rows* in the order of several columns, the first one first; True is descending. Equal rows stay in order.

    Values of different types do not mix: booleans, then numbers, texts (without regard to case), and the rest. Nulls
    come last, in descending order too.
    """
    ordered_rows = list(rows)
    for name, descending in reversed(by):
        there = [row for row in ordered_rows if not _is_null(row.get(name))]
        there.sort(key=lambda row: _rank(row[name]), reverse=descending)
        ordered_rows = there + [row for row in ordered_rows if _is_null(row.get(name))]
    return ordered_rows


def _rows(value: object) -> tuple[Row, ...] | None:
    if not isinstance(value, list) or not 1 <= len(items := cast("list[object]", value)) <= MAX_ROWS:
        return None
    return tuple(cast("list[Row]", items)) if all(isinstance(each, dict) for each in items) else None


def _identity(value: Any) -> tuple[str, Any]:
    """Return what equals that of another value exactly when the two are the same JSON."""
    match value:
        case None:
            return "null", None
        case bool():
            return "bool", value
        case int() | float():
            return ("null", None) if _is_null(value) else ("number", value)
        case str():
            return "text", value
        case _:
            return "json", msgspec.json.encode(value, order="deterministic")


def _rank(value: Any) -> tuple[int, Any, Any]:
    match value:
        case bool():
            return 0, value, 0
        case int() | float():
            return 1, value, 0
        case str():
            return 2, value.casefold(), value
        case _:
            return 3, msgspec.json.encode(value, order="deterministic"), 0


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _as_text(value: Any) -> str:
    text = " ".join(clean(value if isinstance(value, str) else msgspec.json.encode(value).decode()).split())
    return shorten(text, _MAX_NAME)
