"""The only source of time: wall clock in milliseconds, and sleeping."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
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


@asynccontextmanager
async def within(clock: Clock, seconds: float) -> AsyncGenerator[None]:
    """Cancel what runs here, and raise TimeoutError, when *clock* has moved on by *seconds*."""
    async with asyncio.timeout(None) as limit:
        timer = asyncio.create_task(_end(clock, seconds, limit))
        try:
            yield
        finally:
            timer.cancel()


async def _end(clock: Clock, seconds: float, limit: asyncio.Timeout) -> None:
    await clock.sleep(seconds)
    limit.reschedule(asyncio.get_running_loop().time())
