"""A chart whose drawer is busy: it is asked for again, for a bounded time."""

import asyncio
from typing import Any

from agent_core.charts.draw import DrawingUnavailable
from agent_core.testing import FakeClock
from channels.slack import figures as figures_module
from tests.cases import for_each
from tests.channels.slack.outbound.drawings import png
from tests.polling import PATIENCE


class BusyDrawer:
    """Cannot draw the first *times* times."""

    def __init__(self, times: int) -> None:
        self.left, self.asked = times, 0

    async def png(self, _spec: Any, /, *, owner: str = "") -> bytes:
        self.asked += 1
        if self.asked <= self.left:
            raise DrawingUnavailable("Too many drawings wait.")
        return png()


@for_each("times, asked, drawn", [(2, 3, True), (100, 13, False)])
async def test_a_chart_is_asked_for_again_while_nothing_can_be_drawn(times: int, asked: int, drawn: bool):
    """A drawer that is busy is asked again after a pause, for as long as a drawing may take."""
    clock, drawer = FakeClock(), BusyDrawer(times)
    task = asyncio.create_task(figures_module._png(drawer, clock, {}, "ses_1"))
    for _ in range(asked - 1):
        assert await asyncio.wait_for(clock.advance_to_next(), PATIENCE) == figures_module.PAUSE
    assert (await task is not None) is drawn
    assert drawer.asked == asked
