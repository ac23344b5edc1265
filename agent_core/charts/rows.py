"""Rows of results: found in what a tool answered, then filtered, ordered, cut and reduced to columns; pure."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from agent_core.errors import InvalidInput
from agent_core.messages import clean, shorten

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


MAX_TABLE_ROWS = 500
MAX_CHART_ROWS = 5_000


def chosen(rows: Sequence[Row], arguments: Mapping[str, Any], columns: Sequence[str]) -> Sequence[Row]:
    """Return *rows* filtered by `where`, ordered by `order` and cut to `limit`, each if it is in *arguments*.

    *columns* are the columns that may be named. Raises `InvalidInput`, also when a filter leaves no row.
    """
    wanted: Mapping[str, Any] = arguments.get("where") or {}
    for name, value in wanted.items():
        _check_known(f"where.{name}", name, columns)
        left = where_equal(rows, {name: value})
        if not left:
            raise InvalidInput(f"where.{name}", f"no row has this value; there are: {values_of(rows, name)}.")
        rows = left
    by = [_direction(index, name, columns) for index, name in enumerate(arguments.get("order") or ())]
    shown = ordered(rows, by) if by else rows
    return shown[: arguments.get("limit") or len(shown)]


def check_size(count: int, limit: int, *, handle: str | None) -> None:
    """Raise `InvalidInput` when *count* rows are more than *limit*; *handle* is the result that they are of."""
    if count <= limit:
        return
    if handle is not None:
        remedy = f"set `limit` to {limit} or less, or filter with `where`."
        raise InvalidInput("from_result", f"`{handle}` gives {count:,} rows, at most {limit:,} can be shown; {remedy}")
    remedy = "pass the `from_result` of a tool's result with a `limit`, or aggregate them."
    raise InvalidInput("rows", f"{count:,} rows, at most {limit:,} can be shown; {remedy}")


def drawn_columns(spec: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Return those of *columns* that *spec* uses, in their order; raises `InvalidInput` for a missing one."""
    there = set(columns)
    if not any(True for _ in _values(spec, "transform")):
        for name in _values(spec, "field"):
            if isinstance(name, str) and name not in there and _root(name) not in there:
                raise InvalidInput("vega_lite_spec", f"the result has no column `{name[:100]}`; {_listed(columns)}")
    texts = {each for each in _texts(spec) if len(each) <= 1_000}  # noqa: PLR2004 - no column's name is longer
    named = texts | {_root(each) for each in texts} | {each.replace("\\", "") for each in texts}
    used = [name for name in columns if name in named]
    if not used:
        raise InvalidInput("vega_lite_spec", f"it uses no column of the result; {_listed(columns)}")
    return used


def _direction(place: int, name: str, columns: Sequence[str]) -> tuple[str, bool]:
    descending = name.startswith("-") and name not in columns
    plain = name[1:] if descending else name
    _check_known(f"order[{place}]", plain, columns)
    return plain, descending


def _check_known(path: str, name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise InvalidInput(path, f"there is no column `{name[:100]}`; {_listed(columns)}")


def _listed(columns: Sequence[str]) -> str:
    return f"the columns are: {listed(columns) or 'none'}."


def _root(field: str) -> str:
    """Return the column in which the nested *field* is: `a` of `a.b` and of `a[0]`."""
    return field.partition(".")[0].partition("[")[0]


def _values(part: Any, key: str) -> Iterator[Any]:
    """Yield what is under *key* anywhere in *part* but in its data."""
    if isinstance(part, dict):
        for name, each in cast("Mapping[str, Any]", part).items():
            if name == key:
                yield each
            if name not in ("data", "datasets"):
                yield from _values(each, key)
    elif isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _values(each, key)


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, each in cast("Mapping[str, Any]", part).items():
            if name not in ("data", "datasets"):
                yield from _texts(each)
    elif isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _texts(each)
