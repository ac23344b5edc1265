"""Whose job is done next: owners take turns, so that one with many slow jobs delays another by one job."""

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_core.clock import Clock

MAX_OF_ONE = 8
"""Jobs of one owner at once, its waiting ones included."""
_BARRED_FOR = 60_000
"""Milliseconds within which two killed jobs bar their owner, and for how long."""


class QueueFull(Exception):
    """Too many jobs wait already."""


class OwnerBarred(Exception):
    """Two jobs of the owner were killed within a minute; it is barred for a minute."""


class FairQueue:
    """The jobs that wait for one of *places*, by owner; at most *waiting* are in the queue besides those that run.

    Fair queueing by start tags: a job's tag is one above that of its owner's job before it, and not below that of the
    job begun last; the lowest goes first. The owner "" is unknown: it is one like others, but never barred.
    """

    def __init__(self, places: int, waiting: int, clock: Clock) -> None:
        self._most, self._clock = places + waiting, clock
        self._free, self._begun, self._count = places, 0, 0
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._jobs = Counter[str]()
        self._last: dict[str, int] = {}
        self._killed: dict[str, int] = {}
        self._barred: dict[str, int] = {}

    def enter(self, owner: str) -> None:
        """Count a job of *owner*; raise QueueFull when too many wait, OwnerBarred when the owner is."""
        self.check(owner)
        if self._jobs[owner] >= MAX_OF_ONE or self._jobs.total() >= self._most:
            raise QueueFull
        self._jobs[owner] += 1

    def leave(self, owner: str) -> None:
        """End a job that has entered."""
        self._jobs[owner] -= 1
        if not self._jobs[owner]:
            del self._jobs[owner]
            self._last.pop(owner, None)

    def check(self, owner: str) -> None:
        """Raise OwnerBarred when *owner* is."""
        if self._barred.get(owner, 0) > self._clock.now():
            raise OwnerBarred

    def killed(self, owner: str) -> None:
        """Note that a job of *owner* was killed; a second one within a minute bars the owner for a minute."""
        now = self._clock.now()
        self._killed = {name: at for name, at in self._killed.items() if now - at < _BARRED_FOR}
        self._barred = {name: until for name, until in self._barred.items() if until > now}
        if owner in self._killed:
            self._barred[owner] = now + _BARRED_FOR
        if owner:
            self._killed[owner] = now

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncGenerator[None]:
        """Hold one of the places, which a job of *owner* gets when it is its turn."""
        tag = self._last[owner] = max(self._begun, self._last.get(owner, -1) + 1)
        if self._free:
            self._free, self._begun = self._free - 1, tag
        else:
            await self._wait(tag)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, tag: int) -> None:
        ready = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._queue, (tag, self._count, ready))
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():  # it came at the same moment
                self._next()
            raise

    def _next(self) -> None:
        while self._queue:
            tag, _, ready = heapq.heappop(self._queue)
            if not ready.done():
                self._begun = max(self._begun, tag)
                ready.set_result(None)
                return
        self._free += 1
