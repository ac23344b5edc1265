"""The open streams and waits of this process, so that they can be ended at once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from agent_core import RateLimited, SystemClock
from channels.web.identity import Principal


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, and of which session."""

    principal: Principal
    session: str


MOST_OF_ONE = 16
"""Open streams of one visitor: tabs of a browser, and what each reads."""
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

    def __init__(self, *, most_of_one: int = MOST_OF_ONE, now: Callable[[], int] | None = None) -> None:
        self._open: dict[asyncio.Task[Any], Reader | None] = {}
        self._now = now or SystemClock().now
        self._most, self._counts = most_of_one, Counter[tuple[str | None, str] | None]()
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

    def of(self, principal: Principal, session: str) -> "Seat":
        """Return what holds the tasks that serve *principal* with what happens in *session*."""
        return Seat(self, Reader(principal, session))

    def check(self) -> None:
        """Let any number by: an operator's streams are not counted."""

    def check_one(self, principal: Principal) -> None:
        """Raise `RateLimited` if *principal* is a visitor who has as many streams as one may have."""
        if principal.visitor and self._counts[_name(principal)] >= self._most:
            raise RateLimited(f"You have {self._most} open streams; close one first.", RETRY_AFTER, limit="streams")

    @contextmanager
    def holding(self, task: asyncio.Task[Any], reader: Reader | None = None) -> Iterator[None]:
        """Keep *task*, which serves *reader*, known while the block runs."""
        self._open[task] = reader
        counted = None if reader is None else _name(reader.principal)
        self._counts[counted] += 1
        if self.closed or (reader is not None and self._is_refused(reader)):
            task.cancel()
        expiry = None if reader is None else self._expiry(reader.principal, task)
        try:
            yield
        finally:
            if expiry is not None:
                expiry.cancel()
            self._open.pop(task, None)
            self._counts[counted] -= 1
            if not self._counts[counted]:
                del self._counts[counted]
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
        self.readers.check_one(self.reader.principal)

    def holding(self, task: asyncio.Task[Any]) -> AbstractContextManager[None]:
        """Keep *task* known while the block runs."""
        return self.readers.holding(task, self.reader)


def _name(principal: Principal) -> tuple[str | None, str]:
    return principal.agent, principal.actor.id
