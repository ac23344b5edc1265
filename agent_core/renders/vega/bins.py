"""Bins of numbers, as Vega chooses them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_number, is_object

DEFAULT_BINS = 10
"""Vega-Lite's own, for an axis."""
MAX_BINS = 1_000
EPSILON = 1e-14


@dataclass(frozen=True)
class Bins:
    """Bins of equal width from *start* to *stop*."""

    start: float
    stop: float
    step: float

    def __len__(self) -> int:
        return max(1, round((self.stop - self.start) / self.step))

    def index(self, value: float) -> int:
        """Return in which bin *value* is; one that is at the end of the last is in the last."""
        inside = max(self.start, min(value, self.stop - self.step))
        return math.floor(EPSILON + (inside - self.start) / self.step)

    def label(self, index: int) -> str:
        low = self.start + self.step * index
        return f"{number_text(low)} – {number_text(low + self.step)}"  # noqa: RUF001


def bins_of(values: Sequence[float], setting: Any) -> Bins:
    """Return the bins of an axis for *values*. Raises `NotPlain` for options that are not reduced.

    Source: `vega-statistics`, `bin.js`.
    """
    options: Mapping[str, Any] = setting if is_object(setting) else {}
    if not values or options.keys() - {"maxbins", "step", "nice", "minstep"}:
        raise NotPlain
    low, high = min(values), max(values)
    limit, minstep, fixed = options.get("maxbins", DEFAULT_BINS), options.get("minstep", 0), options.get("step")
    if not is_number(limit) or not is_number(minstep) or not 1 <= limit <= MAX_BINS or minstep < 0:
        raise NotPlain
    span = (high - low) or abs(low) or 1
    if fixed is not None and not (is_number(fixed) and fixed > 0):
        raise NotPlain
    step = fixed if fixed is not None else _step(span, limit, minstep)
    if not span / step <= MAX_BINS:
        raise NotPlain
    if options.get("nice", True) is True:
        logarithm = math.log(step)
        precision = 0 if logarithm >= 0 else int(-logarithm / math.log(10)) + 1
        floor = math.floor(low / step + 10.0 ** (-precision - 1)) * step
        low = floor - step if low < floor else floor
        high = math.ceil(high / step) * step
    return Bins(low, low + step if high == low else high, step)


def number_text(value: float) -> str:
    """Return a number as d3 writes it without a format: twelve digits, without zeros at the end."""
    text = f"{value + 0.0:.12g}"
    if "e" in text:
        raise NotPlain
    return text.replace("-", "−")  # noqa: RUF001


def _step(span: float, limit: float, minstep: float) -> float:
    level = math.ceil(math.log(limit) / math.log(10))
    exponent = math.floor(math.log(span) / math.log(10) + 0.5) - level
    try:
        step = max(minstep, 10.0**exponent)
        while math.ceil(span / step) > limit:
            step *= 10
    except (OverflowError, ZeroDivisionError) as error:
        raise NotPlain from error
    for divisor in (5, 2):
        smaller = step / divisor
        if smaller >= minstep and span / smaller <= limit:
            step = smaller
    return step
