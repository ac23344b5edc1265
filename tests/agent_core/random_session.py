"""Random sessions: conversations with tools, failures, steering, stops and restarts, to check the laws on."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from agent_core.agent.entries import ASKED
from agent_core.agent.window import Window, WindowEntry
from agent_core.agents import Agent, Compaction, Controls, Definition, Limits
from agent_core.channels import Context, Inbound
from agent_core.controls import Abilities, Caching
from agent_core.core import Core
from agent_core.events import Fact, StepStarted
from agent_core.messages import Actor, Message, Role, Text, text_of
from agent_core.providers.base import Request
from agent_core.store import log, reading, runs, sessions
from agent_core.store.hub import Subscriber
from agent_core.testing import (
    Answer,
    Item,
    ScriptedProvider,
    call,
    fail,
    finish,
    pause,
    raw_call,
    refuse,
    say,
    think,
    usage,
)
from agent_core.testing.clock import Level
from agent_core.testing.scripted import prefix_of
from agent_core.tools.functions import FunctionTool, tool
from tests.agent_core.random_plans import Act, Kind, Plan
from tests.agent_core.scenes import Hurried
from tests.conftest import OpenDatabase
from tests.polling import PATIENCE

FOREVER = 10**9
CACHED = Abilities(caching=Caching(vendor="anthropic", least=1, short_s=FOREVER, long_s=FOREVER))
ANN, BOB, MEG = Actor("ann", "user"), Actor("bob", "user", "Bob"), Actor("operator", "service", "Meg")
LONG = " and more" * 100
"""What makes a result worth a placeholder."""


class Gate(asyncio.Event):
    """A point where a task waits; *reached* is set once it does."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.reached.set()
        return await super().wait()


@dataclass(frozen=True)
class Asked:
    """One model call: the request, its bytes, and the seq of the step that announced it."""

    request: Request
    entries: tuple[WindowEntry, ...]
    prefix: bytes
    step: int


@dataclass(frozen=True)
class Summing:
    """One request for a summary: the bytes of what it is about, and the seq of the newest fact before it."""

    prefix: bytes
    seq: int


