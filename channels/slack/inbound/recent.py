"""Events that this process remembers, so that notices are not repeated and order is kept."""

from collections import OrderedDict

from agent_core import Clock

DAY = 24 * 3_600_000
SIZE = 10_000


class Deduplicator:
    """Remembers the events of the last day, the newest `SIZE` of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def knows(self, *what: str) -> bool:
        """Return whether *what* happened within a day."""
        return self._clock.now() - self._seen.get(what, -DAY) < DAY

    def first(self, *what: str) -> bool:
        """Return whether *what* happens for the first time in a day, and remember that it has."""
        if self.knows(*what):
            return False
        self._seen[what] = self._clock.now()
        self._seen.move_to_end(what)
        while len(self._seen) > SIZE:
            self._seen.popitem(last=False)
        return True


class Newest:
    """Remembers when the newest event of each subject happened, to refuse older ones."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def covers(self, what: str, at: tuple[int, int]) -> bool:
        """Return whether a newer event of *what* than the one *at* is known; remember this one if not."""
        if self._seen.get(what, at) > at:
            return True
        self._seen[what] = at
        self._seen.move_to_end(what)
        while len(self._seen) > SIZE:
            self._seen.popitem(last=False)
        return False
