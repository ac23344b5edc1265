"""A conversation shown in a thread of the stand-in, step by step, by processes that may die at any step."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
import pytest

from agent_core import events as e
from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.events import Event, Fact, TextDelta
from agent_core.messages import Actor, Text, text_of
from agent_core.testing import FakeClock, Level, ScriptedProvider
from app.compose import CHANNELS
from channels.delivery import Delivery
from channels.ledger import LEASE, Ledger, OwnedPlace, UploadEntry
from channels.slack.api import SlackApi
from channels.slack.figures import NO_CHARTS, ChartPorts
from channels.slack.outbox import SlackOutbox
from channels.slack.pace import Pacer, Workspace
from channels.slack.settings import Thread
from channels.slack.testing import App, SlackStandIn
from channels.slack.testing import SimulatedWorkspace as Team
from channels.spec import ConversationView, LedgerEntry, NotShown
from tests.channels.logs import Emitter
from tests.conftest import Fresh, OpenDatabase
from tests.polling import PATIENCE

ANN = Actor("ann", "user")
USAGE = e.Usage(None, None, None, None, None, None)
SOON = 61.0
"""The longest wait of the code under test, in seconds."""
Side = Literal["before", "after"]


class Died(BaseException):
    """The process was killed in the middle of its work."""


class Log:
    """The events of a session, in batches, and as facts for a later reader."""

    def __init__(self) -> None:
        self.emit = Emitter()
        self.batches: list[list[Event]] = []
        self._offsets: dict[tuple[str, int], int] = {}

    def add(self, *bodies: e.EventBody) -> None:
        self.batches.append([self.emit(body) for body in bodies])

    def ask(self, text: str) -> None:
        asked = self.emit(e.MessageReceived(message="msg_1", actor=ANN, parts=(Text(text),)))
        assert isinstance(asked, Fact)
        started = e.StepStarted(n=1, attempt=1, message="msg_2", takes=(asked.seq,), snapshot="sha256:1")
        self.batches.append([asked, *(self.emit(body) for body in (e.RunQueued(), e.RunStarted(epoch=1), started))])

    def say(self, *pieces: str, message: str = "msg_2", epoch: int = 1) -> None:
        for piece in pieces:
            offset = self._offsets.get((message, epoch), 0)
            self._offsets[message, epoch] = offset + len(piece)
            self.add(TextDelta(message=message, part=0, epoch=epoch, attempt=epoch, offset=offset, text=piece))

    def said(self, text: str, message: str = "msg_2", stop: e.Stop = "done") -> e.MessageCompleted:
        return e.MessageCompleted(message=message, role="assistant", parts=(Text(text),), stop=stop)

    def end(self, text: str, message: str = "msg_2") -> None:
        self.add(self.said(text, message), e.RunCompleted(stop_reason="end_turn", usage=USAGE, cost=None))

    @property
    def facts(self) -> list[Event]:
        return [event for batch in self.batches for event in batch if isinstance(event, Fact)]

    @property
    def whole(self) -> str:
        """What the agent said."""
        said = (event.body.parts for event in self.facts if isinstance(event.body, e.MessageCompleted))
        return "\n\n".join(text_of(parts) for parts in said)


def words(text: str) -> list[str]:
    """Return the words of *text* without signs of Markdown."""
    return "".join(sign if sign.isalnum() else " " for sign in text).split()


BEFORE_TOOL, ANSWER = "Let me **look** at the figures.", "There are *three* of them:\n\n1. one\n2. two\n3. three\n"


def typical() -> Log:
    """Text, a tool, and more text, in pieces."""
    log = Log()
    log.ask("How many?")
    log.say("Let me **look** ", "at the figures.")
    log.add(
        log.said(BEFORE_TOOL, stop="tools"),
        e.StepCompleted(n=1, usage=USAGE, cost=None),
        e.ToolRequested(call="call_1", name="count_rows", arguments={}, index=0, step=1),
        e.ToolStarted(call="call_1"),
    )
    log.add(
        e.ToolCompleted(call="call_1", outcome="done", parts=(Text("3"),), truncated=False),
        e.StepStarted(n=2, attempt=1, message="msg_3", takes=(), snapshot="sha256:1"),
    )
    log.say("There are *three* ", "of them:\n\n1. one\n", "2. two\n3. three\n", message="msg_3")
    log.end(ANSWER, "msg_3")
    return log


class DyingLedger(Ledger):
    """A ledger at whose *at*-th write of rows the process dies, before or after it; 0: it lives."""

    at: int = 0
    side: Side = "before"
    writes: int = 0

    async def put(self, place: OwnedPlace, *entries: LedgerEntry) -> None:
        await self._written(super().put(place, *entries))

    async def put_upload(self, place: OwnedPlace, entry: UploadEntry) -> None:
        await self._written(super().put_upload(place, entry))

    async def _written(self, writing: Coroutine[Any, Any, None]) -> None:
        self.writes += 1
        if self.writes == self.at and self.side == "before":
            writing.close()
            raise Died
        await writing
        if self.writes == self.at:
            raise Died


class CountingOutbox(SlackOutbox):
    """An outbox that counts the pictures it was asked to show, once each was shown or refused."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self.level = Level()

    async def show(self, entry: LedgerEntry, body: ConversationView, /) -> None:
        try:
            await super().show(entry, body)
        finally:
            self.level.set(self.level.value + 1)


