"""Tables and charts that a tool of one's own shows: `return table(rows)`, `return chart(spec)`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pydantic_core

from agent_core.charts.made import NewRender, columns_named, columns_of, made_chart, made_table
from agent_core.charts.rows import MAX_TABLE_ROWS
from agent_core.charts.rows import columns_of as columns_in
from agent_core.errors import InvalidInput
from agent_core.messages import clean


def table(
    rows: Sequence[Any], columns: Sequence[str | Mapping[str, Any]] | None = None, *, title: str | None = None
) -> NewRender:
    """Return *rows* as a table to show to people; the model reads it as text.

    A row is a mapping, a dataclass or a model of pydantic; dates and decimals may be in it. Each of *columns*, all keys
    of the rows if left out, is a key or `{key, label?, align?, format?}`: *align* is left, center or right, *format*
    text, number, integer, percent (0.12 is 12 %), date, datetime or `currency:EUR`. Raises `InvalidInput` for more than
    500 rows or 100 columns, for rows that are no objects, and for columns that are not as said.
    """
    if len(rows) > MAX_TABLE_ROWS:
        remedy = "show fewer, or return them as rows: the model can show a part of them."
        raise InvalidInput("rows", f"{len(rows):,} rows, at most {MAX_TABLE_ROWS} can be shown; {remedy}")
    read = _read(rows)
    made = columns_named(columns_in(read)) if columns is None else columns_of(columns)
    return made_table(read, made, title).render


def chart(spec: Mapping[str, Any], *, title: str | None = None) -> NewRender:
    """Return the chart that *spec*, Vega-Lite with its data inline, says; the model reads it as text.

    Raises `BadSpec`, which names path and remedy, for what no chart may have: addresses, links, markup. What is
    accepted has not been drawn: where it cannot be, people see its text and its data. The preview of the API draws it.
    """
    return made_chart(_jsonable(spec, "$"), title).render


def _read(rows: Sequence[Any]) -> list[dict[str, Any]]:
    read: list[Any] = _jsonable(list(rows), "rows")
    for place, row in enumerate(read):
        if not isinstance(row, dict):
            raise InvalidInput(f"rows[{place}]", "it is no object; give each row as a mapping of columns to values.")
    return read


def _jsonable(value: Any, path: str) -> Any:
    """Return *value* as JSON has it; raises `InvalidInput`, with *path*."""
    try:
        return msgspec.json.decode(pydantic_core.to_json(value, fallback=msgspec.to_builtins))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(path, clean(f"JSON cannot hold this: {error}")) from None
