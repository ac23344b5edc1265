"""Waiting for news, but not for ever."""

import asyncio

from agent_core import Clock


async def told_or_after(news: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return when *news* is set, or after *seconds*."""
    beat = asyncio.create_task(clock.sleep(seconds))
    told = asyncio.create_task(news.wait())
    try:
        await asyncio.wait((beat, told), return_when=asyncio.FIRST_COMPLETED)
    finally:
        beat.cancel()
        told.cancel()
