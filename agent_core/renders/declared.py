"""Cells, columns and titles as a model or a result gives them, made fit to be shown; pure.

What is data stays data: markup in a cell is text, and every surface shows it as text. A title or a heading is the
model's own writing, where markup is refused.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from agent_core.domain.messages import clean
from agent_core.domain.shorten import shorten
from agent_core.errors import InvalidInput
from agent_core.renders.cells import one_line
from agent_core.renders.formats import FORMAT, FORMATS, as_json
from agent_core.renders.markup import MARKUP
from agent_core.renders.rows import Row, listed
from agent_core.renders.values import Align, TableColumn

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
