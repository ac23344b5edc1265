"""Tables and charts as a terminal without colours shows them: aligned to its width, long ones with their first rows."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from agent_core import chart_of, chart_text, spec_text, table_of, table_text
from channels.base import ShownRender
from channels.legible import visible

MAX_ROWS = 40
"""Rows of a table that are shown: what is above the screen is out of sight."""
MAX_TEXT = 8_000
"""Characters of a table or a chart that are shown, some hundred lines."""


def figure(render: ShownRender, width: int | None) -> str:
    """Return *render* as text in lines of *width* cells at most, in which nothing controls the terminal."""
    return visible(RENDERERS.get(render.kind, _plain)(render, width)).rstrip()


def _plain(render: ShownRender, width: int | None) -> str:  # noqa: ARG001 - a renderer's shape
    return render.plain


def _table_figure(render: ShownRender, width: int | None) -> str:
    """Return a table with its title; its text where the payload is no table."""
    table = table_of(render.payload)
    return (
        render.plain if table is None else titled(render, table_text(table, width=width, rows=MAX_ROWS, limit=MAX_TEXT))
    )


def _chart_figure(render: ShownRender, width: int | None) -> str:
    """Return a chart as bars, lines of signs and numbers with its title; its text where the payload is no chart."""
    if chart := chart_of(render.payload):
        return titled(render, chart_text(chart, width=width, limit=MAX_TEXT))
    spec: Any = render.payload.get("spec")
    if not isinstance(spec, dict):
        return render.plain
    return titled(render, spec_text(cast("dict[str, Any]", spec), width=width, limit=MAX_TEXT))


def titled(render: ShownRender, text: str) -> str:
    """Return *text* below the title of *render*, visible; where something is left out, also where all of it is."""
    head = f"{render.title}\n\n" if render.title else ""
    is_cut = text.rpartition("\n")[2].startswith("… and ")
    return visible(f"{head}{text}{f' (all of it: GET /v1/renders/{render.id}.csv)' if is_cut else ''}")


RENDERERS: Mapping[str, Callable[[ShownRender, int | None], str]] = {"table": _table_figure, "chart": _chart_figure}
"""How a terminal draws renders, by kind; it shows the text of all others."""
