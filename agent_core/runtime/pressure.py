"""Pressure: how overloaded the event loop is. Under load text is passed on in larger pieces, not later."""

import asyncio
from collections.abc import Callable

_EVERY = 0.05
_TICK = 0.001
"""Seconds: the resolution of timers. uvloop's clock has no finer one, and asyncio rounds each wait up to it."""
_LATE = 0.0005
"""Seconds by which timers may be late while a loop is idle enough: less than a tick.

In a loop that is later there is a queue already, and the first words of a new answer wait in it a dozen times.
"""
_GAIN = 4
_RELIEF = 0.002
_MAX_PAUSE = 0.1
"""Seconds: text that comes ten times a second reads as a stream."""


class Pressure:
    """Measures by how much timers of this loop are late, twenty times a second.

    *pause* is how many seconds to wait between two pieces of text: none while the loop keeps up, longer the later its
    timers are. A piece that waited includes the text that came meanwhile, at the cost of one. *observe* is called with
    the lateness of each timer, in seconds.
    """

    def __init__(self, observe: Callable[[float], None] | None = None) -> None:
        self.pause = 0.0
        self._observe = observe
        self._before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start measuring."""
        self._wait(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def note(self, late: float) -> None:
        """Record that a timer was *late* by so many seconds.

        The pause grows while timers are late, twice in a row at least, and shrinks when they are on time again.
        """
        lasting, self._before = min(late, self._before), late
        self.pause = min(_MAX_PAUSE, max(0.0, self.pause + max(-_RELIEF, _GAIN * (lasting - _LATE))))

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_EVERY, self._look, loop, loop.time() + _EVERY)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(0.0, _TICK * ((loop.time() - due + _TICK / 1000) // _TICK))  # whole ticks, allowing for rounding
        if self._observe is not None:
            self._observe(late)
        self.note(late)
        self._wait(loop)
