"""What conversations cost, billed by the simulated caches, against the cheapest bill and against no cache at all."""

import asyncio
import random
import shutil
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from agent_core import Actor, Compaction, Core, Definition, Inbound, Limits, SqliteDatabase, Text
from agent_core.caching.caches import Bill, Caches
from agent_core.caching.causes import CAUSES, explain, usd
from agent_core.caching.positions import CacheWire
from agent_core.providers.anthropic.provider import AnthropicProvider
from agent_core.providers.models import find
from agent_core.providers.openai.provider import OpenAIProvider
from agent_core.testing import FakeClock
from agent_core.tools.function import tool
from tests.bench.simulated import Billed, SimulatedClient, Timeline
from tests.bench.table import Goal, Row

# Issue 26 sets both.
NEAR_IDEAL = Goal(must=1.03, aim=1.03)
OF_UNCACHED = Goal(must=0.22, aim=0.19)
MODELS: dict[str, CacheWire] = {"anthropic:claude-opus-5": "messages", "openai:gpt-5.6-sol": "responses"}
"""Whose reads cost a tenth of plain input, with their wires."""
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
    """Sums in USD, with the *causes* of the difference; so many *calls* took so many *seconds* to simulate."""

    billed: Decimal
    ideal: Decimal
    uncached: Decimal
    causes: dict[str, Decimal]
    calls: int
    seconds: float


async def bills(model: str, wanted: Conversations, folder: Path, template: Path) -> Bills:
    """Hold *wanted* with *model* in a copy of the database *template* in *folder*, and return what it cost."""
    began = time.monotonic()
    price = find(model).price
    assert price is not None
    billed = Billed(model, price)
    await _Simulation(model, wanted, billed).run(folder / f"{MODELS[model]}.db", template)
    output = billed.output * price.output / 1_000_000
    explained = explain(billed.calls)
    causes = {cause: sum((each.causes.get(cause, Decimal(0)) for each in explained), Decimal(0)) for cause in CAUSES}
    return Bills(
        billed=sum((usd(call.bill, price) for call in billed.calls), output),
        ideal=sum((usd(each.ideal, price) for each in explained), output),
        uncached=sum((usd(Bill(plain=call.bill.total), price) for call in billed.calls), output),
        causes={cause: amount for cause, amount in causes.items() if amount},
        calls=len(billed.calls),
        seconds=time.monotonic() - began,
    )


async def rows(wanted: Conversations, folder: Path, template: Path) -> list[Row]:
    """Return for each vendor the bill against the cheapest one, and against one without a cache."""
    found: list[Row] = []
    for model in MODELS:
        cost = await bills(model, wanted, folder, template)
        title = f"bill of {cost.calls:,} model calls, {model.partition(':')[0]}"
        sums = [float(cost.billed)]
        found.append(Row(title, "USD", sums, [float(cost.ideal)], "the cheapest bill", NEAR_IDEAL))
        found.append(Row(f"{title}, of uncached", "USD", sums, [float(cost.uncached)], "without a cache", OF_UNCACHED))
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
