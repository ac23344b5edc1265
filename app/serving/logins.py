"""Failed logins: counted by address, logged, and slowed. What failed is never logged."""

from collections.abc import Callable

import structlog

from app.addresses import place_of
from app.serving.windows import CountWindows

MAX_FAILURES = 30
"""Failures of an address within a window that are answered as usual."""
WINDOW = 60.0
SIZE = 10_000
"""Addresses that are counted at once; the one that failed least lately is forgotten."""
_log = structlog.get_logger("parley.login")


class Logins:
    """The failed logins of the last minute, by address; *now* gives seconds that only grow."""

    def __init__(self, now: Callable[[], float], *, most: int = MAX_FAILURES, size: int = SIZE) -> None:
        self._most = most
        self._failures = CountWindows[str](now, length=WINDOW, size=size)

    def fail(self, address: str) -> int | None:
        """Count a failure from *address*; return after how many seconds to come back when there are too many."""
        place = place_of(address)
        failures, seconds = self._failures.add(place)
        if failures <= self._most:
            _log.warning("login.failed", address=place, failures=failures)
            return None
        if failures == self._most + 1:
            _log.warning("login.slowed", address=place, seconds=seconds)
        return seconds
