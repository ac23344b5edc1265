"""Caps: what one visitor, all visitors at one network address, and everyone may hold here at once.

First come, first served: no part of it is kept for anyone.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from starlette.types import Scope

from agent_core import RateLimited
from app.settings import is_shared, place_of
from channels.web.identity import Principal

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
