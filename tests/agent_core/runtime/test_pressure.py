"""Pressure: a loop that cannot keep up passes text on in larger pieces, one that can does not."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from agent_core.runtime.drive import Pressure
from agent_core.testing import pause, say
from tests.agent_core.stage import set_stage
from tests.cases import for_each
from tests.conftest import MakeCore

IN_TIME, LATE = 0.0002, 0.012


def pressed(*late: float) -> Pressure:
    """Return the pressure after timers that came so late."""
    pressure = Pressure()
    for each in late:
        pressure.note(each)
    return pressure


def test_a_loop_in_time_makes_no_pause():
    """Timers that are about in time ask for no pause, and one that is late by chance does not either."""
    assert pressed(*[IN_TIME] * 20).pause == 0
    assert pressed(IN_TIME, LATE, IN_TIME, LATE, IN_TIME).pause == 0


def test_a_loop_that_stays_late_makes_a_growing_pause():
    """The pause grows as long as timers are late, up to a tenth of a second, and no further."""
    pauses = [pressed(*[LATE] * n).pause for n in (1, 2, 3)]
    assert pauses[0] == 0 < pauses[1] < pauses[2]
    assert pressed(*[1.0] * 100).pause == 0.1


def test_a_loop_that_is_in_time_again_makes_none():
    """The pause shrinks once timers are in time, and ends."""
    assert pressed(*[LATE] * 3, IN_TIME).pause < pressed(*[LATE] * 3).pause
    assert pressed(*[1.0] * 100, *[IN_TIME] * 200).pause == 0


class Loop:
    """A loop whose timers come late by so many seconds, one after the other."""

    def __init__(self, *late: float) -> None:
        self.now, self._late, self.timer = 12.345, iter(late), None

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[..., None], *given: Any) -> None:
        self.timer = partial(call, *given)
        self.now += delay + next(self._late, 0.0)


@for_each(
    "late, reported",
    [
        (0.0, 0.0),
        (0.0004, 0.0),
        (0.0009, 0.0),
        (0.000999999999, 0.001),
        (0.001, 0.001),
        (0.0031, 0.003),
        (-0.0005, 0.0),
    ],
)
def test_a_timer_is_late_by_whole_ticks(late, reported):
    """What a loop adds by rounding up is not lateness: an idle one would look as if it had a queue, for ever."""
    reports: list[float] = []
    pressure, loop = Pressure(reports.append), cast("Any", Loop(*[late] * 40))
    pressure._wait(loop)
    for _ in range(40):
        loop.timer()
    assert reports == pytest.approx([reported] * 40, abs=1e-9)
    assert (pressure.pause > 0) == (reported > 0)


async def test_it_measures_the_loop():
    """A loop that is kept busy is seen to be late."""
    pressure, noted, loop = Pressure(), asyncio.Event(), asyncio.get_running_loop()
    found: list[float] = []

    def note(late: float) -> None:
        found.append(late)
        noted.set()

    pressure.note = note
    pressure.start()
    until = loop.time() + 0.1
    while loop.time() < until:
        pass
    await noted.wait()
    pressure.stop()
    assert found[0] > 0.04


async def test_a_stop_does_not_wait_for_the_pause(make_core: MakeCore):
    """Under pressure an answer still comes whole, and a Stop is not held up."""
    stage = await set_stage(make_core, [(say("a", "b", "c"),), (say("Half"), pause(asyncio.Event()))])
    stage.core._segments.pressure.stop()
    stage.core._segments.pressure.pause = 0.01
    assert (await stage.play()).text == "abc"
    stage.core._segments.pressure.pause = 3600
    async with stage.reader() as reader:
        run = await stage.send()
        await reader.until(lambda event: event.type == "text.delta" and event.run == run)
        assert (await stage.stop(run)).status == "cancelled"
