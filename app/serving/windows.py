"""What an address did within a minute: failed logins, and people who came without saying who they are."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Generic, TypeVar

import structlog

from agent_core import RateLimited
from app.settings import place_of

WINDOW = 60.0
MAX_FAILURES = 30
"""Failed logins of an address within a window that are answered as usual."""
MAX_NEW, MAX_KNOWN = 60, 600
"""New visitors, and tokens of visitors who were here before, of one address within a window."""
MAX_OF_ALL = 3_000
"""Either of them where the address is not known: behind a proxy that no setting names all people share it."""
SIZE = 10_000
"""Addresses that are counted at once; the one that came least lately is forgotten."""
_log = structlog.get_logger("parley.login")

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _CountWindow:
    ends: float
    count: int = 0


class CountWindows(Generic[Key]):
    """Counts what each key did within windows of *length* seconds, which begin with the first.

    At most *size* keys are counted at once; the one that came least lately is forgotten. *now* gives seconds that only
    grow.
    """

    def __init__(self, now: Callable[[], float], *, length: float, size: int) -> None:
        self._now, self._length, self._size = now, length, size
        self._windows: OrderedDict[Key, _CountWindow] = OrderedDict()

    def add(self, key: Key) -> tuple[int, int]:
        """Count one more of *key*; return how many there are in its window, and in how many seconds that ends."""
        now = self._now()
        window = self._windows.pop(key, None)
        if window is None or now >= window.ends:
            window = _CountWindow(now + self._length)
        self._windows[key] = window
        if len(self._windows) > self._size:
            self._windows.popitem(last=False)
        window.count += 1
        return window.count, max(1, ceil(window.ends - now))


class Logins:
    """The failed logins of the last minute, by address, logged without what was sent; *now* gives seconds."""

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


class Newcomers:
    """Tokens that were made for anonymous visitors in the last minute, in this process; *now* gives seconds."""

    def __init__(self, now: Callable[[], float] = monotonic, *, size: int = SIZE) -> None:
        self._tokens = CountWindows[tuple[str | None, bool]](now, length=WINDOW, size=size)

    def admit(self, address: str | None, *, is_new: bool) -> None:
        """Count one token for someone at *address*, None: it is not known; raises `RateLimited` beyond the limit."""
        count, seconds = self._tokens.add((address, is_new))
        most = MAX_OF_ALL if address is None else MAX_NEW if is_new else MAX_KNOWN
        if count <= most:
            return
        if count == most + 1:
            _log.warning("limit.reached", limit="anonymous_tokens", address=address, seconds=seconds)
        text = "Too many people have come from your network address within a minute"
        raise RateLimited(f"{text}; try again in {seconds} seconds.", seconds, limit="anonymous_tokens")
