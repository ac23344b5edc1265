"""The database port: a transaction is a plain function of a sync `Connection`."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class Database(Protocol):
    """Run transactions."""

    async def write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        """Run *work* in one transaction and return its result once it is committed.

        *then* is called with the result on the event loop, before any awaiting task goes on, and also when that task
        was cancelled meanwhile; in commit order mostly: news of a commit may overtake that of an earlier one. An
        exception of *work* undoes the transaction and is raised.
        """
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run *work*, which only reads, on a consistent view of what was committed before the call."""
        ...

    async def peek(self, work: Callable[[Connection], T]) -> T:
        """Do the same for *work* that reads a few rows by key: where that is quicker, without a way to a thread."""
        ...

    async def close(self) -> None: ...
