"""The one thread that makes tables and charts, beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREAD = ThreadPoolExecutor(1, "parley-renders")
"""One for all: several would take turns with each other before the event loop has its own."""
Made = TypeVar("Made")


async def in_render_thread(make: Callable[[], Made]) -> Made:
    """Return what *make* gives, made beside the event loop, which a large table would hold for many milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, make)