@dataclass
class Steps:
    """The events of a log: each batch once the one before was shown, or all at once to a *late* reader."""

    log: Log
    outbox: CountingOutbox
    late: bool
    is_read: bool = False

    async def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        if self.late or self.is_read:
            yield [event for event in self.log.facts if isinstance(event, Fact) and event.seq > after]
            return
        self.is_read = True
        yield self.log.batches[0]
        for n, batch in enumerate(self.log.batches[1:]):
            yield batch
            if n + 2 < len(self.log.batches):
                await self.outbox.level.reached(n + 1)


@dataclass
class Showing:
    """One session in one thread, and the processes that show it."""

    stand_in: SlackStandIn
    clock: FakeClock
    open_database: OpenDatabase
    session: str
    http: aiohttp.ClientSession
    thread: Thread
    stops: list[str] = field(default_factory=list[str])
    space: Workspace | None = None
    charts: ChartPorts = NO_CHARTS

    def workspace(self) -> Workspace:
        team = self.stand_in.team(self.thread.team)
        api = SlackApi(team.bot_token, session=self.http, base_url=f"{self.stand_in.base_url}api/")
        return self.space or Workspace(self.thread.team, "UPARLEY", "BPARLEY", api, Pacer(self.clock))

    async def live(self, log: Log, *, at: int = 0, side: Side = "before", late: bool = False) -> int | None:
        """Show *log* and return how often the ledger was written; None when the process died."""
        database = self.open_database()
        ledger = DyingLedger(database, self.clock, "slack")
        ledger.at, ledger.side = at, side
        try:
            place = await ledger.claim_session(self.session)
            assert place is not None, "another process has it"
            outbox = CountingOutbox(
                self.workspace(), self.thread, ledger, place, self.clock, status=self, runs=self, charts=self.charts
            )
            delivery = Delivery(Steps(log, outbox, late), outbox, self.clock, session=self.session)
            try:
                async with asyncio.timeout(PATIENCE), ticking(self.clock):
                    await delivery.run(after=place.shown_seq)
            except Died:
                return None
            finally:
                await outbox.close()
            assert await ledger.rest(place, delivery.body.seq) is None
            return ledger.writes
        finally:
            await database.close()

    async def killed_and_taken_over(self, log: Log, at: int, side: Side) -> bool:
        """Show *log* by a process that dies at a write, and then by another one; return whether the first one died."""
        if await self.live(log, at=at, side=side) is not None:
            return False
        self.clock.advance(LEASE / 1000 + 1)
        assert await self.live(log, late=True) is not None
        return True

    def begin(self) -> None:
        """Set no status: the tests of this file read messages only."""

    def note(self, status: str) -> None:
        """Ignore *status*, as above."""

    async def cancel(self, run: str, *, by: Actor, reason: str | None = None) -> None:
        self.stops.append(run)

    @property
    def text(self) -> str:
        """The visible text of the answer, message by message."""
        return "\n---\n".join(each.text for each in self.answers)

    @property
    def answers(self) -> Sequence:
        return self.stand_in.team(self.thread.team).answers(self.thread.channel, self.thread.root)


Open = Callable[..., Awaitable[Showing]]


@pytest.fixture
async def showing(fresh: Fresh) -> AsyncIterator[Open]:
    """Make sessions, each in a thread and on a database of its own."""
    async with AsyncExitStack() as stack:

        async def make() -> Showing:
            clock = FakeClock()
            stand_in = SlackStandIn(
                clock=clock, workspaces=[Team.example()], rates=None, app=App(subscribed=frozenset())
            )
            await stack.enter_async_context(stand_in.serving())
            http = await stack.enter_async_context(aiohttp.ClientSession())
            open_database = stack.enter_context(fresh())
            asked = await stand_in.team("T0001").says("UANN", "CGENERAL", "How many?")
            thread = Thread("T0001", "CGENERAL", asked.ts, "UANN", "T0001")
            database = open_database()
            core = Core(database, providers={"s": ScriptedProvider([])}, tools={}, default_model="s", channels=CHANNELS)
            await core.start()
            await core.agents.create(Definition(name="a", instructions=""))
            session = (await core.open_session(agent="a", actor=ANN)).id
            await Ledger(database, clock, "slack").want(session, thread.address, thread.data())
            await core.stop()
            return Showing(stand_in, clock, open_database, session, http, thread)

        yield make


@asynccontextmanager
async def ticking(clock: FakeClock) -> AsyncIterator[None]:
    """Advance the clock to the next deadline whenever a task sleeps, if it is near.

    Deadlines further off are the stand-in's: retries of event deliveries.
    """

    async def tick() -> None:
        while True:
            await clock.slept()
            if clock.ahead <= SOON:
                await clock.advance_to_next()
            else:
                await asyncio.sleep(0)  # there is no event for a task that begins a shorter sleep

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


__all__ = ["ANSWER", "BEFORE_TOOL", "Died", "Log", "NotShown", "Showing", "ticking", "typical", "words"]
