"""A number that tests can wait for."""

import asyncio
import gc
import math
import signal
import sys
from bisect import insort
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar


class Level:
    """Hold a number; `reached` returns as soon as it is high enough."""

    def __init__(self) -> None:
        self.value = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def set(self, value: int) -> None:
        self.value = value
        for wanted, future in self._waiting:
            if wanted <= value and not future.done():
                future.set_result(None)

    async def reached(self, wanted: int) -> None:
        """Return once the number is *wanted* or more, at once if it is already."""
        if self.value >= wanted:
            return
        entry = (wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            await entry[1]
        finally:
            self._waiting.remove(entry)


START = 1_767_225_600_000
"""Milliseconds since the epoch at which a `FakeClock` starts: 2026-01-01T00:00:00Z."""


@dataclass(order=True, slots=True)
class _Sleeper:
    due: int
    order: int
    woken: asyncio.Future[None] = field(compare=False)


class FakeClock:
    """A clock whose time changes only when a test moves it.

    Sleepers wake in the order of their deadlines, those of one deadline in the order in which they lay down.
    A woken task runs when the test next gives control to the event loop, so a test waits for what it expects:
    `await clock.slept()` returns when a task sleeps, `await clock.advance_to_next()` waits for a sleeper and
    moves time to its deadline.
    """

    def __init__(self, start: int = START) -> None:
        # Whole microseconds: a thousand steps of 20 ms are exactly 20 s.
        self._now = start * 1000
        self._sleepers: list[_Sleeper] = []
        self._asleep = Level()
        self._order = count()

    def now(self) -> int:
        """Return milliseconds since the epoch, UTC."""
        return self._now // 1000

    @property
    def sleepers(self) -> int:
        """Return how many tasks sleep now."""
        return len(self._sleepers)

    @property
    def longest(self) -> float:
        """Return the seconds until the last of them is due; 0 when no task sleeps."""
        return max((each.due - self._now for each in self._sleepers), default=0) / 1_000_000

    @property
    def ahead(self) -> float:
        """Return the seconds until the first of them is due; infinite when no task sleeps."""
        return (self._sleepers[0].due - self._now) / 1_000_000 if self._sleepers else math.inf

    async def sleep(self, seconds: float) -> None:
        """Return when the test has moved time by *seconds*; with none to wait, after one round of the loop."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        sleeper = _Sleeper(self._now + max(1, _micro(seconds)), next(self._order), woken)
        insort(self._sleepers, sleeper)
        self._asleep.set(len(self._sleepers))
        try:
            await woken
        finally:
            if sleeper in self._sleepers:  # cancelled
                self._sleepers.remove(sleeper)
                self._asleep.set(len(self._sleepers))

    def advance(self, seconds: float) -> None:
        """Move time by *seconds* and wake all sleepers that are due by then."""
        self._move_to(self._now + _micro(seconds))

    async def advance_to_next(self) -> float:
        """Wait until a task sleeps, move time to the nearest deadline, and return the seconds moved."""
        await self.slept()
        before = self._now
        self._move_to(self._sleepers[0].due)
        await asyncio.sleep(0)
        return (self._now - before) / 1_000_000

    async def slept(self, n: int = 1) -> None:
        """Return once *n* tasks or more sleep at the same time."""
        while len(self._sleepers) < n:
            await self._asleep.reached(n)

    def _move_to(self, now: int) -> None:
        self._now = max(self._now, now)
        while self._sleepers and self._sleepers[0].due <= self._now:
            sleeper = self._sleepers.pop(0)
            if not sleeper.woken.done():
                sleeper.woken.set_result(None)
        self._asleep.set(len(self._sleepers))


def _micro(seconds: float) -> int:
    return round(seconds * 1_000_000)


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
