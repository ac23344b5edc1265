"""Wait for what no event announces: look again and again, without keeping a processor busy.

This is the one place where tests sleep. What there is an event for is awaited instead.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable

PATIENCE = 60.0 * float(os.environ.get("PARLEY_PATIENCE", "1"))
"""Seconds after which a test, or a guard in one, gives up: far more than anything here takes on an idle machine.

A slow machine sets `PARLEY_PATIENCE` to a factor.
"""
_YIELDS = 10
"""How often the event loop gets its turn before the first pause: most of what is waited for needs no more."""
_MIN_PAUSE, _MAX_PAUSE = 0.001, 0.016
"""Seconds between two looks, at first and in the end."""


async def until(condition: Callable[[], bool], *, timeout: float = PATIENCE) -> None:
    """Return once *condition* holds; raise `TimeoutError` when it does not in time."""

    async def holds() -> bool:
        return condition()

    await until_async(holds, timeout=timeout)


async def until_async(condition: Callable[[], Awaitable[bool]], *, timeout: float = PATIENCE) -> None:
    """Return once *condition*, which may ask a database or a server, holds; raise `TimeoutError` when it does not."""
    looks, pause = 0, _MIN_PAUSE
    async with asyncio.timeout(timeout):
        while not await condition():
            looks += 1
            if looks <= _YIELDS:
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
