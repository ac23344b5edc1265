"""The corpus of Vega-Lite charts: each surface draws all of them."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parent / "corpus"


class ChartSpec(NamedTuple):
    """One chart: *plain* when it reduces to a plain chart."""

    name: str
    spec: dict[str, Any]
    plain: bool

    def __str__(self) -> str:
        return self.name


@cache
def corpus() -> tuple[ChartSpec, ...]:
    """Return all charts, by name; none is to be changed."""
    files = sorted(FOLDER.glob("*.json"))
    return tuple(ChartSpec(**json.loads(file.read_text("utf-8"))) for file in files)


def chart_named(name: str) -> ChartSpec:
    """Return the chart that is called *name*."""
    return next(each for each in corpus() if each.name == name)
