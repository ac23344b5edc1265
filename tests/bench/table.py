"""The table: a row per figure, as ratios, in markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Unit = Literal["ms", "s", "%", "bytes", "kB", "MB"]
FACTORS: dict[Unit, float] = {"ms": 1e3, "s": 1, "%": 100, "bytes": 1, "kB": 1e-3, "MB": 1e-6}
BARE = "the bare server"
HEAD = ("figure", "Parley", "compared with", "its figure", "ratio", "of each round")


@dataclass(frozen=True)
class Row:
    """A figure of Parley and what it is compared with, a value per round; the unit is that of the printed value."""

    figure: str
    unit: Unit
    found: Sequence[float]
    base: Sequence[float]
    against: str = BARE

    @property
    def ratios(self) -> list[float]:
        """How Parley compares in each round."""
        return [found / base for found, base in zip(self.found, self.base, strict=True)]

    @property
    def ratio(self) -> float:
        return median(self.ratios)


def table(rows: Sequence[Row]) -> str:
    """Return *rows* as a markdown table."""
    lines = [HEAD, tuple("---" for _ in HEAD), *(_cells(row) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: Row) -> tuple[str, ...]:
    spread = f"{_short(min(row.ratios))} to {_short(max(row.ratios))}" if len(row.ratios) > 1 else ""
    return (
        row.figure,
        _value(row.found, row.unit),
        row.against,
        _value(row.base, row.unit),
        f"**{_short(row.ratio)}**",
        spread,
    )


def _value(values: Sequence[float], unit: Unit) -> str:
    return f"{_short(median(values) * FACTORS[unit])} {unit}"


def _short(value: float) -> str:
    """Return *value* with three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
