"""Each chart of the corpus that no surface draws by itself is drawn as a picture."""

from tests.agent_core.drawing.specs import PNG, opened
from tests.agent_core.renders.specs import corpus


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
