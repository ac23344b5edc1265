"""What the commands of the fakes share: serving until Ctrl-C."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

T = TypeVar("T")


async def serve(command: str, listening: AbstractAsyncContextManager[T], say: Callable[[T], str]) -> None:
    """Print what *say* returns, and serve until Ctrl-C; exit with 1 when the port cannot be listened on."""
    over = asyncio.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, over.set)
    try:
        async with listening as it:
            sys.stdout.write(say(it))
            sys.stdout.flush()
            # What the imports made stays: collecting it again and again delays single deltas.
            gc.collect()
            gc.freeze()
            await over.wait()
    except OSError as error:
        sys.stderr.write(f"{command}: {error.strerror or error}; take another --port.\n")
        raise SystemExit(1) from None
