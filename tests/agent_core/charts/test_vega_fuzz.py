"""Random bars, drawn by Vega and reduced: what reduces has the numbers that Vega draws."""

from random import Random
from typing import Any

import pytest

from agent_core.charts.reduce import reduced
from agent_core.charts.spec import BadSpec, checked
from agent_core.charts.vega import name_of
from tests.agent_core.charts.test_vega_agrees import drawn

pytestmark = pytest.mark.whole

GATE, WHOLE = 50, 3_000
TEXTS = ("a", "b", "x|y", "x", "y|z", "z", "5", "true", "null", "2026-03-01", "2026-02-11", "constructor")
DATES = ("2026-03-01", "2026-02-11", "2026-02-28T13:00", "2025-12-31", "٢٠٢٦-01-01")
NUMBERS = (0, 1, 2, 2.5, 5, 40, -3)
MIXED = (None, True, False, *TEXTS[:6], *NUMBERS)
FIELDS = ("k", "v", "g", "d", "valueOf")
UNITS = ("year", "month", "yearmonth", "day", "yearmonthdate", "quarter")
OPS = ("sum", "mean", "min", "max", "count", "distinct", "median")


class Specs:
    """Charts of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311

    def any(self, *of: Any) -> Any:
        return self.random.choice(of)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def values(self, name: str) -> tuple[Any, ...]:
        plain = {"k": TEXTS, "v": NUMBERS, "g": ("u", "w", "y|z", "z"), "d": DATES[: self.any(4, 4, 5)]}
        return MIXED if name == "valueOf" or self.chance(0.12) else plain[name]

    def rows(self) -> list[dict[str, Any]]:
        kept = [name for name in FIELDS if name != "valueOf" or self.chance(0.1)]
        values = {
            name: self.random.sample(found := self.values(name), min(len(found), self.any(2, 3, 5))) for name in kept
        }
        gaps = self.any(0, 0, 0, 0.1)
        count = self.random.randint(2, 9)
        return [
            {name: self.any(*values[name]) for name in kept if not (name != "k" and self.chance(gaps))}
            for _ in range(count)
        ]

    def field(self, rows: list[dict[str, Any]]) -> str:
        return self.any(*{name: 0 for row in rows for name in row})

    def predicate(self, rows: list[dict[str, Any]], depth: int = 0) -> dict[str, Any]:
        if depth < 2 and self.chance(0.2):
            key = self.any("and", "or", "not")
            parts = [self.predicate(rows, depth + 1) for _ in range(2)]
            return {key: parts[0] if key == "not" else parts}
        name, key = self.field(rows), self.any("equal", "gt", "gte", "lt", "lte", "range", "oneOf")
        cells = [row.get(name) for row in rows if row.get(name) is not None] or [1]
        one, other = self.any(*cells, 5, "b"), self.any(*cells, 2)
        return {"field": name, key: [one, other] if key in ("range", "oneOf") else one}

    def dimension(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"field": name, "type": self.any("nominal", "ordinal")}
        if name == "d" and self.chance(0.6):
            found = {"field": "d", "timeUnit": self.any(*UNITS), "type": "temporal"}
        elif name == "v" and self.chance(0.5):
            found = {"field": "v", "bin": True}
        if self.chance(0.2) and "bin" not in found:
            found["sort"] = self.any("descending", None, "-y", ["b", "a"], "ascending")
        return found

    def measure(self) -> dict[str, Any]:
        op = self.any(None, *OPS)
        found: dict[str, Any] = {"type": "quantitative"} | ({} if op is None else {"aggregate": op})
        return found if op == "count" else found | {"field": self.any("v", "v", "k") if op == "distinct" else "v"}

    def spec(self) -> dict[str, Any]:
        rows = self.rows()
        transforms: list[dict[str, Any]] = []
        if self.chance(0.4):
            transforms.append({"filter": self.predicate(rows)})
        x, y = self.dimension(self.any("k", "k", "d", "v", *rows[0])), self.measure()
        if self.chance(0.15):
            by = self.random.sample(("k", "g", "d"), 2)
            transforms.append({"aggregate": [{"op": self.any(*OPS), "field": "v", "as": "v"}], "groupby": by})
        if self.chance(0.05):
            transforms.append({"fold": ["v"], "as": ["k", "v"]})
        encoding = {"x": x, "y": y}
        if self.chance(0.4):
            encoding[self.any("color", "color", "color", "detail", "shape", "xOffset")] = {
                "field": "g",
                "type": "nominal",
            }
        if self.chance(0.1):
            encoding[self.any("y2", "opacity", "size")] = {"value": self.any(0, 1)}
        return {"data": {"values": rows}, "mark": "bar", "encoding": encoding} | (
            {"transform": transforms} if transforms else {}
        )


def ours(spec: dict[str, Any]) -> dict[str, float] | None:
    """Return the totals by category of the plain chart, without those of zero; None where there is none."""
    try:
        chart = reduced(checked(spec))
    except BadSpec:
        return None
    if chart is None:
        return None
    found: dict[str, float] = {}
    for series in chart.series:
        for label, value in zip(chart.categories, series.values, strict=True):
            found[label] = found.get(label, 0) + (value or 0)
    return {label: value for label, value in found.items() if value}


def theirs(spec: dict[str, Any]) -> dict[str, float]:
    """Return the totals by category of the marks that Vega draws, without those of zero."""
    x, y = name_of(spec["encoding"]["x"]), name_of(spec["encoding"]["y"])
    found: dict[str, float] = {}
    for labels in drawn(spec):
        value = labels[y].replace("−", "-").replace(",", "")
        found[labels[x]] = found.get(labels[x], 0) + (0 if value == "null" else float(value))
    return {label: value for label, value in found.items() if value}


def compare(seed: int) -> bool:
    """Compare the chart of a seed; return whether it reduces."""
    spec = Specs(seed).spec()
    mine = ours(spec)
    if mine is None or spec["encoding"]["x"] == spec["encoding"]["y"]:
        return False
    assert mine == pytest.approx(theirs(spec), rel=1e-9), f"seed {seed}: {spec}"
    return True


def test_random_bars_are_those_of_vega():
    """Random rows, filters, groups and channels have Vega's numbers, or no plain chart."""
    assert sum(map(compare, range(GATE))) > GATE / 10


@pytest.mark.whole
def test_many_random_bars_are_those_of_vega():
    """Thousands of random charts have Vega's numbers, or no plain chart."""
    assert sum(map(compare, range(GATE, WHOLE))) > WHOLE / 10
