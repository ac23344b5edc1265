"""Tables and charts made ready to be shown, for tools, one's own and previews: checked, bounded, with their text."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from agent_core.charts import rows as r
from agent_core.charts.layout import one_line
from agent_core.charts.reduce import reduced
from agent_core.charts.rows import Row, listed
from agent_core.charts.spec import MARKUP, BadSpec, checked
from agent_core.charts.text import chart_text, spec_text, table_text, title_of_spec
from agent_core.charts.values import FORMAT, FORMATS, Align, DataTable, PlainChart, TableColumn, as_json
from agent_core.errors import InvalidInput
from agent_core.messages import all_clean, clean, shorten

MAX_CELL = 10_000
"""Characters of a cell; what is beyond is cut."""
_EXACT = 2**53
"""Whole numbers from here on are shown as text: browsers round them."""


def cell(value: Any) -> Any:
    """Return *value* as a cell: null, a boolean, a number that browsers know exactly, or text of bounded length."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= _EXACT else _digits(value)
        case float():
            return value if math.isfinite(value) else None
        case str():
            return shorten(clean(value), MAX_CELL)
        case _:
            return shorten(clean(_compact(value)), MAX_CELL)


def plain_title(text: str, path: str) -> str:
    """Return *text* of a title or heading on one line; raises `InvalidInput` for markup."""
    match = MARKUP.search(text)
    if match is not None:
        markup = clean(match.group()[:40])
        raise InvalidInput(path, f"it holds markup (`{markup}`), which is never shown as such; write plain text.")
    return " ".join(clean(text).split())


def columns_of(declared: Sequence[str | Mapping[str, Any]]) -> tuple[TableColumn, ...]:
    """Return the declared columns, each a key or `{key, label?, align?, format?}`; raises `InvalidInput`."""
    columns: dict[str, TableColumn] = {}
    for index, each in enumerate(declared):
        fields = {"key": each} if isinstance(each, str) else each
        path, key = f"columns[{index}]", fields.get("key")
        if not isinstance(key, str):
            raise InvalidInput(path, "name the `key` of its cells.")
        key = clean(key)
        if key in columns:
            raise InvalidInput(path, f"`{key[:100]}` is a column already; name each column once.")
        named = fields.get("label")
        if not isinstance(named, str | None):
            raise InvalidInput(f"{path}.label", "a label is a text.")
        label = plain_title(named or key, path if isinstance(each, str) else f"{path}.label")
        columns[key] = TableColumn(key, label or key, _align(fields, path), _format(fields, path))
    return tuple(columns.values())


def _align(fields: Mapping[str, Any], path: str) -> Align | None:
    align = fields.get("align")
    if align is not None and align not in get_args(Align):
        raise InvalidInput(f"{path}.align", f"write one of: {', '.join(get_args(Align))}.")
    return align


def _format(fields: Mapping[str, Any], path: str) -> str | None:
    format = fields.get("format")
    if format is not None and not (isinstance(format, str) and FORMAT.fullmatch(format)):
        problem = f"there is no format {one_line(as_json(format))[:60]}; "
        raise InvalidInput(f"{path}.format", f"{problem}write one of: {', '.join(FORMATS)}.")
    return format


def columns_named(names: Sequence[str]) -> tuple[TableColumn, ...]:
    """Return columns as the data has them: markup in their names is text."""
    return tuple(TableColumn(name, name) for name in names)


def check_declared(rows: Sequence[Row], columns: Sequence[TableColumn]) -> None:
    """Raise `InvalidInput` for a row without a cell of any of *columns*."""
    keys = {column.key for column in columns}
    for index, row in enumerate(rows):
        if keys.isdisjoint(row):
            declared = listed([column.key for column in columns])
            why = f"it has none of the declared columns ({declared}), but {listed(tuple(row)) or 'nothing'}; "
            raise InvalidInput(f"rows[{index}]", why + ("declare what it has." if row else "leave it out."))


def cells_of(rows: Sequence[Row], columns: Sequence[TableColumn]) -> tuple[Row, ...]:
    """Return *rows* with the cells of *columns* alone."""
    keys = [column.key for column in columns]
    return tuple({key: cell(row[key]) for key in keys if key in row} for row in rows)


def _digits(value: int) -> str:
    """Return a large whole number as text; one of more digits than Python writes is described by its size."""
    try:
        return str(value)
    except ValueError:
        return f"a number of {value.bit_length():,} bits"


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):
        return "…"


MAX_RENDER = 512_000
"""Bytes of JSON that a render may have, its text included: it is in the log, and in every stream of the session."""
MAX_TABLE_COLUMNS = 100
_ENVELOPE = 1_000
"""Bytes that the fact of a render has beyond the render: ids, kind, call."""
_TEXT, _SHORT_TEXT = 60_000, 8_000
"""Characters of the text of a chart, and of one that has many values."""
_FEWER_ROWS = "show fewer rows (`limit`) or columns, or shorter texts"
_FEWER_VALUES = "draw fewer values (`limit`, or an aggregate), or fewer columns"


