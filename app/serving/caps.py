"""What an address did within a minute: failed logins, and people who came without saying who they are."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

import structlog
from starlette.types import Scope

from agent_core.errors import RateLimited
from app.settings import is_shared, place_of
from channels.web.identity import Principal

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


ELSEWHERE = "elsewhere"
"""The address of all anonymous visitors whose own is not known."""
RETRY_AFTER = 5
"""Seconds after which one more turn is worth a try: the longest that a drawing takes."""


def address_in(scope: Scope) -> str | None:
    """Return the network address that a request came from; of IPv6 the network of 64 bits that one customer has.

    This is the one place that says so: it is the connection's peer, or what a proxy of PARLEY_TRUSTED_PROXIES names.
    None for this machine and private networks: without that setting it is a proxy, which all visitors come through.
    """
    client = scope.get("client")
    return None if client is None or is_shared(client[0]) else place_of(client[0])


def visitors_address(principal: Principal, scope: Scope) -> str | None:
    """Return the address that a visitor's use counts towards; None for an operator, and where it is not known.

    Anonymous visitors always have one: without it a new id, which costs them nothing, would be all that it takes.
    """
    if not principal.visitor:
        return None
    return address_in(scope) or (ELSEWHERE if principal.is_anonymous else None)


class Caps(NamedTuple):
    """The most that one visitor, all but operators at one address, and everyone may hold at once."""

    visitor: int
    address: int
    everyone: int


TURNS = Caps(visitor=2, address=4, everyone=32)
"""Turns at once; of everyone as many as may wait for the renderer."""


class Held:
    """Counts what is held at once of one thing."""

    def __init__(self) -> None:
        self._held = Counter[tuple[str, ...]]()

    @contextmanager
    def holding(self, principal: Principal | None, scope: Scope, caps: Caps) -> Iterator[Callable[[int], bool]]:
        """Give a function that holds more until the end of the block; it returns False beyond one of the *caps*.

        *principal* is None for a caller who is not identified.
        """
        holders, own = dict(_holders(principal, scope, caps)), 0

        def add(size: int) -> bool:
            nonlocal own
            own += size
            self._held.update(dict.fromkeys(holders, size))
            return all(self._held[each] <= most for each, most in holders.items())

        try:
            yield add
        finally:
            self._held.subtract(dict.fromkeys(holders, own))
            for each in holders:
                if not self._held[each]:
                    del self._held[each]


def _holders(principal: Principal | None, scope: Scope, caps: Caps) -> Iterator[tuple[tuple[str, ...], int]]:
    """Give whose caps count, with the most of each: an operator has none but everyone's."""
    yield ("everyone",), caps.everyone
    address = address_in(scope) if principal is None else visitors_address(principal, scope)
    if address is not None:
        yield ("address", address), caps.address
    if principal is not None and principal.visitor:
        yield ("visitor", principal.agent or "", principal.actor.id), caps.visitor


class Turns(Held):
    """Work of one *kind* that callers wait for; *said* to who asks for too much of it."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__()
        self._kind, self._said = kind, said

    @contextmanager
    def turn(self, principal: Principal, scope: Scope) -> Iterator[None]:
        """Count one more piece of work of *principal* while the block lasts; raises `RateLimited`."""
        with self.holding(principal, scope, TURNS) as hold:
            if not hold(1):
                raise RateLimited(self._said, RETRY_AFTER, limit=self._kind)
            yield
