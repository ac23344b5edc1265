"""Properties of the checks and of plain charts, over any JSON and over specifications with broken parts."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_core.charts.reduce import reduced
from agent_core.charts.spec import BadSpec, checked
from agent_core.charts.values import PlainChart
from tests.agent_core.charts.specs import corpus

WORDS = """mark encoding data values transform x y color theta field type aggregate bin timeUnit sort scale axis stack
xOffset detail tooltip layer facet spec repeat title filter fold as groupby datasets name format condition test domain
legend width height impute and or not order op bar line arc point sum count month yearmonth nominal temporal""".split()  # noqa: SIM905
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, 1e308, 8e12, 0, -1]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=20), st.sampled_from(["2026-02-30", *WORDS]))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)),
    max_leaves=12,
)


def is_sound(chart: PlainChart) -> bool:
    """Return whether all surfaces can draw a plain chart."""
    lengths = {len(each.values) for each in chart.series}
    numbers = [value for each in chart.series for value in each.values if value is not None]
    numbers += [part for each in chart.series for point in each.points for part in point]
    return (
        bool(chart.series)
        and len(set(chart.categories)) == len(chart.categories) <= 5_000
        and (chart.type == "scatter" or lengths == {len(chart.categories)})
        and all(map(isfinite, numbers))
        and (chart.type != "pie" or (len(chart.series) == 1 and min(numbers) >= 0))
    )


def read(spec: Any) -> None:
    """Check and reduce a specification: nothing but `BadSpec` may be raised, and what reduces is sound."""
    with suppress(BadSpec):
        checked(spec)
    chart = reduced(spec)
    assert chart is None or is_sound(chart)


@given(JSON)
def test_any_json_is_read(spec: Any):
    """Whatever a model writes is a chart, an error with its path, or nothing; never a crash."""
    read(spec)


@given(st.integers(0, 2**32), st.lists(JSON, min_size=3, max_size=3))
def test_broken_specifications_are_read(seed: int, parts: list[Any]):
    """A good chart with parts of it replaced is drawn or refused, and what reduces is sound."""
    random = Random(seed)  # noqa: S311
    spec = copy.deepcopy(random.choice(corpus()).spec)
    for part in parts:
        holder, key = random.choice(list(places(spec)))
        holder[key] = part
        read(spec)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each object or list with each of its keys or indices."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield value, key
        yield from places(each)
