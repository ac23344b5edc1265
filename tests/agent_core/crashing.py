"""A database that dies at a chosen transaction, as a killed process does: nothing after it happens."""

import asyncio
from collections.abc import Callable
from typing import Literal, TypeVar

from sqlalchemy import Connection

from agent_core.store.database import Database
from tests.agent_core.databases import Wrapped

T = TypeVar("T")
Side = Literal["before", "after"]


class CrashingDatabase(Wrapped):
    """Freeze at write number *at*, before it or after its commit; *crashed* tells when. 0 never crashes."""

    def __init__(self, inner: Database, at: int = 0, side: Side = "before") -> None:
        super().__init__(inner)
        self.writes = 0
        self.crashed = asyncio.Event()
        self._at, self._side = at, side

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        self.writes += 1
        if self.crashed.is_set() or self.writes == self._at:
            if self._side == "after" and not self.crashed.is_set():
                await super().write(work)
            self.crashed.set()
            await asyncio.Future()
        return await super().write(work, committed)
