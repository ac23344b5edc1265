"""Marks of charts made of text: bars on a common scale, and lines of signs; pure."""

import math
from collections.abc import Sequence
from itertools import pairwise

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = "▁▂▃▄▅▆▇█"


def finite(value: float | None) -> float | None:
    """Return *value* where it can be drawn."""
    return value if value is not None and math.isfinite(value) else None


def bars(values: Sequence[float | None], cells: int) -> list[str]:
    """Return a bar for each of *values*, all on one scale of *cells* that has zero in it; a gap has none.

    Where some are negative they grow to the left of a line at zero.
    """
    there = [0.0, *(value for each in values if (value := finite(each)) is not None)]
    largest = max(map(abs, there)) or 1.0
    low, high = min(there) / largest, max(there) / largest  # first divided: a difference may be infinite
    left = 0 if low == 0 else max(1, round(cells * -low / (high - low)))
    scale = (cells - left) / high if high else left / -low if low else 0.0
    return ["" if value is None else _bar(value / largest, left, scale) for value in _drawn(values)]


def sparkline(values: Sequence[float | None], cells: int) -> str:
    """Return *values* as a line of signs of rising height, a space for a gap; at most *cells* of them, of means."""
    drawn = _drawn(values)
    if len(drawn) > cells:
        edges = [round(at * len(drawn) / cells) for at in range(cells + 1)]
        drawn = [_mean(drawn[start:end]) for start, end in pairwise(edges)]
    there = [value for value in drawn if value is not None]
    largest = max(map(abs, there), default=0.0) or 1.0
    low, high = (min(there) / largest, max(there) / largest) if there else (0.0, 0.0)
    return "".join(" " if value is None else _level(value / largest, low, high) for value in drawn)


def _drawn(values: Sequence[float | None]) -> list[float | None]:
    return [finite(value) for value in values]


def _bar(value: float, left: int, scale: float) -> str:
    full, eighth = divmod(round(abs(value) * scale * 8), 8)
    bar = f"{'█' * full}{_EIGHTHS[eighth].strip()}"
    if not left:
        return bar
    if value >= 0:
        return f"{' ' * left}│{bar}"
    # Only a half block has its ink on the right.
    return f"{('▐' if 2 * eighth >= len(_EIGHTHS) else '') + '█' * full:>{left}}"[-left:] + "│"


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.fsum(value / len(there) for value in there) if there else None


def _level(value: float, low: float, high: float) -> str:
    if high == low:
        return _LEVELS[len(_LEVELS) // 2]
    return _LEVELS[round((value - low) / (high - low) * (len(_LEVELS) - 1) + 1e-9)]  # half a level is a level
