"""The database port: a transaction is a plain function of a sync `Connection`."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from sqlalchemy import Connection

T = TypeVar("T")


class Database(Protocol):
    """Run transactions."""

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        """Run *work* in one transaction and return its result once it is committed.

        *committed* is called with the result on the event loop, before any awaiting task continues, and also when that
        task was cancelled meanwhile: what is published there is published once per commit. On SQLite, with one writer,
        the calls come in the order of the commits; elsewhere one may overtake another, which readers repair by seq.
        An exception of *work* rolls the transaction back and is raised.
        """
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run *work*, which only reads, on a consistent view of what was committed before the call."""
        ...

    async def peek(self, work: Callable[[Connection], T]) -> T:
        """Like `read`, for *work* that reads a few rows by key; on the event loop's thread where that is faster."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Pooled(Protocol):
    """A database that counts its running transactions and those that wait for a connection."""

    @property
    def in_use(self) -> int: ...
    @property
    def waiting(self) -> int: ...


@runtime_checkable
class Scrubbing(Protocol):
    """A database that can remove what was deleted from its files."""

    async def scrub(self, tables: Sequence[str]) -> None:
        """Leave nothing in the files of what was deleted or changed in *tables*; writers wait meanwhile."""
        ...
