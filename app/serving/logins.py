"""Failed logins: counted by address, logged, and slowed. What failed is never logged."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from math import ceil

import structlog

MOST = 30
"""Failures of an address within a window that are answered as usual."""
WINDOW = 60.0
SIZE = 10_000
"""Addresses that are counted at once; the one that failed least lately is forgotten."""
_log = structlog.get_logger("parley.login")


@dataclass(slots=True)
class _Failures:
    ends: float
    failures: int = 0


class Logins:
    """The failed logins of the last minute, by address; *now* gives seconds that only grow."""

    def __init__(self, now: Callable[[], float], *, most: int = MOST, size: int = SIZE) -> None:
        self._now, self._most, self._size = now, most, size
        self._windows: OrderedDict[str, _Failures] = OrderedDict()

    def fail(self, address: str) -> int | None:
        """Count a failure from *address*; return after how many seconds to come back when there are too many."""
        network, now = _network(address), self._now()
        window = self._windows.pop(network, None)
        if window is None or now >= window.ends:
            window = _Failures(now + WINDOW)
        self._windows[network] = window
        if len(self._windows) > self._size:
            self._windows.popitem(last=False)
        window.failures += 1
        if window.failures <= self._most:
            _log.warning("login.failed", address=network, failures=window.failures)
            return None
        if window.failures == self._most + 1:
            _log.warning("login.slowed", address=network, seconds=ceil(window.ends - now))
        return max(1, ceil(window.ends - now))


def _network(address: str) -> str:
    """Return whom an *address* stands for: of IPv6 its /64, which one caller has whole."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
