"""Background tasks: their end."""

import asyncio


async def cancel_and_wait(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel *tasks*, and return when they have ended."""
    for task in filter(None, tasks):
        task.cancel()
        await asyncio.wait((task,))
