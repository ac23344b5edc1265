"""Tables and charts that a tool of one's own shows: `return table(rows)`, `return chart(spec)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec
import pydantic_core
import structlog

from agent_core.agents import ToolSpec
from agent_core.charts import rows as r
from agent_core.charts.made import (
    MAX_TABLE_COLUMNS,
    MadeRender,
    NewRender,
    check_declared,
    columns_named,
    columns_of,
    in_render_thread,
    is_plain,
    made_chart,
    made_table,
    readable,
)
from agent_core.charts.rows import MAX_CHART_ROWS, MAX_TABLE_ROWS, Row, check_size, chosen, drawn_columns
from agent_core.charts.rows import columns_of as columns_in
from agent_core.charts.spec import BadSpec
from agent_core.charts.values import FORMAT, TableColumn
from agent_core.errors import DrawingFailed, DrawingUnavailable, InvalidInput, ParleyError
from agent_core.messages import Text, clean
from agent_core.tools.base import CallContext, Done, Outcome, Tool, ToolError, render_id


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


_log = structlog.get_logger("parley.tools")
_MAX_BITS = 4_096
_Object = dict[str, Any]


class SpecCheck(Protocol):
    """Draws charts, and so knows whether one can be drawn."""

    async def check(self, spec: dict[str, Any], /, *, owner: str = "") -> None:
        """Raise `ParleyError` with a message for the model when *spec* cannot be drawn for *owner*, a session."""
        ...


def render_tools(drawer: SpecCheck | None) -> Mapping[str, Tool]:
    """Return `render_table` and `render_chart`; without *drawer* charts are checked without being drawn."""
    return {tool.spec.name: tool for tool in (RenderTable(_TABLE), RenderChart(_CHART, drawer))}


@dataclass(frozen=True, slots=True)
class RenderTable:
    """Show rows as a table."""

    spec: ToolSpec

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        try:
            arguments = readable(arguments)
            rows = await _rows(arguments, context)
            made = await in_render_thread(partial(_table, arguments, rows))
        except ParleyError as error:
            return ToolError(str(error))
        return _shown(made, context)


@dataclass(frozen=True, slots=True)
class RenderChart:
    """Show a chart; one that every surface can draw is not drawn here."""

    spec: ToolSpec
    drawer: SpecCheck | None

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        try:
            arguments = readable(arguments)
            rows = await _rows(arguments, context) if "from_result" in arguments else None
            made = await in_render_thread(partial(_chart, arguments, rows))
            if self.drawer is not None and not is_plain(made.render):
                await _check(self.drawer, made.render, context.session)
        except ParleyError as error:
            return ToolError(str(error))
        return _shown(made, context)


async def _check(drawer: SpecCheck, render: NewRender, session: str) -> None:
    """Raise `InvalidInput` when *render* of *session* cannot be drawn; not when nothing can be drawn at the moment."""
    try:
        await drawer.check(render.payload["spec"], owner=session)
    except DrawingUnavailable as error:  # a model cannot wait, and every surface has a form without a picture
        _log.warning("chart_unchecked", reason=str(error))
    except DrawingFailed as error:
        raise InvalidInput("vega_lite_spec", str(error)) from None


def _shown(made: MadeRender, context: CallContext) -> Done:
    render = made.render
    return Done((Text(f"Shown as {render.kind} {render_id(context.call, 1)}: {made.shape}."),), (render,))


async def _rows(arguments: Mapping[str, Any], context: CallContext) -> Sequence[Row]:
    """Return the rows that *arguments* name or hold; raises `InvalidInput`, `NotFound`."""
    handle, rows = arguments.get("from_result"), arguments.get("rows")
    if handle is None:
        if not rows:
            raise InvalidInput("rows", "give `rows`, or the handle of a result in `from_result`.")
        return _checked_numbers(rows)
    if rows:
        raise InvalidInput("rows", "leave them out: `from_result` has the rows.")
    return await context.rows(handle)


def _checked_numbers(rows: Sequence[Row]) -> Sequence[Row]:
    """Return *rows*; raises `InvalidInput` for a whole number of more digits than anything reads."""
    for place, row in enumerate(rows):
        for key, value in row.items():
            if isinstance(value, int) and value.bit_length() > _MAX_BITS:
                raise InvalidInput(f"rows[{place}].{clean(key)[:60]}", "this number is too large; write it as text.")
    return rows


def _table(arguments: Mapping[str, Any], rows: Sequence[Row]) -> MadeRender:
    """Return the table of *rows*; raises `InvalidInput`."""
    names, handle = r.columns_of(rows), arguments.get("from_result")
    columns = _columns(arguments, names)
    if handle is None:
        check_size(len(rows), MAX_TABLE_ROWS, handle=None)
        check_declared(rows, columns)
    selection = chosen(rows, arguments, names)
    check_size(len(selection), MAX_TABLE_ROWS, handle=handle)
    return made_table(selection, columns, arguments.get("title"))


def _columns(arguments: Mapping[str, Any], names: Sequence[str]) -> tuple[TableColumn, ...]:
    """Return the columns to show, all of a result, by their *names*, when none are chosen; raises `InvalidInput`."""
    handle, declared = arguments.get("from_result"), arguments.get("columns")
    if not declared and handle is None:
        raise InvalidInput("columns", f"declare them; the rows have: {r.listed(names)}.")
    columns = columns_of(declared) if declared else columns_named(names)
    for place, each in enumerate(columns):
        if handle is not None and each.key not in names:
            path, has = f"columns[{place}]", r.listed(names)
            raise InvalidInput(path, f"`{handle}` has no column `{each.key[:100]}`; it has: {has}.")
    return columns


def _chart(arguments: Mapping[str, Any], rows: Sequence[Row] | None) -> MadeRender:
    """Return the chart of the specification, with *rows* as its data if they are given; raises `InvalidInput`."""
    spec = _specification(arguments["vega_lite_spec"])
    if rows is not None:
        spec["data"] = {"values": _drawn_rows(arguments, spec, rows)}
    try:
        return made_chart(spec, arguments.get("title"))
    except BadSpec as error:  # its path is one within the specification
        raise InvalidInput(error.path.replace("$", "vega_lite_spec", 1), error.message) from None


def _specification(spec: _Object | str) -> _Object:
    """Return a copy of *spec*, also of one that a model wrote as text; raises `InvalidInput`."""
    if not isinstance(spec, str):
        return dict(spec)
    try:
        return msgspec.json.decode(spec, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        message = "this text is not a JSON object; give the specification as an object, not as text."
        raise InvalidInput("vega_lite_spec", message) from None


def _drawn_rows(arguments: Mapping[str, Any], spec: _Object, rows: Sequence[Row]) -> Sequence[Row]:
    if spec.get("data"):
        raise InvalidInput("vega_lite_spec.data", "leave it out: `from_result` has the data.")
    names = r.columns_of(rows)
    for place, name in enumerate(arguments.get("columns") or ()):
        if name not in names:
            raise InvalidInput(f"columns[{place}]", f"there is no column `{name[:100]}`; it has: {r.listed(names)}.")
    selection = chosen(rows, arguments, names)
    check_size(len(selection), MAX_CHART_ROWS, handle=arguments["from_result"])
    return r.select(selection, arguments.get("columns") or drawn_columns(spec, names))


_TITLE = {"type": "string", "maxLength": 200}
_SELECTION: _Object = {
    "from_result": {
        "type": "string",
        "pattern": "^r[1-9][0-9]{0,8}$",
        "description": 'Handle of an earlier result, such as "r4", in place of data.',
    },
    "order": {
        "type": "array",
        "items": {"type": "string"},
        "maxItems": 5,
        "description": 'Columns to sort by; "-name" is descending.',
    },
    "where": {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        "description": "Only rows whose cells equal these, by column.",
    },
}
_COLUMN: _Object = {
    "type": "object",
    "properties": {
        "key": {"type": "string", "minLength": 1, "maxLength": 200},
        "label": {"type": "string", "maxLength": 200},
        "align": {"enum": ["left", "center", "right"]},
        # Checked by the tool, whose error says which there are.
        "format": {"type": "string", "description": FORMAT.pattern.replace("[A-Z]{3}", "EUR")},
    },
    "required": ["key"],
    "additionalProperties": False,
}
_TABLE = ToolSpec(
    name="render_table",
    title="Making a table",
    title_done="Made a table",
    source="render",
    description=(
        "Show the person a table, drawn natively where they read. Prefer it to a markdown or text table whenever you "
        "present rows. They see it at once: do not repeat it. Rows of an earlier result are shown by `from_result`, "
        "without copying them."
    ),
    parameters={
        "type": "object",
        "properties": {
            "title": _TITLE,
            "columns": {
                "type": "array",
                "items": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, _COLUMN]},
                "maxItems": MAX_TABLE_COLUMNS,
                "description": "Keys of the rows in order, or {key, label, align, format}; percent shows 0.12 as 12 %.",
            },
            # Their number is checked by the tool, whose error says what to do instead.
            "rows": {
                "type": "array",
                "items": {"type": "object"},
                "description": f"Objects with the columns' keys, at most {MAX_TABLE_ROWS}.",
            },
            **_SELECTION,
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_TABLE_ROWS},
        },
        "additionalProperties": False,
    },
    concurrency_safe=True,
    idempotent=True,
)
_CHART = ToolSpec(
    name="render_chart",
    title="Drawing a chart",
    title_done="Drew a chart",
    source="render",
    description=(
        "Show the person a chart, drawn natively where they read: bar, line, area, pie (arc), scatter (point), or any "
        "other Vega-Lite mark. Prefer it to describing numbers or drawing with characters; do not repeat it. Rows of "
        "an earlier result are drawn by `from_result`, without copying them."
    ),
    parameters={
        "type": "object",
        "properties": {
            "title": _TITLE,
            # An object that is written as text is read too.
            "vega_lite_spec": {
                "type": ["object", "string"],
                "description": (
                    f"An object: Vega-Lite v5 or v6, at most {MAX_CHART_ROWS:,} objects in `data.values` (none with "
                    "`from_result`). Names are sorted by the alphabet: `sort: null` keeps the order of the rows, as "
                    "of months. No addresses, images, links or HTML."
                ),
            },
            **_SELECTION,
            "columns": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": MAX_TABLE_COLUMNS,
                "description": "Columns of the result that are kept; those that the chart draws if left out.",
            },
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_CHART_ROWS},
        },
        "required": ["vega_lite_spec"],
        "additionalProperties": False,
    },
    concurrency_safe=True,
    idempotent=True,
)
