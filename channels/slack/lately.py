"""lately: what happened within a day, as far as this process remembers: so that nobody is told the same all day."""

from collections import OrderedDict

from agent_core import Clock

DAY = 24 * 3_600_000
SIZE = 10_000


class Lately:
    """What happened within a day; of very much the newest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def knows(self, *what: str) -> bool:
        """Tell whether *what* happened within a day."""
        return self._clock.now() - self._known.get(what, -DAY) < DAY

    def first(self, *what: str) -> bool:
        """Tell whether *what* happens for the first time in a day, and remember that it has."""
        if self.knows(*what):
            return False
        self._known[what] = self._clock.now()
        self._known.move_to_end(what)
        while len(self._known) > SIZE:
            self._known.popitem(last=False)
        return True