@dataclass
class RandomSession:
    """A plan that comes alive; afterwards *facts*, *asked* and *summed* are what happened."""

    open_database: OpenDatabase
    plan: Plan
    facts: list[Fact] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    summed: list[Summing] = field(default_factory=list)
    agents: dict[str, Agent] = field(default_factory=dict)
    windows: list[tuple[Window, Window]] = field(default_factory=list)

    async def live(self) -> "RandomSession":
        """Play the plan to its end, and read what happened."""
        self._gates = [Gate() for _ in self.plan.steps]
        self._asked = Level()
        self._sent, self._changes, self._edits, self._begun = 0, 0, 0, 0
        self._session = self._newest = ""
        await self._begin()
        try:
            async with asyncio.timeout(2 * PATIENCE):
                for n in range(len(self.plan.steps)):
                    await self._play(n)
                await self._idle()
                await self._compare()
                await self._read()
        finally:
            await self._core.stop(grace=1.0)
        return self

    async def _begin(self) -> None:
        """Start a process on the database, the first or the next one."""
        self._provider = ScriptedProvider(self._answer, able=CACHED)
        self._begun += 1
        tools = {made.spec.name: made for made in map(self._ordered, self._tools())}
        self._core = Core(
            self.open_database(),
            providers={"scripted": self._provider},
            tools=tools,
            default_model="scripted",
            clock=Hurried(),
        )
        self._facts = Subscriber()
        if self._session:
            self._facts = self._core._store.hub.subscribe(self._session)
        await self._core.start()
        if not (await self._core.agents.list()).items:
            limits = Limits(max_context_messages=self.plan.max_context_messages)
            controls = Controls(max_steps=self.plan.max_steps)
            await self._core.agents.create(
                Definition(
                    name="a",
                    instructions="Be brief.",
                    tools=tuple(tools),
                    limits=limits,
                    controls=controls,
                    compaction=Compaction(kind=self.plan.kind),
                )
            )
        if not self._session:
            self._session = (await self._core.open_session(agent="a", actor=ANN)).id
            self._facts = self._core._store.hub.subscribe(self._session)

    async def _play(self, n: int) -> None:
        """See that model call *n* is made, and do what is to be done meanwhile."""
        step, gate = self.plan.steps[n], self._gates[n]
        while self._asked.value <= n:
            if not await first(self._reached(n), self._idle()) and self._asked.value <= n:
                await self._send(own=step.own)
        if step.act and await first(gate.reached.wait(), first(self._reached(n + 1), self._idle())):
            await self._do(step.act)
        gate.set()

    async def _reached(self, n: int) -> None:
        await self._asked.reached(n + 1)

    async def _do(self, act: Act) -> None:
        if act == "cancel":
            run = next(fact.run for fact in reversed(self._facts.events) if fact.type == StepStarted.type)
            await self._core.cancel(run or "", by=ANN)
        elif act in ("correct", "retract"):
            await self._change(act)
        elif act == "tell":
            await self._core.add_context(self._session, [Context(text=f"noted after message {self._sent}")])
        elif act == "reply":
            await self._core.replies.give(self._session, f"replied after message {self._sent}", by=MEG)
        elif act == "join":
            await self._send("steer", by=BOB)
        elif act == "edit":
            self._edits += 1
            await self._core.agents.update("a", {"instructions": f"Be brief, {self._edits}."})
        elif act == "restart":
            await self._compare()
            await self._core.stop(grace=1.0)
            await self._begin()
        else:
            await self._send(act)

    async def _change(self, act: Literal["correct", "retract"]) -> None:
        """Change the newest message."""
        if act == "correct":
            self._changes += 1
            await self._core.correct(self._session, self._newest, (Text(f"change {self._changes}"),))
        else:
            await self._core.retract(self._session, self._newest, by=ANN)

    async def _send(
        self, overlap: Literal["queue", "steer", "interrupt"] = "queue", *, own: bool = False, by: Actor = ANN
    ) -> None:
        self._sent += 1
        instructions = f"Be number {self._sent}." if own else None
        text = Text(f"message {self._sent}")
        roles: list[Role] = ["user", "assistant", "user", "assistant"]
        history = tuple(Message(role, (Text(f"{role} {self._sent}"),)) for role in roles) if own else ()
        context = () if self._sent % 3 else (Context(text=f"said before message {self._sent}", author="Bob"),)
        asked = Inbound(parts=(text,), actor=by, overlap=overlap, history=history, context=context)
        asked = msgspec.structs.replace(asked, instructions=instructions)
        self._newest = (await self._core.receive(self._session, asked)).message

    async def _idle(self) -> None:
        async with aclosing(self._core.follow(self._session, until_idle=True)) as batches:
            async for _ in batches:
                pass

    def _answer(self, request: Request) -> Answer:
        """Note what was asked, and give the next answer of the plan; after its end, a plain one."""
        if ASKED in text_of(request.messages[-1].message.parts):
            return self._summary(request)
        step = next(fact for fact in reversed(self._facts.events) if fact.type == StepStarted.type)
        assert isinstance(step, Fact)
        entries = tuple(entry for entry in request.messages if isinstance(entry, WindowEntry))
        self.asked.append(Asked(request, entries, prefix_of(request), step.seq))
        n = self._asked.value
        self._asked.set(n + 1)
        if n >= len(self.plan.steps):
            return (self._billed(), say("The end."))
        said = self._said(n)
        return said if self.plan.steps[n].kind in ("fail", "dead", "full") else (self._billed(), *said)

    def _summary(self, request: Request) -> Answer:
        """Note what is to be summed up, and sum it up; each third summary fails."""
        older = prefix_of(replace(request, messages=request.messages[:-1]))
        newest = next(fact.seq for fact in reversed(self._facts.events) if isinstance(fact, Fact))
        self.summed.append(Summing(older, newest))
        made = len(self.summed)
        return (fail(),) if made % 3 == 0 else (say(f"Summary {made}."),)

    def _billed(self) -> Item:
        """Report what a cache that keeps every prompt for good bills of the newest one, a token a byte."""
        newest, earlier = self.asked[-1].prefix, [asked.prefix for asked in self.asked[:-1]]
        read = max((_shared(newest, prefix) for prefix in earlier), default=0)
        written = len(newest) - read
        return usage(input=0, output=1, reasoning=0, cache_read=read, cache_write_short=written, cache_write_long=0)

    def _said(self, n: int) -> Answer:
        step, gate = self.plan.steps[n], self._gates[n]
        items: list[Item] = [think(f"Thought {n}."), say(f"Text {n}.")]
        if step.kind in ("empty", "full"):
            items = []
        if step.act and step.place != "tool":
            items.insert(0 if step.place == "asked" else len(items), pause(gate))
        return [*items, *_end(step.kind, n)]

    def _tools(self) -> tuple[FunctionTool[..., Any], ...]:
        async def work(n: int) -> str:
            if 0 <= n < len(self.plan.steps) and self.plan.steps[n].act and self.plan.steps[n].place == "tool":
                await self._gates[n].wait()
            return f"result {n}{LONG if n % 2 == 0 else ''}"

        @tool(concurrency_safe=True)
        async def look(n: int, also: int = 0) -> str:
            """Look."""
            return await work(n)

        @tool(effect="write")
        async def move(n: int) -> str:
            """Move."""
            return await work(n)

        return look, move

    def _ordered(self, made: FunctionTool[..., Any]) -> FunctionTool[..., Any]:
        """Return a tool as this process has it: every second one has dictionaries in another order."""
        spec = made.spec
        if self._begun % 2 == 0:
            spec = msgspec.structs.replace(spec, parameters=_backwards(spec.parameters))
        return replace(made, spec=spec)

    async def _compare(self) -> None:
        """Note the session's window as it grew and as it is rebuilt from the log, brought to the same fact."""
        store, homes = self._core._store, self._core._cache
        grown = (await homes.get(self._session)).window.preview([])
        loaded = await store.read(reading.load, self._session)
        rebuilt = (await homes._built(loaded)).window
        seq = min(grown.seq, rebuilt.seq)
        facts = await store.read(log.facts_between, loaded.session.session_key, seq)
        grown.apply(facts)
        rebuilt.apply(facts)
        self.windows.append((grown, rebuilt))

    async def _read(self) -> None:
        store = self._core._store
        place = (await store.read(sessions.find, self._session)).session_key
        self.facts = await store.read(log.facts_between, place, 0)
        home = await self._core._cache.get(self._session)
        for run in dict.fromkeys(fact.run for fact in self.facts if fact.run):
            ref, _ = await store.read(lambda connection, run=run: runs.find(connection, run))
            self.agents[run] = await self._core._segments.agent_of(ref, home)


