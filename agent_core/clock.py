"""The only source of time: wall clock in milliseconds, and sleeping."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Return the time and wait; tests pass a clock that they move by hand."""

    def now(self) -> int:
        """Return milliseconds since the epoch, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
