"""What the commands of the fakes have in common: a port to listen on, and serving until Ctrl-C."""

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

T = TypeVar("T")
_LARGEST_PORT = 65_535


def port(text: str) -> int:
    """Return the port that *text* names, 0 for a free one; raises `argparse.ArgumentTypeError`."""
    number = int(text)
    if not 0 <= number <= _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {_LARGEST_PORT}, not {text}")
    return number


async def serve(command: str, listening: AbstractAsyncContextManager[T], say: Callable[[T], str]) -> None:
    """Say what *say* makes of what listens, and serve until Ctrl-C; where that cannot listen, exit with 1."""
    over = asyncio.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, over.set)
    try:
        async with listening as it:
            sys.stdout.write(say(it))
            sys.stdout.flush()
            # What the imports made stays: looking through it again and again costs the slowest deltas.
            gc.collect()
            gc.freeze()
            await over.wait()
    except OSError as error:
        sys.stderr.write(f"{command}: {error.strerror or error}; take another --port.\n")
        raise SystemExit(1) from None
