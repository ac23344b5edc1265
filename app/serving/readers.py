"""The open streams and waits of this process, so that a stop of the server can end them at once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Readers:
    """Tasks that only pass on what happens; ending one loses nothing, its reader comes back with a cursor."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[Any]] = set()
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
