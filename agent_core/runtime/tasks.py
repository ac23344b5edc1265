"""Background tasks: their end."""

import asyncio


async def ended(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel *tasks*, and return when they have ended."""
    for task in filter(None, tasks):
        task.cancel()
        await asyncio.wait((task,))
