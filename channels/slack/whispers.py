"""whispers: what was said to one person alone lately, so that nobody hears the same all day."""

from collections import OrderedDict

from agent_core import Clock

DAY = 24 * 3_600_000
SIZE = 10_000


class Whispers:
    """Who was told what within a day; of very many the newest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def first(self, *what: str) -> bool:
        """Tell whether *what* is said for the first time in a day, and take it for said."""
        now = self._clock.now()
        if now - self._told.get(what, -DAY) < DAY:
            return False
        self._told[what] = now
        self._told.move_to_end(what)
        while len(self._told) > SIZE:
            self._told.popitem(last=False)
        return True
