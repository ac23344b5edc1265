"""News at the worst moment: a steered message, a second message, a cancel, an interrupt before every append."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from agent_core.agents import Definition
from agent_core.channels import Inbound, Overlap
from agent_core.core import Core
from agent_core.events import Fact, StepStarted
from agent_core.messages import Actor, Text, text_of
from agent_core.providers.base import Request
from agent_core.store.database import Database
from agent_core.testing import ScriptedProvider, call, say
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from tests.agent_core.databases import Wrapped
from tests.agent_core.laws import check_log
from tests.conftest import Fresh
from tests.polling import PATIENCE

ANN = Actor("ann", "user")
T = TypeVar("T")


class RacingDatabase(Wrapped):
    """Let *news* happen just before write number *at* since `arm`, between what was decided and its append."""

    def __init__(self, inner: Database, at: int, news: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self.writes = 0
        self._at, self._news, self._armed = at, news, False

    def arm(self) -> None:
        self._armed = True

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        if self._armed:
            self.writes += 1
            if self.writes == self._at:
                self._armed = False
                await self._news()
                self._armed = True
        return await super().write(work, committed)


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return f"{what} is fine"


def _script(request: Request) -> Answer:
    """Call two tools first; then answer all that was asked."""
    asked = [text_of(entry.message.parts) for entry in request.messages if entry.message.role == "user"]
    if not any(entry.message.role == "tool" for entry in request.messages):
        return (say("Looking."), call("look", what="a"), call("look", what="b"))
    return (say("Answer to ", ", ".join(asked), "."),)


class Race:
    """One run, and news of *kind* before its write number *at*."""

    def __init__(self, database: Database, news: str, at: int) -> None:
        self.database = RacingDatabase(database, at, self.happen)
        self.core = Core(
            self.database,
            providers={"scripted": ScriptedProvider(_script)},
            tools={look.spec.name: look},
            default_model="scripted",
        )
        self.news = news
        self.session = self.run = ""
        self.was_open = False
        self.happened = False

    async def send(self, text: str, overlap: Overlap = "queue") -> str:
        return (await self.core.receive(self.session, Inbound(parts=(Text(text),), actor=ANN, overlap=overlap))).run

    async def happen(self) -> None:
        self.happened = True
        if self.news == "cancel":
            before = (await self.core.run(self.run)).status
            self.was_open = before in ("queued", "running")
            await self.core.cancel(self.run, by=ANN)
        elif self.news == "steer":
            await self.send("news", "steer")
        elif self.news == "queue":
            await self.send("news", "queue")
        else:
            await self.send("news", "interrupt")

    async def go(self) -> list[Fact]:
        await self.core.start()
        await self.core.agents.create(Definition(name="a", instructions="", tools=("look",)))
        self.session = (await self.core.open_session(agent="a", actor=ANN)).id
        self.run = await self.send("first")
        self.database.arm()
        facts: list[Fact] = []
        async with asyncio.timeout(PATIENCE):
            async for batch in self.core.follow(self.session, until_idle=True):
                facts += [event for event in batch if isinstance(event, Fact)]
        return facts


def _taken(facts: list[Fact]) -> set[int]:
    return {seq for fact in facts if isinstance(fact.body, StepStarted) for seq in fact.body.takes}


async def _check(race: Race, facts: list[Fact]) -> None:
    check_log(facts)
    statuses = {run.id: run.status for run in (await race.core.runs()).items}
    assert set(statuses.values()) <= {"completed", "cancelled"}
    if race.news == "cancel":
        assert statuses[race.run] == ("cancelled" if race.was_open else "completed")
    received = {fact.seq: fact for fact in facts if fact.type == "message.received"}
    if race.news in ("steer", "queue"):
        assert set(statuses.values()) == {"completed"}
    for seq, fact in received.items():
        if statuses[fact.run or ""] == "completed":
            assert seq in _taken(facts), f"message {seq} was never taken"
    assert "news" not in {text_of(m.parts) for m in (await race.core.messages(race.session)).items} or any(
        "news" in run.text for run in (await race.core.runs()).items
    ), "the news was not answered"


@pytest.mark.parametrize("news", ["steer", "queue", "cancel", "interrupt"])
async def test_news_before_every_append(fresh: Fresh, backend: str, whole: bool, news: str) -> None:
    """No message stays unanswered, no cancel is ignored and nothing follows a terminal event, whenever news comes."""
    at, happened = 0, True
    while happened:
        at += 1 if whole or backend == "sqlite" else 3
        with fresh() as open_database:
            race = Race(open_database(), news, at)
            try:
                facts = await race.go()
                happened = race.happened
                if happened:
                    await _check(race, facts)
            finally:
                await race.core.stop()
    assert at > 5, "the run has fewer appends than it must have"