def _backwards(value: Any) -> Any:
    """Return JSON with the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {name: _backwards(each) for name, each in reversed(value.items())}
    return [_backwards(each) for each in value] if isinstance(value, list) else value


def _end(kind: Kind, n: int) -> Sequence[Item]:
    """Return how an answer of this kind ends; calls name the step they are of."""
    ends: dict[Kind, Sequence[Item]] = {
        "look": [call("look", n=n)],
        "looks": [call("look", n=n), call("look", n=n, also=1)],
        "move": [call("move", n=n), call("look", n=n)],
        "same": [call("look", n=-1)],
        "unknown": [call("unknown", n=n)],
        "broken": [raw_call("look", '{"n": '), call("look", n=n, also="x")],
        "length": [raw_call("look", '{"n": '), finish("length")],
        "continue": [finish("continue")],
        "refuse": [refuse()],
        "fail": [fail(retry_after=0.0)],
        "late": [say("More."), fail("network", retry_after=0.0)],
        "full": [fail("context_overflow", retryable=False)],
        "dead": [fail("invalid", retryable=False)],
    }
    return ends.get(kind, [])


def _shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two prompts have in common at their beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least


async def first(wanted: Awaitable[object], other: Awaitable[object]) -> bool:
    """Wait for either and return whether the wanted one came."""
    tasks = [asyncio.ensure_future(wanted), asyncio.ensure_future(other)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