@dataclass(frozen=True, slots=True)
class NewRender:
    """Something to show to people: *payload* is what a surface that knows *kind* draws, *text* says the same plainly.

    Kinds are open. The text is shown wherever the kind is unknown, and hooks see it; markup in it is shown as it is.
    """

    kind: str
    payload: dict[str, Any]
    text: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class MadeRender:
    """A *render*, and its *shape* in words."""

    render: NewRender
    shape: str


def made_table(rows: Sequence[Row], columns: tuple[TableColumn, ...], title: str | None) -> MadeRender:
    """Return the table of the *columns* of *rows*; raises `InvalidInput`."""
    if len(columns) > MAX_TABLE_COLUMNS:
        raise InvalidInput("columns", f"there are {len(columns)}, at most {MAX_TABLE_COLUMNS} can be shown; name some.")
    table = DataTable(columns, cells_of(rows, columns))
    render = NewRender("table", _json(table), table_text(table), _title(title))
    if (size := _size(render)) > MAX_RENDER:
        raise InvalidInput("rows", f"the table has {size:,} bytes, at most {MAX_RENDER:,}; {_FEWER_ROWS}.")
    return MadeRender(render, f"{r.counted(len(rows), 'row')} x {r.counted(len(columns), 'column')}")


def made_chart(spec: Mapping[str, Any], title: str | None) -> MadeRender:
    """Return the chart of a Vega-Lite specification with its data inline, with its plain form when it has one.

    A chart with so many values that there is no room for both is its specification alone, and has a shorter text; it
    is drawn as a picture then. Raises `InvalidInput` for the title, and `BadSpec`, whose path is one within *spec*.
    """
    title = _title(title)
    spec = cast("dict[str, Any]", readable(spec))
    if (size := _bytes(spec)) > MAX_RENDER:
        raise _too_large(size)
    checked_spec = checked(spec)
    plain = reduced(checked_spec)
    if plain is not None and plain.title is None and title is not None:
        plain = replace(plain, title=title)
    title = title or title_of_spec(checked_spec)
    size = 0
    for payload, limit in _payloads(checked_spec, plain):
        text = spec_text(checked_spec, limit=limit) if plain is None else chart_text(plain, limit=limit)
        render = NewRender("chart", payload, text, title)
        if (size := _size(render)) <= MAX_RENDER:
            return MadeRender(render, _shape(plain))
    raise _too_large(size)


def is_plain(render: NewRender) -> bool:
    """Return whether every surface can draw the chart *render* itself: no picture of it is needed."""
    return "plain" in render.payload


def readable(value: Any) -> Any:
    """Return *value* of JSON with U+FFFD for halves of characters, which the log cannot hold.

    Raises `InvalidInput` when it is nested too deeply.
    """
    try:
        msgspec.json.encode(value)
    except RecursionError:
        raise InvalidInput("$", "this is nested too deeply; write it flatter.") from None
    except (ValueError, OverflowError):
        return all_clean(value)
    return value


def _bytes(spec: Mapping[str, Any]) -> int:
    """Return the size of *spec*, 0 where a number of it has too many digits to be written: that is refused later."""
    try:
        return len(msgspec.json.encode(spec))
    except (ValueError, OverflowError):
        return 0


def _payloads(spec: dict[str, Any], plain: PlainChart | None) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield what may be kept of a chart, and how long its text may be; the most first."""
    if plain is not None:
        yield {"spec": spec, "plain": _json(plain)}, _TEXT
    yield {"spec": spec}, _TEXT
    yield {"spec": spec}, _SHORT_TEXT


def _shape(plain: PlainChart | None) -> str:
    if plain is None:
        return "drawn as a picture"
    count = max(len(plain.categories), *(len(each.points) for each in plain.series))
    places = r.counted(count, "point") if plain.type == "scatter" else r.counted(count, "category", "categories")
    return f"{plain.type}, {places} x {len(plain.series)} series"


def _title(title: str | None) -> str | None:
    return plain_title(title, "title") or None if title else None


def _json(value: msgspec.Struct) -> dict[str, Any]:
    """Return *value* as readers of the log have it: tuples are lists there."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _size(render: NewRender) -> int:
    return len(msgspec.json.encode(render)) + _ENVELOPE


def _too_large(size: int) -> BadSpec:
    return BadSpec("$", f"the chart has {size:,} bytes, at most {MAX_RENDER:,}; {_FEWER_VALUES}.")


_THREAD = ThreadPoolExecutor(1, "parley-renders")
"""One for all: several would take turns with each other before the event loop has its own."""
Made = TypeVar("Made")


async def in_render_thread(make: Callable[[], Made]) -> Made:
    """Return what *make* gives, made beside the event loop, which a large table would hold for many milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, make)
