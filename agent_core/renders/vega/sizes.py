"""How large a drawing becomes by what it shows: categories of a fixed size, facets and series."""

from collections.abc import Mapping
from typing import Any

from agent_core.renders.vega import vocabulary as words
from agent_core.renders.vega.bad import BadSpec
from agent_core.renders.vega.extents import ViewRows
from agent_core.renders.vega.shapes import is_number, is_object

MAX_DRAWN = 10_000
"""Pixels of a side, as it becomes by the number of its categories."""
MAX_AREA = 12_000_000
"""Pixels of the whole drawing."""
MAX_SERIES = 100
MAX_COPIES = 60
"""Drawings of one chart, by facets or repeats."""
STEP = 20
"""Pixels of a category where none are given."""
SIDE = 300
"""Pixels of an axis of numbers."""
DISCRETE = frozenset({"nominal", "ordinal"})


def check_copies(copies: int, path: str) -> None:
    """Raise `BadSpec` when a chart is drawn too often."""
    if copies > MAX_COPIES:
        fix = "filter or group the rows, or use `color`"
        raise BadSpec(path, f"these are {copies:,} small charts; at most {MAX_COPIES} are drawn: {fix}.")


def check_drawing(
    view: Mapping[str, Any], encoding: Mapping[str, Any], rows: ViewRows | None, copies: int, path: str
) -> None:
    """Raise `BadSpec` when a view with a mark becomes far too large, or has more series than can be read."""
    for channel in words.FACETS:
        if rows and (count := rows.distinct(encoding.get(channel))) > 1:
            copies *= count
    check_copies(copies, f"{path}.encoding")
    for channel in words.SERIES:
        definition = encoding.get(channel)
        if rows and _is_discrete(definition) and (count := rows.distinct(definition)) > MAX_SERIES:
            fix = "group the small ones, or leave the channel out"
            at = f"{path}.encoding.{channel}"
            raise BadSpec(at, f"these are {count:,} series; at most {MAX_SERIES} are drawn: {fix}.")
    wide = _side(view, encoding, rows, "width", path)
    high = _side(view, encoding, rows, "height", path)
    if wide * high * copies > MAX_AREA:
        raise BadSpec(
            path, f"this would be {wide * high * copies / 1e6:,.0f} million pixels; use fewer or smaller views."
        )


def _side(view: Mapping[str, Any], encoding: Mapping[str, Any], rows: ViewRows | None, key: str, path: str) -> float:
    """Return the width or the height of a view in pixels, as far as it is known. Raises `BadSpec` when too large.

    A given size has been checked before.
    """
    channel = "x" if key == "width" else "y"
    side = view.get(key)
    if is_number(side):
        return side
    step = side["step"] if is_object(side) else STEP
    definition = encoding.get(channel)
    count = rows.distinct(definition) if rows and _is_discrete(definition) else 0
    if rows and count and f"{channel}Offset" in encoding:
        count *= rows.distinct(encoding[f"{channel}Offset"])
    if step * count > MAX_DRAWN:
        fix = f"set `{key}` to a number, group the rows, or use the type `temporal` for dates"
        at = f"{path}.encoding.{channel}"
        raise BadSpec(at, f"these are {count:,} categories, {step * count:,.0f} px; at most {MAX_DRAWN:,} px: {fix}.")
    return step * count or SIDE


def _is_discrete(definition: Any) -> bool:
    return is_object(definition) and definition.get("type", "nominal") in DISCRETE
