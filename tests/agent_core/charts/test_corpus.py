"""Each chart of the corpus that no surface draws by itself is drawn as a picture."""

import html
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent_core.charts.draw import Drawer
from tests.agent_core.charts.drawings import PNG, opened
from tests.agent_core.charts.specs import chart_named, corpus

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.whole]
LABEL = re.compile(r'aria-label="([^"]*)" role="graphics-symbol"')
DATE = re.compile(r"[A-Z][a-z]+ (\d\d, )?\d{4}$")
COMPUTED = ("area_density", "boxplot", "errorb", "loess", "regression", "window")
"""Charts whose marks have no number that is in the rows, or a simple sum of them."""
VIEWS = 3
"""How often a chart that repeats one view shows each row."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drawer() -> AsyncIterator[Drawer]:
    async with opened(seconds=60) as made:
        yield made


@pytest.mark.whole
async def test_each_chart_that_is_not_plain_gives_a_picture(drawer: Drawer):
    """Every chart of the corpus that does not reduce gives a PNG of a sensible size, light and dark."""
    charts = [each for each in corpus() if not each.plain]
    assert len(charts) > 30
    for n, chart in enumerate(charts):
        picture = await drawer.png(chart.spec, scale=1, dark=n % 2 == 1)
        width, height = int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])
        assert picture.startswith(PNG), chart
        assert 50 < width < 2000, chart
        assert 30 < height < 2000, chart
    assert len(drawer.pids) == 1


@pytest.mark.whole
async def test_the_numbers_of_a_picture_are_those_of_the_rows(drawer: Drawer):
    """Each mark of a picture is labelled with values of the rows, or with what their sums and counts are."""
    counts: Counter[str] = Counter()
    for chart in corpus():
        if chart.plain or chart.name.startswith(COMPUTED):
            continue
        labels = marks_in(await drawer.svg(chart.spec))
        assert labels, chart
        rows = rows_of(chart.spec)
        if counted := [int(label["Count of Records"]) for label in labels if "Count of Records" in label]:
            assert sum(counted) in (len(rows), VIEWS * len(rows)), chart
            counts[chart.name] += len(counted)
        for label in labels:
            counts[chart.name] += sum(agrees(key, text, label, rows) for key, text in label.items())
    assert len(counts) > 30
    assert all(counts.values()), counts


async def test_a_picture_has_a_mark_for_each_row(drawer: Drawer):
    """Where nothing is computed, a drawing has one mark for each row, labelled with what the row says."""
    for name in ("rect_heatmap", "text_table", "point_log_scale"):
        spec = chart_named(name).spec
        found = marks_in(await drawer.svg(spec))
        rows = spec["data"]["values"]
        assert sorted(map(str, found)) == sorted(str({key: str(row[key]) for key in found[0]}) for row in rows)
        assert set(found[0]) == set(rows[0])


def marks_in(svg: bytes) -> list[dict[str, str]]:
    """Return what the label of each mark of a drawing says, by field."""
    labels = [html.unescape(each).replace("\u2212", "-") for each in LABEL.findall(svg.decode())]
    return [dict(part.rsplit(": ", 1) for part in label.split("; ")) for label in labels]


def rows_of(view: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all rows that *view* holds, or that are in its parts."""
    own: list[dict[str, Any]] = [*view.get("data", {}).get("values", ())]
    for rows in view.get("datasets", {}).values():
        own += rows
    parts = [each for key in ("layer", "concat", "hconcat", "vconcat") for each in view.get(key, ())]
    return own + [row for each in parts for row in rows_of(each)]


def agrees(key: str, text: str, label: dict[str, str], rows: list[dict[str, Any]]) -> bool:
    """Check the *text* of the field *key* of a mark against the rows that its *label* is about; False: no way to."""
    if any(key in row for row in rows) and not DATE.search(text):
        assert text in {written(row[key]) for row in rows if row.get(key) is not None}, label
        return True
    if any(" (" in each or DATE.search(value) for each, value in label.items() if each != key):
        return False
    if (summed := re.fullmatch(r"(Sum|Mean) of (\w+)", key)) is None or text.endswith("%"):
        return False
    fields = {each: value for each, value in label.items() if any(each in row for row in rows)}
    values = [row[summed[2]] for row in rows if all(written(row.get(each)) == value for each, value in fields.items())]
    assert float(text) == pytest.approx(sum(values) / (len(values) if summed[1] == "Mean" else 1)), label
    return True


def written(value: Any) -> str:
    """Return *value* as a label has it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
