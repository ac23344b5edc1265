"""The table: a row per figure with its ratio and its goals, in markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Unit = Literal["ms", "s", "%", "bytes", "kB", "MB", "USD"]
FACTORS: dict[Unit, float] = {"ms": 1e3, "s": 1, "%": 100, "bytes": 1, "kB": 1e-3, "MB": 1e-6, "USD": 1}
LIMIT = "the limit"
HEAD = ("figure", "Parley", "compared with", "its figure", "ratio", "of each round", "must", "aim", "")


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure must be and should be: its ratio, or the printed value itself; at most, or at least."""

    must: float
    aim: float
    of: Literal["ratio", "value"] = "ratio"
    at: Literal["most", "least"] = "most"

    def verdict(self, found: float) -> str:
        """Return which of the two *found* meets."""
        sign = 1 if self.at == "most" else -1
        if sign * found <= sign * self.aim:
            return "aim met"
        return "must met" if sign * found <= sign * self.must else "**missed**"


@dataclass(frozen=True)
class Row:
    """A figure of Parley and what it is compared with, a value per round; the unit is that of the printed value."""

    figure: str
    unit: Unit
    found: Sequence[float]
    base: Sequence[float]
    against: str = LIMIT
    goal: Goal | None = None

    @property
    def ratios(self) -> list[float]:
        """How Parley compares in each round."""
        return [found / base for found, base in zip(self.found, self.base, strict=True)]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def value(self) -> float:
        """The printed value, without its unit."""
        return median(self.found) * FACTORS[self.unit]


def table(rows: Sequence[Row]) -> str:
    """Return *rows* as a markdown table."""
    lines = [HEAD, tuple("---" for _ in HEAD), *(_cells(row) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: Row) -> tuple[str, ...]:
    spread = f"{_short(min(row.ratios))} to {_short(max(row.ratios))}" if len(row.ratios) > 1 else ""
    return (
        row.figure,
        f"{_short(row.value)} {row.unit}",
        row.against,
        f"{_short(median(row.base) * FACTORS[row.unit])} {row.unit}",
        f"**{_short(row.ratio)}**",
        spread,
        *_goals(row),
    )


def _goals(row: Row) -> tuple[str, str, str]:
    goal = row.goal
    if goal is None:
        return "", "", ""
    unit = f" {row.unit}" if goal.of == "value" else ""
    found = row.ratio if goal.of == "ratio" else row.value
    return f"{goal.must:g}{unit}", f"{goal.aim:g}{unit}", goal.verdict(found)


def _short(value: float) -> str:
    """Return *value* with three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
