"""Counts within a window of time, by whom they are of, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import ceil
from typing import Generic, TypeVar

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
