"""Numbers that make a renderer work: how many bins, ticks, steps, pixels a specification may ask for."""

from collections.abc import Mapping
from typing import Any

from agent_core.renders.vega.bad import BadSpec
from agent_core.renders.vega.shapes import is_list, is_number, is_object, words

MAX_SIDE = 2_000
"""Pixels of a given width or height."""
MAX_STEP = 200
"""Pixels of one category."""
MAX_STYLE = 10_000
"""The largest number that is no figure of the data: sizes, offsets, widths of strokes."""
MAX_FIGURE = 1e300
MAX_COUNT = 1_000
"""Bins, ticks, steps."""
MAX_KEYS = 5_000
"""Generated keys."""

FIGURES = words(
    """equal lt lte gt gte oneOf valid datum values domain domainMin domainMax domainMid extent keyvals start stop step
    steps nice bandwidth tickMinStep minstep constant probs cumulative anchor bins unionWith sort"""
)
"""Keys whose numbers are in the units of the data."""
FIGURES_IN_TRANSFORMS = frozenset({"value", "range"})

COUNTS = {
    "maxbins": (1, MAX_COUNT),
    "steps": (1, MAX_COUNT),
    "minsteps": (1, MAX_COUNT),
    "maxsteps": (1, MAX_COUNT),
    "tickCount": (0, MAX_COUNT),
    "count": (0, MAX_COUNT),
    "nice": (0, MAX_COUNT),
    "columns": (0, 100),
    "symbolLimit": (0, MAX_COUNT),
    "sample": (1, MAX_KEYS),
    "order": (0, 10),
    "param": (1, MAX_COUNT),
    "base": (1.5, MAX_STYLE),
    "exponent": (-100, 100),
    "fontSize": (0, 200),
    "labelFontSize": (0, 200),
    "titleFontSize": (0, 200),
}
"""The least and the most of a number under a key. `order` is the degree of a polynomial, `param` that of `ntile`."""
NUMBERS = words(
    """band bandPosition bandSize columns padding paddingInner paddingOuter timeUnitBandPosition timeUnitBandSize
    bandPaddingInner bandPaddingOuter barBandPaddingInner rectBandPaddingInner tickBandPaddingInner
    offsetBandPaddingInner offsetBandPaddingOuter bandWithNestedOffsetPaddingInner bandWithNestedOffsetPaddingOuter
    pointPadding maxbins minstep step"""
)
"""Keys that never have a text, nor a list with one: Vega-Lite writes what they have into code."""
POSITIVE = frozenset({"step", "tickMinStep", "bandwidth"})
SLOW_INTERVALS = ("millisecond", "second", "minute", "hour")
"""Intervals of which a few years have millions."""


def largest(key: str, path: str) -> float:
    """Return the largest number, positive or negative, that may be under *key* at *path*."""
    if key in FIGURES:
        return MAX_FIGURE
    if key in FIGURES_IN_TRANSFORMS and (".transform[" in path or ".impute" in path or ".test" in path):
        return MAX_FIGURE
    return MAX_STYLE


def check(fields: Mapping[str, Any], path: str) -> None:
    """Raise `BadSpec` when an object outside data asks for too many of something."""
    for key, value in fields.items():
        at = f"{path}.{key}"
        if is_number(value):
            _check_number(key, value, at)
        elif is_list(value) and key in ("steps", "divide", "probs") and len(value) > MAX_COUNT:
            raise BadSpec(at, f"these are {len(value):,} values; give at most {MAX_COUNT:,}.")
        elif is_object(value) and key == "tickCount" and value.get("interval") in SLOW_INTERVALS:
            raise BadSpec(at, "these can be millions of ticks; give a number, or the interval `day` or a longer one.")
        elif is_object(value) and key in ("keyvals", "bins"):
            _check_span(value, at, MAX_KEYS if key == "keyvals" else MAX_COUNT)
    if "quantile" in fields and is_number(step := fields.get("step")) and step < 1 / MAX_COUNT:
        raise BadSpec(f"{path}.step", f"give at least {1 / MAX_COUNT}.")


def check_side(view: Mapping[str, Any], key: str, path: str) -> None:
    """Raise `BadSpec` when the width or the height of a view is too large, or is none."""
    side, at = view.get(key), f"{path}.{key}"
    if side is None or side == "container":
        return
    if is_number(side):
        if not 1 <= side <= MAX_SIDE:
            raise BadSpec(at, f"{side:,.6g} px is no size to draw; give 1 to {MAX_SIDE:,}.")
    elif is_object(side) and side.keys() <= {"step", "for"} and is_number(step := side.get("step")):
        if not 1 <= step <= MAX_STEP:
            raise BadSpec(f"{at}.step", f"{step:,.6g} px is no size of one category; give 1 to {MAX_STEP}.")
    else:
        raise BadSpec(at, f'this must be a number of pixels up to {MAX_SIDE:,}, or `{{"step": 20}}`.')


def _check_number(key: str, value: float, path: str) -> None:
    if key in COUNTS:
        least, limit = COUNTS[key]
        if not least <= value <= limit:
            raise BadSpec(path, f"{value:,.6g} is out of bounds; give {least} to {limit:,}.")
    if key in POSITIVE and not value > 0:
        raise BadSpec(path, f"{value:,.6g} makes no steps; give a number above 0.")


def _check_span(span: Mapping[str, Any], path: str, limit: int) -> None:
    start, stop, step = span.get("start", 0), span.get("stop"), span.get("step", 1)
    if not (is_number(start) and is_number(stop) and is_number(step)):
        raise BadSpec(path, "this must be a list, or numbers as `start`, `stop` and `step`.")
    if not step or not abs(stop - start) / abs(step) <= limit:
        raise BadSpec(path, f"these are too many values; give at most {limit:,}, by a larger `step`.")
