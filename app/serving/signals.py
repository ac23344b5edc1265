"""Ctrl-C and SIGTERM: the first asks for a clean stop, the second ends the process at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

TAKEN = (signal.SIGINT, signal.SIGTERM)
AT_ONCE = "parley: ended at once; unfinished work continues in another process, or at the next start.\n"


class Signals:
    """Calls a function at the first signal; until `ask` sets one, that cancels the task that made this."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._end: Callable[[], object] = task.cancel
        self._came = False

    def ask(self, end: Callable[[], object]) -> None:
        """Call *end* at the first signal from now on."""
        self._end = end

    @contextmanager
    def taken(self) -> Iterator[Self]:
        """Take the signals while the block runs."""
        loop = asyncio.get_running_loop()
        for each in TAKEN:
            loop.add_signal_handler(each, self.take, each)
        try:
            yield self
        finally:
            for each in TAKEN:
                loop.remove_signal_handler(each)

    def take(self, number: signal.Signals) -> None:
        """Handle a signal; a second one ends the process without cleanup, as a kill does."""
        if self._came:
            sys.stderr.write(AT_ONCE)
            sys.stderr.flush()
            os._exit(128 + number)
        self._came = True
        self._end()
