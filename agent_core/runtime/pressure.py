"""Pressure: whether the event loop has more to do than it can. Then text is passed on in larger pieces, not later."""

import asyncio
from collections.abc import Callable

_EVERY = 0.05
_TICK = 0.001
"""Seconds: what timers are counted in. uvloop's clock has no less, and asyncio rounds each wait up to it."""
_LATE = 0.0005
"""Seconds by which timers may be late while a loop has time to spare: less than a tick.

A loop that is later has a queue already, and the first words of a new answer wait in it a dozen times.
"""
_GAIN = 4
_RELIEF = 0.002
_LONGEST = 0.1
"""Seconds: text that comes ten times a second reads as a stream."""


class Pressure:
    """Measures by how much timers of this loop come late, twenty times a second.

    *pause* is the seconds that whoever passes text on should let pass between two pieces: none while the loop keeps up,
    and the later it is the longer. A piece that waited brings what came meanwhile for the price of one. *tell* hears
    how late each timer was, in seconds.
    """

    def __init__(self, tell: Callable[[float], None] | None = None) -> None:
        self.pause = 0.0
        self._tell = tell
        self._before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._wait(asyncio.get_running_loop())

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def note(self, late: float) -> None:
        """Take in that a timer came *late* by so many seconds.

        The pause grows as long as timers are late, twice in a row at least, and shrinks when they are in time again.
        """
        lasting, self._before = min(late, self._before), late
        self.pause = min(_LONGEST, max(0.0, self.pause + max(-_RELIEF, _GAIN * (lasting - _LATE))))

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_EVERY, self._look, loop, loop.time() + _EVERY)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(0.0, _TICK * ((loop.time() - due + _TICK / 1000) // _TICK))  # whole ticks, be they a hair short
        if self._tell is not None:
            self._tell(late)
        self.note(late)
        self._wait(loop)
