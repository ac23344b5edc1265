"""What conversations cost, billed by the simulated caches, against the cheapest bill and against no cache at all."""

import asyncio
import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_core.agents import Compaction, Definition, Limits
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.messages import Actor, Text
from agent_core.providers.anthropic import AnthropicProvider
from agent_core.providers.base import Price, find
from agent_core.providers.openai import OpenAIProvider
from agent_core.store.database import SqliteDatabase
from agent_core.testing import FakeClock
from agent_core.testing.models.caching import FIVE_MINUTES, HALF_DAY, HALF_HOUR, HOUR, Caches, CacheWire
from agent_core.tools.functions import tool
from tests.bench.simulated import OUTPUT, Billed, SimulatedClient, Timeline
from tests.bench.table import Goal, Row

# Of a burst each conversation writes what all share: processes would have to wait for one another.
NEAR_IDEAL = Goal(must=1.05, aim=1.03)
OF_UNCACHED = Goal(must=0.22, aim=0.19)
MODELS: dict[str, CacheWire] = {"anthropic:claude-opus-5": "messages", "openai:gpt-5.6-sol": "responses"}
"""Whose reads cost a tenth of plain input, with their wires."""
LIFETIMES = {"messages": (FIVE_MINUTES, HOUR), "responses": (HALF_HOUR, HALF_DAY)}
MINUTE = 60.0
PATIENCE = 60.0


@dataclass(frozen=True)
class Conversations:
    """How many *sessions* there are, each of so many *exchanges* of so many model *calls*.

    A tool's *result* and the *shared* prefix are in tokens. Of the pauses between exchanges the share *long* lasts
    longer than an hour, the others up to three minutes; a *burst* of the sessions begins at the same moment, when no
    cache has the prefix, the others within *hours*. Half-way the core is stopped, and started again from its log.
    """

    sessions: int = 40
    exchanges: int = 40
    calls: int = 4
    result: int = 1_200
    shared: int = 18_000
    long: float = 0.1
    burst: int = 10
    hours: float = 8.0


FEW = Conversations(sessions=4, exchanges=8, shared=4_000, burst=3, hours=0.2)
"""Enough of them for the ratios that a test asserts."""


@dataclass(frozen=True)
class Bills:
    """Sums in USD, of so many *calls*."""

    billed: float
    ideal: float
    uncached: float
    calls: int


async def bills(model: str, wanted: Conversations, folder: Path, template: Path) -> Bills:
    """Hold *wanted* with *model* in a copy of the database *template* in *folder*, and return what it cost."""
    price = find(model).price
    assert price is not None
    billed = Billed()
    await _Simulation(model, wanted, billed).run(folder / f"{MODELS[model]}.db", template)
    all_bills, (plain, read, short, long) = billed.bills, _prices(price)
    output = len(all_bills) * OUTPUT * float(price.output)
    amount = sum(b.plain * plain + b.read * read + b.write_short * short + b.write_long * long for b in all_bills)
    ideal = sum(tokens * cheapest(times, price, LIFETIMES[MODELS[model]]) for tokens, times in billed.sent.values())
    return Bills(
        billed=(amount + output) / 1_000_000,
        ideal=(ideal + billed.ends * plain + output) / 1_000_000,
        uncached=(sum(bill.total for bill in all_bills) * plain + output) / 1_000_000,
        calls=len(all_bills),
    )


def cheapest(times: Sequence[int], price: Price, seconds: tuple[int, int]) -> float:
    """Return what a token costs at best, per million, that was sent at these *times*, in ms.

    A perfect cache keeps it wherever it stands in a prompt, from the moment it is sent, and knows when it is sent
    again. *seconds* are for how long it keeps what is written for short, and for long. From the last time backwards:
    what all from then on costs, if it is not in the cache, is there for short, or for long.
    """
    plain, read, short, long = _prices(price)
    long = long if price.write_long is not None else math.inf
    absent = kept = kept_long = 0.0
    following: int | None = None
    for time in reversed(times):
        pause = 0 if following is None else following - time  # after the last time all three are 0
        then_short = kept if pause < seconds[0] * 1000 else absent
        then_long = kept_long if pause < seconds[1] * 1000 else absent
        sent = min(plain + absent, short + then_short, long + then_long)
        absent, kept, kept_long = sent, min(sent, read + then_short), min(sent, read + then_long)
        following = time
    return absent


def _prices(price: Price) -> tuple[float, float, float, float]:
    """Return what a million tokens cost that are plain, read, and written for short and for long."""
    plain, *others = price.input, price.read, price.write_short, price.write_long
    return float(plain), *(float(plain if each is None else each) for each in others)


