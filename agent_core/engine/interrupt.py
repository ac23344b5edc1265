"""Interrupt: stop what a driver is doing, without ending the driver."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Interrupt:
    """Stops what a driver is doing, without ending the driver."""

    def __init__(self) -> None:
        self.called = False
        self.leaving = False
        """Whether the driver is about to end or wait: nothing is shown of the run any more."""
        self._acting: asyncio.Task[Any] | None = None

    def __call__(self) -> None:
        """Interrupt the model call or the tools that run now; the driver then reads the news.

        Once is enough: a second Stop must not disturb how the first one brings things to their end.
        """
        self.called = True
        acting, self._acting = self._acting, None
        if acting is not None:
            acting.cancel()

    @contextmanager
    def listening(self) -> Generator[None]:
        """Let an interrupt cancel the current task, inside this block and no further."""
        task = self._acting = asyncio.current_task()
        try:
            yield
        finally:
            self._acting = None
            while self.called and task is not None and task.cancelling():
                task.uncancel()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Keep an interrupt from cancelling what must be whole, such as an append; it is noticed afterwards."""
        task, self._acting = self._acting, None
        try:
            yield
        finally:
            self._acting = task
