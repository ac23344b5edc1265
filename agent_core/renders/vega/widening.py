"""How many rows the transforms of a view make of those that it has: pivots, folds and their like."""

import math
from collections.abc import Mapping
from typing import Any

from agent_core.renders.vega.amounts import MAX_COUNT
from agent_core.renders.vega.bad import BadSpec
from agent_core.renders.vega.extents import ViewRows
from agent_core.renders.vega.shapes import is_list, is_number, is_object

MAX_MADE = 50_000
"""Rows that a transform may make, and cells of a fold or a pivot."""
MAX_PIVOTED = 100
"""Fields that a pivot may make."""
MAX_FRAME = 500
"""Rows before or after each one that a moving frame may have; an end may also be null."""
DENSITY_STEPS, QUANTILES, REGRESSED = 200, 100, 100
"""Rows that are made of each group when a transform does not say how many."""


def check_widening(transforms: Any, rows: ViewRows, path: str) -> None:
    """Raise `BadSpec` when the transforms of a view, checked before, make far too many rows of *rows*.

    Groups are counted in the rows as given; those of a field that a transform made are as many as there are rows.
    """
    count = len(rows.values)
    for index, each in enumerate(transforms):
        at = f"{path}[{index}]"
        if "pivot" in each:
            _check_pivot(each, rows, at)
        _check_frame(each, at)
        count = _made(each, rows, count)
        if count > MAX_MADE:
            fix = "use fewer groups, fields or steps, or aggregate the rows before"
            raise BadSpec(at, f"this makes up to {count:,} rows; at most {MAX_MADE:,} are drawn: {fix}.")


def _check_frame(transform: Mapping[str, Any], path: str) -> None:
    frame, ops = transform.get("frame"), transform.get("window")
    if is_list(frame) and any(is_number(each) and abs(each) > MAX_FRAME for each in frame):
        raise BadSpec(f"{path}.frame", f"this frame is too wide; give at most {MAX_FRAME} rows, or null for all.")
    if is_list(ops) and any(is_object(each) and each.get("op") in ("ci0", "ci1") for each in ops):
        raise BadSpec(f"{path}.window", "confidence intervals are not computed for each row; aggregate them by groups.")


def _made(transform: Mapping[str, Any], rows: ViewRows, count: int) -> int:
    """Return how many rows there are at most after a transform of *count* rows."""
    groups = _groups(transform.get("groupby"), rows, count)
    match transform:
        case {"fold": fields}:
            return count * max(1, len(fields))
        case {"flatten": fields}:
            return count * max((rows.longest(each) for each in fields), default=1)
        case {"density": _}:
            steps = [transform.get(key) for key in ("steps", "maxsteps", "minsteps")]
            return groups * int(max([each for each in steps if is_number(each)], default=DENSITY_STEPS))
        case {"quantile": _}:
            probs, step = transform.get("probs"), transform.get("step")
            each = len(probs) if is_list(probs) else math.ceil(1 / step) if is_number(step) and step > 0 else QUANTILES
            return groups * each
        case {"regression": _}:
            return groups * REGRESSED
        case {"impute": _}:
            keyvals = transform.get("keyvals")
            steps = len(keyvals) if is_list(keyvals) else MAX_COUNT if is_object(keyvals) else 0
            return max(count, groups * (rows.values_of(transform.get("key"), count) + steps))
        case _:
            return count


def _groups(groupby: Any, rows: ViewRows, count: int) -> int:
    """Return how many groups there are at most."""
    fields = groupby if is_list(groupby) else []
    return min(count, math.prod(rows.values_of(each, count) for each in fields))


def _check_pivot(transform: Mapping[str, Any], rows: ViewRows, path: str) -> None:
    limit = transform.get("limit")
    if is_number(limit) and 1 <= limit <= MAX_PIVOTED:
        return
    if rows.values_of(transform["pivot"], MAX_PIVOTED + 1) > MAX_PIVOTED:
        fix = f'add `"limit": {MAX_PIVOTED}`, or pivot a field with fewer values'
        raise BadSpec(f"{path}.pivot", f"this makes more than {MAX_PIVOTED} fields: {fix}.")
