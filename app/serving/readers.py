"""The open streams and waits of this process, so that they can be ended at once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent_core import RateLimited, SystemClock
from agent_core.quotas import DEFAULT_STREAMS
from channels.web.identity import Principal


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """Open streams of one visitor, of all at one address, and of all visitors, of an agent; None sets no bound."""

    visitor: int | None = None
    address: int | None = None
    everyone: int | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, and of which session; *address* is the one that the stream counts towards, *bounds* the agent's."""

    principal: Principal
    session: str
    address: str | None = None
    bounds: StreamBounds | None = None


MAX_OF_ONE = DEFAULT_STREAMS
MAX_OF_ADDRESS = 256
"""Open streams of all visitors at one address, however many connections they share: a large office's."""
RETRY_AFTER = 5
"""Seconds after which one more is worth a try."""


class Seats(Protocol):
    """Where a stream is registered while it is open."""

    def check(self) -> None:
        """Raise `RateLimited` when there is no room for one more."""
        ...

    def holding(self, task: asyncio.Task[Any]) -> AbstractContextManager[None]:
        """Return a context in which *task* is known."""
        ...


class Readers:
    """Tasks that only pass on what happens; ending one loses nothing, its reader comes back with a cursor.

    A task ends with what its reader sent as a credential, at the latest; *now* returns milliseconds since the epoch.
    """

    def __init__(
        self,
        *,
        most_of_one: int = MAX_OF_ONE,
        most_of_address: int = MAX_OF_ADDRESS,
        now: Callable[[], int] | None = None,
    ) -> None:
        self._open: dict[asyncio.Task[Any], Reader | None] = {}
        self._now = now or SystemClock().now
        self._default, self._of_address = StreamBounds(most_of_one), most_of_address
        self._counts = Counter[_Counted]()
        self._is_refused: Callable[[Reader], bool] = lambda _: False
        self.closed = False

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def close(self) -> None:
        """End every open task, and every later one as soon as it begins."""
        self.closed = True
        for task in tuple(self._open):
            task.cancel()

    def refuse(self, is_refused: Callable[[Reader], bool]) -> None:
        """Ask *is_refused* about every reader that begins, and at each `end_refused`."""
        self._is_refused = is_refused

    def end_refused(self) -> None:
        """End the open tasks of the readers that are refused from now on."""
        for task, reader in tuple(self._open.items()):
            if reader is not None and self._is_refused(reader):
                task.cancel()

    def of(
        self, principal: Principal, session: str, *, address: str | None = None, bounds: StreamBounds | None = None
    ) -> "Seat":
        """Return what holds the tasks that serve *principal*, at the *address*, with the events of *session*."""
        return Seat(self, Reader(principal, session, address, bounds))

    def check(self) -> None:
        """Let any number by: an operator's streams are not counted."""

    def check_one(self, reader: Reader) -> None:
        """Raise `RateLimited` if *reader*, or its address, has as many streams as visitors may have open."""
        for counted, who in _counted(reader):
            if (most := self._most(reader, counted)) is not None and self._counts[counted] >= most:
                text = f"{who} {most} open stream{'' if most == 1 else 's'}, as many as are allowed"
                raise RateLimited(f"{text}; close one first, or try again in a moment.", RETRY_AFTER, limit="streams")

    def _most(self, reader: Reader, counted: "_Counted") -> int | None:
        """Return how many streams there may be of *counted*."""
        bounds = reader.bounds or self._default
        match counted[0]:
            case "visitor":
                return bounds.visitor
            case "address" if counted[1] is None:
                return self._of_address
            case "address":
                return bounds.address
            case "everyone":
                return bounds.everyone

    @contextmanager
    def holding(self, task: asyncio.Task[Any], reader: Reader | None = None) -> Iterator[None]:
        """Keep *task*, which serves *reader*, known while the block runs."""
        self._open[task] = reader
        counted = [] if reader is None else [each for each, _ in _counted(reader)]
        self._counts.update(counted)
        if self.closed or (reader is not None and self._is_refused(reader)):
            task.cancel()
        expiry = None if reader is None else self._expiry(reader.principal, task)
        try:
            yield
        finally:
            if expiry is not None:
                expiry.cancel()
            self._open.pop(task, None)
            self._counts.subtract(counted)
            for each in counted:
                if not self._counts[each]:
                    del self._counts[each]
            task.cancel()

    def _expiry(self, principal: Principal, task: asyncio.Task[Any]) -> asyncio.TimerHandle | None:
        """Return the timer that ends *task* when what *principal* sent expires; None if it never does."""
        if principal.expires is None:
            return None
        return asyncio.get_running_loop().call_later((principal.expires - self._now()) / 1000, task.cancel)


@dataclass(frozen=True, slots=True)
class Seat:
    """Holds the tasks of one reader."""

    readers: Readers
    reader: Reader

    def check(self) -> None:
        """Raise `RateLimited` if this reader has as many streams as one may have."""
        self.readers.check_one(self.reader)

    def holding(self, task: asyncio.Task[Any]) -> AbstractContextManager[None]:
        """Keep *task* known while the block runs."""
        return self.readers.holding(task, self.reader)


_Counted = tuple[Literal["visitor", "address", "everyone"], str | None, str]
"""Whose streams are counted: of which agent, None for all of them, and whose."""


def _counted(reader: Reader) -> list[tuple[_Counted, str]]:
    """Return what a stream of *reader* counts towards, and how a refusal calls it; an operator's counts nowhere."""
    principal = reader.principal
    if not principal.visitor:
        return []
    agent, address, here = principal.agent, reader.address, "Your network address has"
    at: list[tuple[_Counted, str]] = []
    if address is not None:
        at = [(("address", agent, address), here), (("address", None, address), here)]
    own: _Counted = ("visitor", agent, principal.actor.id)
    return [(own, "You have"), *at, (("everyone", agent, ""), "The people who use this assistant have")]
