"""A stage for specifications of the loop: a core on a real database, a model that plays a script, and the log."""

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from agent_core.agent.frames import CORRECTION, STOPPED_NOTE
from agent_core.agents import Compaction, Controls, DeclaredTool, Hook, Limits
from agent_core.channels import Inbound, Overlap
from agent_core.clock import Clock
from agent_core.controls import ABLE, Abilities
from agent_core.core import Core
from agent_core.events import Event, Fact, FactBody, LiveBody
from agent_core.messages import Actor, Message, Text, ToolResult, text_of
from agent_core.objects import RunObject
from agent_core.providers.base import Request
from agent_core.store import log, sessions
from agent_core.testing import FakeClock, Script, ScriptedProvider
from agent_core.tools.base import Tool
from tests.conftest import MakeCore
from tests.polling import PATIENCE

ANN = Actor("ann", "user")
B = TypeVar("B")
_FRAME = re.compile(r"\[(\w+) ([\w-]{10})\] (.*?)[ \n]\[/\1 \2\]", re.DOTALL)
_UNMARKED = {"correction": CORRECTION, "stopped": STOPPED_NOTE}


class Reader:
    """A reader who follows a session live; *events* is what they have seen so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    async def read(self, batches: AsyncIterable[list[Event]]) -> None:
        async for batch in batches:
            self.events += batch
            self._news.set()

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event that is wanted, once it was seen; what was seen before counts too."""
        async with asyncio.timeout(PATIENCE):
            while (found := next(filter(wanted, self.events), None)) is None:
                self._news.clear()
                await self._news.wait()
        return found


@dataclass
class Stage:
    """One session with the agent `assistant`, and what a test does to it."""

    core: Core
    provider: ScriptedProvider
    session: str

    async def send(self, text: str = "Go", *, overlap: Overlap = "queue", actor: Actor = ANN, **controls: Any) -> str:
        """Send a message and return the run that takes it."""
        inbound = Inbound(parts=(Text(text),), actor=actor, overlap=overlap, controls=Controls(**controls))
        return (await self.core.receive(self.session, inbound)).run

    async def done(self, run: str) -> RunObject:
        """Return the run once it has ended or waits; a late notification may resume one that waits, for a moment."""
        ends = asyncio.get_running_loop().time() + PATIENCE
        found = await self.core.settled(run, timeout=PATIENCE)
        while found.status in ("queued", "running") and asyncio.get_running_loop().time() < ends:
            found = await self.core.settled(run, timeout=PATIENCE)
        seen = [(fact.type, fact.raw) for fact in await self.log()][-4:]
        assert found.status not in ("queued", "running"), f"`{run}` is still {found.status} after {seen}"
        return found

    async def play(self, text: str = "Go", **controls: Any) -> RunObject:
        """Send a message and see its run through."""
        return await self.done(await self.send(text, **controls))

    async def stop(self, run: str) -> RunObject:
        """Cancel a run and see it end."""
        await self.core.cancel(run, by=ANN)
        return await self.done(run)

    async def log(self) -> list[Fact]:
        """Return the session's facts so far."""
        return await self.core._store.read(
            lambda connection: log.facts_between(connection, sessions.find(connection, self.session).session_key, 0)
        )

    async def said(self, kind: type[B], run: str | None = None) -> list[B]:
        """Return the bodies of this kind in the log, of one run if it is named."""
        return [
            fact.body for fact in await self.log() if isinstance(fact.body, kind) and (run is None or fact.run == run)
        ]

    async def types(self, run: str) -> list[str]:
        """Return the types of the run's facts, in order."""
        return [fact.type for fact in await self.log() if fact.run == run]

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Reader]:
        """Follow the session from its beginning."""
        reader = Reader()
        async with aclosing(self.core.follow(self.session)) as batches:
            reading = asyncio.create_task(reader.read(batches))
            try:
                await reader.until(lambda event: event.type == "session.opened")
                yield reader
            finally:
                reading.cancel()
                await asyncio.wait([reading])

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event that is wanted, from the session's beginning on."""
        async with self.reader() as reader:
            return await reader.until(wanted)

    async def asked(self, n: int) -> Request:
        """Return the n-th request of the model, from 1, once it was made."""
        async with asyncio.timeout(PATIENCE):
            await self.provider.asked(n)
        return self.provider.requests[n - 1]


async def set_stage(
    make_core: MakeCore,
    script: Script,
    *,
    tools: Sequence[Tool] = (),
    clock: Clock | None = None,
    limits: Limits | None = None,
    controls: Controls | None = None,
    stand_ins: tuple[str, ...] = (),
    hooks: Sequence[Hook] = (),
    declared: Sequence[DeclaredTool] = (),
    name: str = "scripted",
    compaction: Compaction | None = None,
    model: str | None = None,
    able: Abilities = ABLE,
    **options: Any,
) -> Stage:
    """Start a core whose model plays *script* as the provider *name*, and open a session.

    Without a *compaction* a window is cut: no script has to write summaries.
    """
    provider = ScriptedProvider(script, clock=clock, name=name, able=able)
    definition: dict[str, Any] = {
        "limits": limits or Limits(),
        "controls": controls or Controls(),
        "fallback_models": stand_ins,
        "hooks": tuple(hooks),
        "compaction": compaction or Compaction(kind="cut"),
        "model": model,
        "tools": (*(each.spec.name for each in tools), *declared),
    }
    core = await make_core(provider, tools=tuple(tools), definition=definition, clock=clock, **options)
    return Stage(core, provider, (await core.open_session(agent="assistant", actor=ANN)).id)


async def restart(make_core: MakeCore, stage: Stage, script: Script, **options: Any) -> Stage:
    """Stop the stage's core as a deploy does, and start another on the same database."""
    await stage.core.stop(grace=1.0)
    clock = options.get("clock")
    provider = ScriptedProvider(script, clock=clock)
    return Stage(await make_core(provider, **options), provider, stage.session)


async def asleep(clock: FakeClock, n: int) -> None:
    """Return once *n* tasks sleep: an idle core has two, its sweep and its heartbeat; a pausing run is a third."""
    async with asyncio.timeout(PATIENCE):
        await clock.slept(n)


def is_a(kind: type[FactBody | LiveBody], **fields: Any) -> Callable[[Event], bool]:
    """Return whether an event is of *kind* and has these *fields*."""
    return lambda event: isinstance(event.body, kind) and all(getattr(event.body, k) == v for k, v in fields.items())


def texts(request: Request) -> list[tuple[str, str]]:
    """Return role and text of each message that the model saw, frames unmarked; a result is its outcome and text."""
    return [(entry.message.role, unmarked(_text(entry.message))) for entry in request.messages]


def unmarked(text: str) -> str:
    """Return *text* with the frames of the core as they are in a session without a marker."""
    return _FRAME.sub(lambda found: _UNMARKED.get(found[1], f"[{found[1]}] {found[3]}"), text)


def results(request: Request) -> list[ToolResult]:
    """Return the tool results that the model saw, in its order."""
    return [part for entry in request.messages for part in entry.message.parts if isinstance(part, ToolResult)]


def _text(message: Message) -> str:
    return text_of(message.parts) or " ".join(
        f"{part.outcome}: {text_of(part.parts)}" for part in message.parts if isinstance(part, ToolResult)
    )
