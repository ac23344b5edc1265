"""Model calls without sockets: what a provider would send is billed by the simulated caches, at times that are made up.

The store, the window, the encoders and the bodies of the requests are the real ones. In place of the vendor's SDK
stands a client that gives each body to the simulation and answers as a script says. Time is moved to the next thing
that waits for it, once all sessions wait: hours pass in seconds.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from agent_core.messages import Usage
from agent_core.providers.base import (
    CallFailed,
    Finished,
    ModelDelta,
    ModelTextDelta,
    Spare,
    Started,
    ToolEnd,
    ToolStart,
    UsageReport,
)
from agent_core.providers.client import Fold
from agent_core.testing import FakeClock
from agent_core.testing.models.caching import Bill, Caches, CacheWire, ModelPrompt

FIRST_TOKEN, WHOLE_ANSWER = 1.5, 6.0
"""Seconds after which an answer begins, and ends."""
HELD = 0.3
"""Real seconds after which a session that neither asks nor waits is one that another's answer holds up."""
OUTPUT = 250


class Timeline:
    """Moves *clock* to the next moment that something waits for, as soon as all that is in motion waits."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._moving = 0
        self._rested = asyncio.Event()

    async def until(self, time: int) -> None:
        """Wait for a moment, in ms; who waits is not in motion."""
        reached = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (time, next(self._order), reached))
        self.rest()
        await reached

    def move(self) -> None:
        """Note that one more is in motion."""
        self._moving += 1
        self._rested.clear()

    def rest(self) -> None:
        """Note that one is in motion no longer."""
        self._moving -= 1
        if self._moving <= 0:
            self._rested.set()

    async def run(self, work: "asyncio.Future[Any]") -> None:
        """Move time until *work* is done."""
        while not work.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD):
                    await self._rested.wait()
            if not self._waiting:
                await asyncio.wait([work], timeout=0.01)
                continue
            time, _, reached = heapq.heappop(self._waiting)
            if reached.cancelled():
                continue
            self.move()
            self._clock.advance(max(0, time - self._clock.now()) / 1000)
            reached.set_result(None)
            await asyncio.sleep(0)


@dataclass
class Billed:
    """The bills of all calls of a simulation, and when each piece of their prompts was sent, in ms, with its tokens."""

    bills: list[Bill] = field(default_factory=list)
    sent: dict[bytes, tuple[int, list[int]]] = field(default_factory=dict)
    ends: int = 0
    """Tokens at the ends of prompts, which no other prompt has."""

    def add(self, prompt: ModelPrompt, caches: Caches, now: int) -> Callable[[], None]:
        """Bill a request that is sent at *now*, and return what to do when its answer begins."""
        priced, before = caches.price(prompt, now), 0
        for step in priced.steps:
            self.sent.setdefault(step.key, (step.tokens - before, []))[1].append(now)
            before = step.tokens
        self.ends += priced.bill.total - before
        self.bills.append(priced.bill)
        return lambda: caches.write(priced)


class SimulatedClient:
    """In the place of a vendor's SDK: bills each body, and answers it as *steps* says: with so many calls of a tool."""

    def __init__(
        self, wire: CacheWire, billed: Billed, caches: Caches, clock: FakeClock, timeline: Timeline, *, steps: int
    ) -> None:
        self._wire: CacheWire = wire
        self._billed, self._caches = billed, caches
        self._clock, self._timeline, self._steps = clock, timeline, steps

    async def prepare(self) -> None:
        """Import nothing."""

    async def close(self) -> None:
        """Close nothing."""

    async def stream(
        self,
        _path: str,
        body: bytes,
        _fold: Fold,
        _learn: Callable[[CallFailed], None] | None = None,
        spares: Sequence[Spare] = (),
    ) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Bill *body*; the first text comes after `FIRST_TOKEN` seconds, the end after `WHOLE_ANSWER`."""
        asked = msgspec.json.decode(body)
        begun = self._billed.add(ModelPrompt(self._wire, asked["model"], asked), self._caches, self._clock.now())
        bill, number, start = self._billed.bills[-1], len(self._billed.bills), self._clock.now()
        await self._timeline.until(start + int(FIRST_TOKEN * 1000))
        begun()
        said = f"{number}: " + "the orders of this week are on the shelf. " * 20
        yield [Started(f"answer_{number}", asked["model"]), ModelTextDelta(0, said[: OUTPUT * 4 - 80])]
        await self._timeline.until(start + int(WHOLE_ANSWER * 1000))
        if _results(asked) % self._steps < self._steps - 1:
            call = f"call_{number:08}"
            arguments = {"number": number}
            raw = msgspec.json.encode(arguments).decode()
            yield [ToolStart(1, call, "look_up"), ToolEnd(1, raw, arguments)]
        usage = Usage(bill.plain, OUTPUT, None, bill.read, bill.write_short, bill.write_long)
        ends = "tools" if _results(asked) % self._steps < self._steps - 1 else "done"
        yield [UsageReport(usage), Finished(ends)]


def _results(body: dict[str, Any]) -> int:
    """Return how many results follow the newest answer without a call: how far the exchange is."""
    items, found = body.get("messages") or body.get("input") or [], 0
    for item in reversed(items):
        if item.get("type") == "function_call_output":
            found += 1
        elif item.get("role") == "user":
            results = [part for part in item["content"] if part.get("type") == "tool_result"]
            if not results:
                break
            found += len(results)
    return found
