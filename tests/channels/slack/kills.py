"""Sessions shown in Slack by processes that are killed at a write of the ledger, and by their successors.

Time is virtual, as in a crowd. A killed process reads, writes and calls nothing any more: what it had sent to Slack by
then arrives, and Slack's answers are lost.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import aiohttp
from sqlalchemy import Table, select

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.events import Event, Fact, TextDelta
from agent_core.testing import FakeClock, ScriptedProvider
from app.compose import CHANNELS
from channels.ledger import LEASE, Ledger, OwnedPlace, PlaceRow, UploadEntry
from channels.slack.api import SlackApi
from channels.slack.figures import NO_CHARTS, ChartPorts
from channels.slack.pace import Pacer
from channels.slack.pace import Workspace as Space
from channels.slack.settings import Thread
from channels.slack.testing import App, InjectedFault, SimulatedWorkspace, SlackStandIn, VisibleMessage
from channels.slack.threads import Threads
from channels.spec import LedgerEntry
from tests.channels.slack.answers import ANN, Died, Log, Side, words
from tests.channels.slack.crowds import Far, HeldDatabase, Leaping
from tests.conftest import OpenDatabase

TEAM, CHANNEL = "T0001", "CGENERAL"
Then = Literal["whole", "on", "again"]
"""What the next process finds: a complete answer, one that continues, or one whose last step is run again."""
_PLACE: Table = vars(PlaceRow)["__table__"]
_MAX_SECONDS = 900.0
"""Virtual seconds in which an answer is shown."""


@dataclass
class Life:
    """A process's life, which ends at the *at*-th write of the ledger, before or after it; 0: it is not killed."""

    at: int = 0
    side: Side = "before"
    writes: list[str] = field(default_factory=list)
    is_over: bool = False

    def check(self) -> None:
        """Raise `Died` when it is over."""
        if self.is_over:
            raise Died

    @contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Count a write."""
        self.check()
        self.writes.append(what)
        is_last = len(self.writes) == self.at
        self.is_over = is_last and self.side == "before"
        self.check()
        yield
        self.is_over = self.is_over or is_last
        self.check()


class MortalLedger(Ledger):
    """The ledger of a process that may die."""

    life: Life

    async def claim(self, *given: Any, **more: Any) -> list[OwnedPlace]:
        with self.life.writing("claim"):
            return await super().claim(*given, **more)

    async def entries(self, place: OwnedPlace) -> list[LedgerEntry]:
        self.life.check()
        return await super().entries(place)

    async def put(self, place: OwnedPlace, *entries: LedgerEntry) -> None:
        entry, *more = entries
        named = "" if entry.ref is None else " with a ts"
        ends = "" if entry.ends is None else ", which ends"
        with self.life.writing(f"{entry.state} {entry.mode}{named}{ends}{', divided' if more else ''}"):
            await super().put(place, *entries)

    async def uploads(self, place: OwnedPlace) -> list[UploadEntry]:
        self.life.check()
        return await super().uploads(place)

    async def put_upload(self, place: OwnedPlace, entry: UploadEntry) -> None:
        with self.life.writing(f"{entry.state} {entry.form}"):
            await super().put_upload(place, entry)

    async def renew(self, place: OwnedPlace) -> None:
        with self.life.writing("renew"):
            await super().renew(place)

    async def rest(self, *given: Any, **more: Any) -> OwnedPlace | None:
        with self.life.writing("rest"):
            return await super().rest(*given, **more)

    async def reload(self, place: OwnedPlace) -> OwnedPlace:
        with self.life.writing("reload"):
            return await super().reload(place)

    async def release(self) -> None:
        if not self.life.is_over:
            await super().release()


class Breathing(SlackApi):
    """The Slack client of a process that may die: what it had sent arrives, Slack's answers are lost."""

    life: Life

    async def _ask(self, method: str, **fields: Any) -> dict[str, Any]:
        self.life.check()
        try:
            return await super()._ask(method, **fields)
        finally:
            self.life.check()

    async def put_bytes(self, url: str, content: bytes) -> None:
        self.life.check()
        try:
            await super().put_bytes(url, content)
        finally:
            self.life.check()


class _FarAndBreathing(Breathing, Far):
    """The same, far away."""


