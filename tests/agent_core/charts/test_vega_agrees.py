"""Plain charts have the numbers that Vega itself draws, read from the labels of its marks."""

import html
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
import vl_convert

from agent_core.charts.reduce import reduced
from agent_core.charts.spec import checked
from agent_core.charts.vega import name_of
from tests.agent_core.charts.specs import ChartSpec, corpus
from tests.cases import for_each

pytestmark = pytest.mark.whole

ROWS = [
    {
        "kind": "qzab"[index * 7 % 4],
        "size": (30, 4, 100)[index * 5 % 3],
        "day": f"202{5 + index % 2}-{index * 7 % 12 + 1:02d}-{index * 11 % 24 + 5:02d}T{index % 5 + 8:02d}:15:00",
        "value": None if index % 13 == 0 else (index * 37 % 101) / 4 - 3,
        "group": "uvw"[index * 11 % 3],
    }
    for index in range(240)
]
UNITS = ("year", "quarter", "month", "yearmonth", "yearquarter", "day", "date", "week", "hours")
DIMENSIONS: list[dict[str, Any]] = [
    {"field": "kind", "type": "nominal"},
    {"field": "size", "type": "ordinal"},
    {"field": "value", "bin": {"maxbins": 12}},
    *({"field": "day", "timeUnit": unit, "type": "temporal"} for unit in UNITS),
]
AGGREGATES = ("sum", "mean", "median", "min", "max", "count", "distinct")
CASES = list(product(DIMENSIONS, AGGREGATES, (False, True)))
SAMPLE = CASES[::11]
LABEL = re.compile(r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="(?:bar|point|arc mark)"')

Drawn = dict[tuple[str, str | None], float]


def drawn(spec: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the labels of the marks as Vega draws them, by the names of the channels."""
    svg = vl_convert.vegalite_to_svg(dict(spec), vl_version="6.4", allowed_base_urls=[])
    for match in LABEL.finditer(svg):
        yield dict(part.split(": ", 1) for part in html.unescape(match[1]).split("; "))


def numbers_of_vega(spec: Mapping[str, Any], category: str, measure: str, series: str | None) -> Drawn:
    found: Drawn = {}
    for labels in drawn(spec):
        key = labels[category], labels[series] if series else None
        found[key] = found.get(key, 0) + float(labels[measure].replace("−", "-").replace(",", ""))
    return found


def numbers_of_ours(spec: Mapping[str, Any], *, split: bool) -> Drawn:
    chart = reduced(checked(spec))
    assert chart is not None
    return {
        (category, each.name if split else None): value
        for each in chart.series
        for category, value in zip(chart.categories, each.values, strict=True)
        if value is not None
    }


def compare(dimension: dict[str, Any], aggregate: str, *, split: bool, rows: list[dict[str, Any]] = ROWS) -> None:
    measure = {"aggregate": aggregate, "type": "quantitative"} | ({} if aggregate == "count" else {"field": "value"})
    encoding = {"x": dimension, "y": measure} | ({"color": {"field": "group", "type": "nominal"}} if split else {})
    spec = {"data": {"values": rows}, "mark": "bar", "encoding": encoding}
    theirs = numbers_of_vega(spec, name_of(dimension), name_of(measure), "group" if split else None)
    assert theirs
    assert numbers_of_ours(spec, split=split) == pytest.approx(theirs, rel=1e-9)


@for_each("dimension, aggregate, split", SAMPLE)
def test_numbers_are_those_of_vega(dimension: dict[str, Any], aggregate: str, split: bool):
    """Categories, time units and bins, by any aggregate, with series or without, have Vega's labels and numbers."""
    compare(dimension, aggregate, split=split)


def test_weeks_of_years_are_those_of_vega():
    """Weeks that follow one another over the end of a year have Vega's labels and numbers."""
    days = [datetime(2025, 11, 20, tzinfo=UTC) + timedelta(days=3 * n) for n in range(30)]
    rows = [{**row, "day": f"{day:%Y-%m-%d}"} for row, day in zip(ROWS, days, strict=False)]
    compare({"field": "day", "timeUnit": "yearweek", "type": "temporal"}, "sum", split=True, rows=rows)


@pytest.mark.whole
@pytest.mark.parametrize(("dimension", "aggregate", "split"), CASES, ids=str)
def test_all_numbers_are_those_of_vega(dimension: dict[str, Any], aggregate: str, split: bool):
    """All combinations of dimension, aggregate and series have Vega's labels and numbers."""
    compare(dimension, aggregate, split=split)


def comparable() -> list[ChartSpec]:
    """Return the plain bars and pies of the corpus whose categories Vega writes out in full."""
    return [
        each
        for each in corpus()
        if each.plain and each.name.startswith(("bar_", "arc_")) and "'ordinal', 'timeUnit'" not in str(each.spec)
    ]


def test_bars_and_slices_of_the_corpus_are_those_of_vega():
    """The bars and pies of the corpus, sorted, stacked, filtered and folded, have Vega's numbers."""
    bars = [each for each in comparable() if "Offset" not in str(each.spec)]
    assert len(bars) > 15
    for chart in bars:
        plain = reduced(chart.spec)
        assert plain is not None
        theirs = sorted(value for labels in drawn(chart.spec) for value in amounts(labels, plain.y))
        ours = sorted(value for each in plain.series for value in each.values if value is not None)
        assert ours == pytest.approx(theirs), chart.name


def amounts(labels: dict[str, str], name: str | None) -> Iterator[float]:
    for key, value in labels.items():
        if key == name:
            yield float(value.replace("−", "-").replace(",", ""))
