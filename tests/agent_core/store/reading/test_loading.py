"""Loading: a window that is built from the log is the one that the process had, byte by byte."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agent_core.agent.entries import ASKED
from agent_core.agents import Controls, Limits
from agent_core.core import Core
from agent_core.messages import Message, Text, text_of
from agent_core.providers.base import Request
from agent_core.runtime.session_cache import MAX_SESSIONS
from agent_core.testing import Answer, FakeClock, ScriptedProvider, call, pause, say, think
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, idle, local, log_of, open_session, say_and_wait, send, types
from tests.conftest import MakeCore
from tests.polling import until

HISTORY = (Message("user", (Text("Before"),)), Message("assistant", (Text("that"),)))


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


class EventfulSession:
    """A session that all kinds of things happen to, with a window of eight messages."""

    def __init__(self) -> None:
        self.hold = asyncio.Event()
        self.core: Core
        self.session = ""

    def script(self, request: Request) -> Answer:
        newest = request.messages[-1].message
        said = text_of(newest.parts)
        if ASKED in said:
            return (think("Hm."), say("They looked and held."))
        if newest.role == "user" and "look" in said:
            return (think("Hm."), call("look", what="a"), call("look", what="b"))
        if "hold" in said:
            return (say("Well, "), pause(self.hold), say("now."))
        return (think("Hm."), say("To ", said))

    async def say(self, text: str, **options: Any) -> None:
        await say_and_wait(self.core, self.session, text, **options)

    async def steer(self) -> None:
        await send(self.core, self.session, "hold")
        await send(self.core, self.session, "steered", overlap="steer")
        self.hold.set()
        await idle(self.core, self.session)
        self.hold.clear()

    async def leave(self) -> None:
        """Steer a message into a run that is stopped: another run takes it."""
        receipt = await send(self.core, self.session, "hold")
        await send(self.core, self.session, "left", overlap="steer")
        await until(lambda: bool(self.core._store.hub.open_messages(self.session)))
        await self.core.cancel(receipt.run, by=ANN)
        await idle(self.core, self.session)

    async def same(self) -> bool:
        """Return whether the window in memory is the one that the log gives."""
        await until(lambda: not local(self.core).pool.driven)
        warm = (await self.core._cache.get(self.session)).window
        self.core._cache.forget(self.session)
        cold = (await self.core._cache.get(self.session)).window
        assert (cold.seq, cold.snapshot, cold.border) == (warm.seq, warm.snapshot, warm.border)
        return [(e.seq, e.border, e.wire) for e in cold.entries] == [(e.seq, e.border, e.wire) for e in warm.entries]


@pytest.fixture
async def talk(make_core: MakeCore) -> EventfulSession:
    talk = EventfulSession()
    limits = {"limits": Limits(max_context_messages=8)}
    talk.core = await make_core(ScriptedProvider(talk.script), tools=(look,), definition=limits, clock=FakeClock())
    talk.session = await open_session(talk.core)
    return talk


def steps(talk: EventfulSession) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    return [
        lambda: talk.say("one"),
        lambda: talk.say("imported", history=HISTORY),
        lambda: talk.say("look"),
        talk.steer,
        lambda: talk.say("own", instructions="Be rude."),
        lambda: talk.say("once", controls=Controls(max_steps=1)),
        talk.leave,
        lambda: talk.say("look"),
        lambda: talk.say("last"),
    ]


async def test_a_window_from_the_log_is_the_one_in_memory(talk: EventfulSession):
    """Whatever happened to a session, its window is the same read from the log as it was in memory, step by step."""
    for step in [*steps(talk), *steps(talk)]:
        await step()
        assert await talk.same()
    assert types(await log_of(talk.core, talk.session)).count("context.compacted") >= 3


async def test_a_session_that_fell_out_of_memory_continues(talk: EventfulSession):
    """A process keeps so many sessions in memory; one that it let go is answered as if it had stayed."""
    await talk.say("one")
    homes = talk.core._cache
    for n in range(MAX_SESSIONS):
        homes._cache[f"ses_{n}"] = homes._cache[talk.session]
    homes.keep(await homes.get(await open_session(talk.core)))
    assert talk.session not in homes._cache
    await talk.say("two")
    assert [text_of(m.parts) for m in (await talk.core.messages(talk.session)).items][-1] == "To two"
    assert types(await log_of(talk.core, talk.session)).count("step.started") == 2
    assert await talk.same()