@dataclass(frozen=True)
class PlayedAnswer:
    """An answer published batch after batch, *every* seconds, or *whole* at once; a *notice* is shown below it.

    Its log may *rest* after a batch until a person decides. *again* replaces what follows the published batches when
    their step is run again. *beside* are words that are not the agent's: names of tools, numbers of lists. *charts*
    draws pictures; *blocks* are types of blocks that the thread has once each, and *files* the files in it.
    """

    log: Callable[[], Log]
    notice: str = ""
    every: float = 2.0
    whole: bool = False
    rests: int = 0
    faults: tuple[InjectedFault, ...] = ()
    again: Callable[[Log, int], None] | None = None
    beside: frozenset[str] = frozenset()
    charts: ChartPorts = NO_CHARTS
    blocks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass
class PublishedEvents:
    """The events that readers of a session receive: those published before, and then the rest by the clock."""

    scene: PlayedAnswer
    log: Log
    clock: FakeClock
    published: int = 0
    rests: int = 0

    async def follow(self, _session: str, *, after: int = 0, until_idle: bool) -> AsyncGenerator[list[Event]]:
        if before := [*self._facts(after), *self._open()]:
            yield before
        while self.published < (self.rests or len(self.log.batches)):
            self.published += 1
            batch = self.log.batches[self.published - 1]
            if new := [event for event in batch if not isinstance(event, Fact) or event.seq > after]:
                yield new
            await self.clock.sleep(self.scene.every)

    async def updated_since(self, _seen: Mapping[str, int]) -> set[str]:
        return set()  # a resting session is resumed by the scene

    @property
    def is_over(self) -> bool:
        return not self.rests

    def continues_below(self, then: Then) -> None:
        """Change what is published after a death."""
        if then == "again" and self.scene.again is not None:
            self.scene.again(self.log, self.published)
        if then == "whole":
            self.published, self.rests = len(self.log.batches), 0

    def _facts(self, after: int) -> Iterator[Event]:
        for batch in self.log.batches[: self.published]:
            yield from (event for event in batch if isinstance(event, Fact) and event.seq > after)

    def _open(self) -> Iterator[Event]:
        """Give what was written of a message that is not complete, as one piece."""
        texts: dict[str, str] = {}
        last: dict[str, Event] = {}
        for event in (event for batch in self.log.batches[: self.published] for event in batch):
            match event.body:
                case TextDelta(message=message, offset=offset, text=text):
                    texts[message] = texts.get(message, "")[:offset] + text
                    last[message] = event
                case body if (message := getattr(body, "message", None)) in texts and body.type == "message.completed":
                    del texts[message]
        for message, text in texts.items():
            delta = cast("TextDelta", last[message].body)
            body = TextDelta(message=message, part=0, epoch=delta.epoch, attempt=delta.attempt, offset=0, text=text)
            yield self.log.emit(body)


@dataclass
class KillCase:
    """One session in one thread, and the events of its readers."""

    scene: PlayedAnswer
    thread: Thread
    session: str
    story: PublishedEvents

    def is_right(self, stand_in: SlackStandIn) -> bool:
        """Return whether the thread has the whole answer once, nothing open, and the status that it should have."""
        team = stand_in.team()
        answers, session = team.answers(CHANNEL, self.thread.root), team.session(CHANNEL, self.thread.root)
        said, wanted = (
            [word for word in words(text) if word not in self.scene.beside]
            for text in ("\n".join(each.text for each in answers), f"{self.story.log.whole} {self.scene.notice}")
        )
        is_quiet = session is not None and session.status == "active"
        return said == wanted and is_quiet and not any(each.streaming for each in answers) and self._is_drawn(answers)

    def _is_drawn(self, answers: Sequence[VisibleMessage]) -> bool:
        """Return whether the thread has every table, chart and file once."""
        kinds = [block["type"] for each in answers for block in each.blocks]
        drawn = all(kinds.count(kind) == 1 for kind in self.scene.blocks)
        return drawn and sorted(file["name"] for each in answers for file in each.files) == sorted(self.scene.files)


