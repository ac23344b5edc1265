"""How many people who have not said who they are may come from one network address: counted for a minute."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import monotonic

import structlog

from agent_core import RateLimited

WINDOW = 60.0
MOST_NEW, MOST_KNOWN = 60, 600
"""New visitors, and tokens of visitors who were here before, of one address within a window."""
MOST_OF_ALL = 3_000
"""Either of them where the address is not known: behind a proxy that no setting names all people share it."""
SIZE = 10_000
"""Addresses that are counted at once; the one that came least lately is forgotten."""
_log = structlog.get_logger("parley.newcomers")


@dataclass(slots=True)
class _Minute:
    ends: float
    count: int = 0


class Newcomers:
    """Tokens that were made for anonymous visitors in the last minute, in this process; *now* gives seconds."""

    def __init__(self, now: Callable[[], float] = monotonic, *, size: int = SIZE) -> None:
        self._now, self._size = now, size
        self._windows: OrderedDict[tuple[str | None, bool], _Minute] = OrderedDict()

    def admit(self, address: str | None, *, is_new: bool) -> None:
        """Count one token for someone at *address*, None: it is not known; raises `RateLimited` beyond the limit."""
        now, key = self._now(), (address, is_new)
        window = self._windows.pop(key, None)
        if window is None or now >= window.ends:
            window = _Minute(now + WINDOW)
        self._windows[key] = window
        if len(self._windows) > self._size:
            self._windows.popitem(last=False)
        most = MOST_OF_ALL if address is None else MOST_NEW if is_new else MOST_KNOWN
        window.count += 1
        if window.count <= most:
            return
        seconds = max(1, ceil(window.ends - now))
        if window.count == most + 1:
            _log.warning("limit.reached", limit="anonymous_tokens", address=address, seconds=seconds)
        said = "Too many people have come from your network address within a minute"
        raise RateLimited(f"{said}; try again in {seconds} seconds.", seconds, limit="anonymous_tokens")
