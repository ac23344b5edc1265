"""Each chart of the corpus that no surface draws by itself is drawn as a picture."""

import html
import re

from tests.agent_core.drawing.specs import PNG, opened
from tests.agent_core.renders.specs import chart_named, corpus

LABEL = re.compile(r'aria-label="([^"]*)" role="graphics-symbol"')


async def test_each_chart_that_is_not_plain_gives_a_picture():
    """Every chart of the corpus that does not reduce gives a PNG of a sensible size, light and dark."""
    charts = [each for each in corpus() if not each.plain]
    assert len(charts) > 30
    async with opened(seconds=60) as drawer:
        for n, chart in enumerate(charts):
            picture = await drawer.png(chart.spec, scale=1, dark=n % 2 == 1)
            width, height = int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])
            assert picture.startswith(PNG), chart
            assert 50 < width < 2000, chart
            assert 30 < height < 2000, chart
        assert len(drawer.pids) == 1


async def test_marks_of_a_picture_are_those_of_the_rows():
    """A drawing has one mark for each row, labelled with what the row says."""
    async with opened(seconds=60) as drawer:
        for name in ("rect_heatmap", "text_table", "point_log_scale"):
            spec = chart_named(name).spec
            svg = (await drawer.svg(spec)).decode()
            labels = [html.unescape(each) for each in LABEL.findall(svg)]
            found = [dict(part.split(": ", 1) for part in label.split("; ")) for label in labels]
            rows = spec["data"]["values"]
            assert sorted(map(str, found)) == sorted(str({key: str(row[key]) for key in found[0]}) for row in rows)
            assert set(found[0]) == set(rows[0])