@dataclass
class KillSite:
    """Where it happens: a workspace, a database, and the time."""

    stand_in: SlackStandIn
    clock: FakeClock
    leaping: Leaping
    database: HeldDatabase
    core: Core
    http: aiohttp.ClientSession

    async def opened(self, scene: PlayedAnswer) -> KillCase:
        """Ask a question, and request an answer."""
        asked = await self.stand_in.team().says("UANN", CHANNEL, "How many?")
        thread = Thread(TEAM, CHANNEL, asked.ts, "UANN", TEAM, title="How many?")
        session = (await self.core.open_session(agent="a", actor=ANN, address=thread.address)).id
        log = scene.log()
        story = PublishedEvents(scene, log, self.clock, len(log.batches) if scene.whole else 0, scene.rests)
        made = KillCase(scene, thread, session, story)
        await self.want(made)
        return made

    async def want(self, case: KillCase) -> None:
        await Ledger(self.database, self.clock, "slack").want(case.session, case.thread.address, case.thread.data())

    async def is_wanted(self, case: KillCase) -> bool:
        asked = select(_PLACE.c.wanted_at).where(_PLACE.c.session == case.session)
        return await self.database.read(lambda connection: connection.execute(asked).scalar_one()) is not None

    async def lived(self, case: KillCase, life: Life, *, finds: bool = False) -> None:
        """Run a process that shows the session until it dies or all is shown; it is asked to, or *finds* it."""
        team = self.stand_in.team()
        api = _FarAndBreathing(
            team.bot_token,
            clock=self.clock,
            leaping=self.leaping,
            session=self.http,
            base_url=f"{self.stand_in.base_url}api/",
        )
        pacer, ledger = Pacer(self.clock), MortalLedger(self.database, self.clock, "slack")
        api.life = ledger.life = life
        space = Space(TEAM, team.bot, team.workspace.bot_id, api, pacer)

        async def workspace(_: str) -> Space:
            return space

        charts = case.scene.charts
        threads = Threads(cast("Core", case.story), ledger, workspace, self.clock, share=pacer.use, charts=charts)
        await threads.start() if finds else threads.show(case.session)
        try:
            until = self.clock.now() + 1000 * _MAX_SECONDS
            while not life.is_over and await self._is_at_work(case, threads):
                assert self.clock.now() < until, f"it does not end; {life.writes[-9:]}"
                await self.clock.sleep(3.0)
        finally:
            await threads.stop()

    async def _is_at_work(self, case: KillCase, threads: Threads) -> bool:
        """Return whether more is to be shown; a resting session is resumed."""
        if await self.is_wanted(case):
            return True
        if case.story.is_over:
            return False
        case.story.rests = 0
        await self.want(case)
        threads.show(case.session)
        return True

    async def killed(self, scene: PlayedAnswer, *deaths: tuple[int, Side], then: Then) -> KillCase:
        """Kill processes one after the other, and run a last one; each receives what was published meanwhile.

        The first one has that many writes; where a later one has fewer it is the last.
        """
        case = await self.opened(scene)
        for n, (at, side) in enumerate(deaths):
            life = Life(at, side)
            await self.lived(case, life, finds=n > 0)
            if not life.is_over:
                assert n, f"it did not come to its write {at}"
                return case
            self.clock.advance(LEASE / 1000 + 1)
            case.story.continues_below(then)
            if then == "whole":
                await self.want(case)
        await self.lived(case, Life(), finds=True)
        return case


@asynccontextmanager
async def ground(open_database: OpenDatabase, clock: FakeClock, leaping: Leaping) -> AsyncIterator[KillSite]:
    """Make a workspace without rates, and a database with an agent."""
    stand_in = SlackStandIn(
        clock=clock, workspaces=[SimulatedWorkspace.example()], rates=None, echo=False, app=App(subscribed=frozenset())
    )
    async with stand_in.serving(), aiohttp.ClientSession() as http:
        database = HeldDatabase(open_database(), leaping)
        core = Core(database, providers={"s": ScriptedProvider([])}, tools={}, default_model="s", channels=CHANNELS)
        await core.start()
        await core.agents.create(Definition(name="a", instructions=""))
        try:
            yield KillSite(stand_in, clock, leaping, database, core, http)
        finally:
            await core.stop()


def points(writes: list[str], *, whole: bool) -> list[int]:
    """Return at which *writes* to die, counted from 1: the first of each kind, or all but claims and renewals."""
    return [
        n
        for n, what in enumerate(writes, 1)
        if what not in writes[: n - 1] or (whole and what not in ("claim", "renew"))
    ]
