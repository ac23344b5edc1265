"""The open streams and waits of this process, so that they can be ended at once."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from channels.web.identity import Principal


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, and of which session."""

    principal: Principal
    session: str


class Readers:
    """Tasks that only pass on what happens; ending one loses nothing, its reader comes back with a cursor."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[Any], Reader | None] = {}
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

    def end(self, is_refused: Callable[[Reader], bool]) -> None:
        """End the open tasks of the readers that are refused from now on."""
        for task, reader in tuple(self._open.items()):
            if reader is not None and is_refused(reader):
                task.cancel()

    def of(self, principal: Principal, session: str) -> "Seat":
        """Return what holds the tasks that serve *principal* with what happens in *session*."""
        return Seat(self, Reader(principal, session))

    @contextmanager
    def holding(self, task: asyncio.Task[Any], reader: Reader | None = None) -> Iterator[None]:
        """Keep *task*, which serves *reader*, known while the block runs."""
        self._open[task] = reader
        if self.closed:
            task.cancel()
        try:
            yield
        finally:
            self._open.pop(task, None)
            task.cancel()


@dataclass(frozen=True, slots=True)
class Seat:
    """Holds the tasks of one reader."""

    readers: Readers
    reader: Reader

    def holding(self, task: asyncio.Task[Any]) -> AbstractContextManager[None]:
        """Keep *task* known while the block runs."""
        return self.readers.holding(task, self.reader)