async def rows(wanted: Conversations, folder: Path, template: Path) -> list[Row]:
    """Return for each vendor the bill against the cheapest one, and against one without a cache."""
    found: list[Row] = []
    for model in MODELS:
        cost = await bills(model, wanted, folder, template)
        title = f"bill of {cost.calls:,} model calls, {model.partition(':')[0]}"
        sums = [cost.billed]
        found.append(Row(title, "USD", sums, [cost.ideal], "the cheapest bill", NEAR_IDEAL))
        found.append(Row(f"{title}, of uncached", "USD", sums, [cost.uncached], "without a cache", OF_UNCACHED))
    return found


class _Simulation:
    def __init__(self, model: str, wanted: Conversations, billed: Billed) -> None:
        self._model, self._wanted, self._billed = model, wanted, billed
        self._clock, self._caches = FakeClock(), Caches()
        self._timeline = Timeline(self._clock)
        self._random = random.Random(26)  # noqa: S311 - pauses, no secrets
        self._open, self._active, self._exchanges = asyncio.Event(), 0, 0
        self._quiet = asyncio.Event()
        self._core: Core

    async def run(self, database: Path, template: Path) -> None:
        await asyncio.to_thread(shutil.copy, template, database)
        self._core = await self._started(database)
        await self._core.agents.create(self._definition())
        self._open.set()
        work = asyncio.gather(*(self._session(n) for n in range(self._wanted.sessions)), self._restart(database))
        await self._timeline.run(work)
        await work
        await self._core.stop()

    async def _session(self, number: int) -> None:
        """Hold one conversation."""
        self._timeline.move()
        begin = 0.0 if number < self._wanted.burst else self._random.uniform(0, self._wanted.hours * 3600)
        await self._timeline.until(self._clock.now() + int(begin * 1000))
        session: str | None = None
        for exchange in range(self._wanted.exchanges):
            if exchange:
                await self._timeline.until(self._clock.now() + int(self._pause() * 1000))
            if not self._open.is_set():
                self._timeline.rest()
                await self._open.wait()
                self._timeline.move()
            session = await self._exchange(number, session, exchange)
        self._timeline.rest()

    async def _exchange(self, number: int, session: str | None, exchange: int) -> str:
        self._active += 1
        self._quiet.clear()
        actor = Actor(f"person-{number}", "user")
        text = f"Question {exchange} of person {number}: which orders of this week are late, and why?"
        inbound = Inbound(parts=(Text(text),), actor=actor)
        core = self._core
        if session is None:
            session = (await core.open_session(agent="assistant", actor=actor)).id
        receipt = await core.receive(session, inbound)
        assert receipt.run is not None
        run = await core.settled(receipt.run, timeout=PATIENCE)
        assert run.status == "completed", (run.status, run.error)
        self._active, self._exchanges = self._active - 1, self._exchanges + 1
        if not self._active:
            self._quiet.set()
        return session

    async def _restart(self, database: Path) -> None:
        """Half-way let all exchanges end, and go on with a new core on the same log."""
        half = self._wanted.sessions * self._wanted.exchanges // 2
        while self._exchanges < half:
            self._timeline.move()
            await self._timeline.until(self._clock.now() + 60_000)
            self._timeline.rest()
        self._open.clear()
        if self._active:
            await self._quiet.wait()
        await self._core.stop()
        self._core = await self._started(database)
        self._open.set()

    async def _started(self, database: Path) -> Core:
        client: Any = SimulatedClient(
            MODELS[self._model], self._billed, self._caches, self._clock, self._timeline, steps=self._wanted.calls
        )
        provider = AnthropicProvider(client) if self._model.startswith("anthropic") else OpenAIProvider(client)

        @tool
        def look_up(number: int) -> str:
            """Look an order up."""
            line = f"order {number}: late by two days, since the van broke down; "
            return (line * (self._wanted.result * 4 // len(line) + 1))[: self._wanted.result * 4]

        core = Core(
            SqliteDatabase(database),
            providers={provider.name: provider},
            tools={"look_up": look_up},
            default_model=self._model,
            clock=self._clock,
        )
        await core.start()
        return core

    def _definition(self) -> Definition:
        rule = "Rule {}: answer in a few words, and say which order, which shelf and which aisle you mean.\n"
        rules = "".join(rule.format(n) for n in range(self._wanted.shared * 4 // len(rule)))
        return Definition(
            name="assistant",
            model=self._model,
            instructions=rules,
            tools=("look_up",),
            limits=Limits(max_context_messages=None),
            compaction=Compaction(kind="off"),  # what a compaction costs is another figure
        )

    def _pause(self) -> float:
        """Return the seconds between two exchanges."""
        if self._random.random() < self._wanted.long:
            return self._random.uniform(61 * MINUTE, 120 * MINUTE)
        return self._random.uniform(20, 3 * MINUTE)
