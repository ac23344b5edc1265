"""Databases of either kind in a wrapper that delays or fails commits."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from agent_core.store.database import Database

T = TypeVar("T")


class Wrapped:
    """A database as it is."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        return await self.inner.write(work, committed)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.inner.read(work)

    async def peek(self, work: Callable[[Connection], T]) -> T:
        return await self.inner.peek(work)

    async def close(self) -> None:
        await self.inner.close()


class LateDatabase(Wrapped):
    """Once *hold* is set, the next commit is visible to reads before any subscriber was notified of it."""

    def __init__(self, inner: Database) -> None:
        super().__init__(inner)
        self.hold: asyncio.Event | None = None
        self.held = asyncio.Event()

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        hold, self.hold = self.hold, None
        if hold is None:
            return await super().write(work, committed)
        done = await super().write(work)
        self.held.set()
        await hold.wait()
        if committed is not None:
            committed(done)
        return done
