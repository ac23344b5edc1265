"""The open streams and waits of this process, so that a stop of the server can end them at once."""

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from agent_core import RateLimited

MOST_OF_ONE = 16
"""Open streams of one visitor: tabs of a browser, and what each reads."""
AGAIN = 5
"""Seconds of `Retry-After` for one more."""


class Seats(Protocol):
    """Where a stream is registered while it is open."""

    def check(self) -> None:
        """Raise `RateLimited` when there is no room for one more."""
        ...

    def holding(self, task: asyncio.Task[Any]) -> Any:
        """Return a context in which *task* is known."""
        ...


class Readers:
    """Tasks that only pass on what happens; ending one loses nothing, its reader comes back with a cursor."""

    def __init__(self, *, most_of_one: int = MOST_OF_ONE) -> None:
        self._open: set[asyncio.Task[Any]] = set()
        self._most, self._of = most_of_one, Counter[Hashable]()
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

    def check(self) -> None:
        """Let any number by: an operator's streams are not counted."""

    @contextmanager
    def holding(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Keep *task* known while the block runs."""
        self._open.add(task)
        if self.closed:
            task.cancel()
        try:
            yield
        finally:
            self._open.discard(task)
            task.cancel()

    def of(self, reader: Hashable) -> "Own":
        """Return the seats of one *reader*, which are counted."""
        return Own(self, reader, self._of, self._most)


class Own:
    """The seats of one reader among all."""

    def __init__(self, all_: Readers, reader: Hashable, counts: Counter[Hashable], most: int) -> None:
        self._all, self._reader, self._counts, self._most = all_, reader, counts, most

    def check(self) -> None:
        """Raise `RateLimited` when this reader has as many streams as one may have."""
        if self._counts[self._reader] >= self._most:
            raise RateLimited(f"You have {self._most} open streams; close one first.", AGAIN)

    @contextmanager
    def holding(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Keep *task* known, and counted, while the block runs."""
        self._counts[self._reader] += 1
        try:
            with self._all.holding(task):
                yield
        finally:
            self._counts[self._reader] -= 1
            if not self._counts[self._reader]:
                del self._counts[self._reader]
