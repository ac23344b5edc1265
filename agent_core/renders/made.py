"""Tables and charts made ready to be shown: checked, bounded, with their text; tools, one's own and previews share it.

Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from agent_core.domain.messages import all_clean
from agent_core.errors import InvalidInput
from agent_core.renders import rows as r
from agent_core.renders.declared import cells_of, plain_title
from agent_core.renders.heads import title_of_spec
from agent_core.renders.rows import Row
from agent_core.renders.twins import chart_text, spec_text, table_text
from agent_core.renders.values import DataTable, PlainChart, TableColumn
from agent_core.renders.vega.lint import BadSpec, checked
from agent_core.renders.vega.reduce import reduced

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
