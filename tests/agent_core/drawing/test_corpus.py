"""Each chart of the corpus that no surface draws by itself is drawn as a picture."""

import html
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent_core.drawing.drawer import Drawer
from tests.agent_core.drawing.specs import PNG, opened
from tests.agent_core.renders.specs import chart_named, corpus

pytestmark = pytest.mark.asyncio(loop_scope="module")
LABEL = re.compile(r'aria-label="([^"]*)" role="graphics-symbol"')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drawer() -> AsyncIterator[Drawer]:
    async with opened(seconds=60) as made:
        yield made


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


async def test_marks_of_a_picture_are_those_of_the_rows(drawer: Drawer):
    """A drawing has one mark for each row, labelled with what the row says."""
    for name in ("rect_heatmap", "text_table", "point_log_scale"):
        spec = chart_named(name).spec
        svg = (await drawer.svg(spec)).decode()
        labels = [html.unescape(each) for each in LABEL.findall(svg)]
        found = [dict(part.split(": ", 1) for part in label.split("; ")) for label in labels]
        rows = spec["data"]["values"]
        assert sorted(map(str, found)) == sorted(str({key: str(row[key]) for key in found[0]}) for row in rows)
        assert set(found[0]) == set(rows[0])
