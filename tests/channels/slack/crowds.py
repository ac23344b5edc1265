"""Many answers at once in workspaces with Slack's rates, by a clock that moves whenever nothing else is awaited.

A loop that would sleep while nothing is to be read, no call is on the wire and no transaction runs has no task that
could do anything before the next deadline: then, and only then, time goes there. So a slow machine changes nothing.
"""

import asyncio
import math
import selectors
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, TypeVar, cast

import aiohttp
from sqlalchemy import Connection

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.events import Event, Fact
from agent_core.store.database import Database
from agent_core.testing import FakeClock, ScriptedProvider
from app import compose
from channels.ledger import Ledger
from channels.slack.api import SlackApi
from channels.slack.pace import Pacer
from channels.slack.pace import Workspace as Space
from channels.slack.settings import Thread
from channels.slack.testing import App, SimulatedWorkspace, SlackStandIn
from channels.slack.testing.server import ApiCall
from channels.slack.testing.world import Channel
from channels.slack.threads import Threads
from tests.channels.slack.answers import ANN, Log
from tests.conftest import OpenDatabase

T = TypeVar("T")
CHANNELS = 10
EVERY, PIECES = 0.25, 80
"""Seconds between two pieces of an answer, and how many there are."""
_MAX_SECONDS = 120.0
"""Real seconds that a crowd may take."""


class Leaping(selectors.DefaultSelector):
    """Moves *clock* to its next deadline when the loop has nothing to do and no call is *outside*."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock, self._outside = clock, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if (timeout is not None and timeout <= 0) or self._outside or not self._clock.sleepers:
            return super().select(timeout)
        if not (ready := super().select(0)):
            self._clock.advance(self._clock.ahead)
        return ready

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Hold the time: the network or the database is awaited."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1


class LeapingLoop(asyncio.SelectorEventLoop):
    """Holds the time while a thread works for it, as for the network and the database."""

    def __init__(self, leaping: Leaping) -> None:
        super().__init__(leaping)
        self._leaping = leaping

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        held = ExitStack()
        held.enter_context(self._leaping.outside())
        future.add_done_callback(lambda _: held.close())
        return future


def leap(play: Callable[[FakeClock, Leaping], Coroutine[Any, Any, None]]) -> None:
    """Run *play* on a loop of its own, by a clock that leaps."""
    clock = FakeClock()
    leaping = Leaping(clock)
    with asyncio.Runner(loop_factory=lambda: LeapingLoop(leaping)) as runner:
        runner.run(play(clock, leaping))


@dataclass
class HeldDatabase:
    """A database during whose transactions the time is held."""

    database: Database
    leaping: Leaping

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        with self.leaping.outside():
            return await self.database.write(work, committed)

    async def read(self, work: Callable[[Connection], T]) -> T:
        with self.leaping.outside():
            return await self.database.read(work)

    async def peek(self, work: Callable[[Connection], T]) -> T:
        return await self.database.peek(work)

    async def close(self) -> None:
        await self.database.close()


class Far(SlackApi):
    """The real SDK over real sockets; the way to Slack and the way back take their time by the clock."""

    def __init__(self, token: str, *, clock: FakeClock, leaping: Leaping, **given: Any) -> None:
        super().__init__(token, **given)
        self._clock, self._leaping, self._random = clock, leaping, Random(token)  # noqa: S311 - not a secret

    async def _ask(self, method: str, **fields: Any) -> dict[str, Any]:
        await self._way()
        try:
            with self._leaping.outside():
                return await super()._ask(method, **fields)
        finally:
            await self._way()

    async def put_bytes(self, url: str, content: bytes) -> None:
        await self._way()
        try:
            with self._leaping.outside():
                await super().put_bytes(url, content)
        finally:
            await self._way()

    async def _way(self) -> None:
        await self._clock.sleep(self._random.uniform(0.05, 0.14))


@dataclass
class CrowdTalk:
    """A question in a thread, and an answer whose twenty seconds of text begin after *thinking* seconds."""

    thread: Thread
    session: str
    name: str
    thinking: float
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        pieces = [" ".join(f"{self.name}w{n}x{i}" for i in range(4)) + _gap(n) for n in range(PIECES)]
        self.words = "".join(pieces).split()
        self.log.ask(self.name)
        self.log.say(*pieces)
        self.log.end("".join(pieces))


def _gap(n: int) -> str:
    return "\n\n" if n % 10 == 9 else " "


@dataclass
class CrowdEvents:
    """Sessions whose events come by the clock, *since* the questions: what `Threads` asks of a core."""

    clock: FakeClock
    talks: dict[str, CrowdTalk]
    since: int = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.clock.now()

    async def follow(self, session: str, *, after: int = 0, until_idle: bool) -> AsyncGenerator[list[Event]]:
        talk = self.talks[session]
        for n, batch in enumerate(talk.log.batches):
            due = (talk.thinking + EVERY * (n - 1)) * 1000 if n else 0
            await self.clock.sleep((self.since + due - self.clock.now()) / 1000)
            if new := [event for event in batch if not isinstance(event, Fact) or event.seq > after]:
                yield new


@dataclass
class Crowd:
    """Questions asked at the same moment, and the threads that answer them."""

    stand_in: SlackStandIn
    story: CrowdEvents
    threads: Threads

    async def answered(self) -> "Figures":
        """Answer all, and return how that went."""
        async with asyncio.timeout(_MAX_SECONDS):
            for session in self.story.talks:
                self.threads.show(session)
            await asyncio.gather(*self.threads._showing.values())
        return Figures.of(self.stand_in.calls, list(self.story.talks.values()), self.story.since)


@dataclass(frozen=True)
class Figures:
    """What people saw of their answers, in virtual seconds from the questions on; each list begins with the least.

    *signs* are the first signs of life, *whole* is when the whole answer was shown, *late* how long that was after the
    end of the answer, *active* when the status was so again, and *still* the longest time for which an answer did not
    change before it was whole. *calls* counts them by method.
    """

    signs: list[float]
    whole: list[float]
    late: list[float]
    active: list[float]
    still: list[float]
    calls: Counter[str]

    @classmethod
    def of(cls, calls: Sequence[ApiCall], talks: Sequence[CrowdTalk], since: int) -> "Figures":
        made = cls([], [], [], [], [], Counter(call.method for call in calls))
        found = stories(calls)
        for talk in talks:
            story = [((call.at - since) / 1000, call) for call in found[talk.thread.address]]
            writes = [at for at, call in story if call.method.startswith("chat.")]
            made.signs.append(story[0][0])
            made.whole.append(writes[-1])
            made.late.append(writes[-1] - talk.thinking - EVERY * PIECES)
            made.active.append(max((at for at, call in story if is_active(call)), default=math.inf))
            made.still.append(max((b - a for a, b in pairwise(writes)), default=0.0))
        for each in (made.signs, made.whole, made.late, made.active, made.still):
            each.sort()
        return made

    def __str__(self) -> str:
        rows = {name: getattr(self, name) for name in ("signs", "whole", "late", "active", "still")}
        lines = [f"{name:7} {' '.join(f'{at:.1f}' for at in found)}" for name, found in rows.items()]
        return "\n".join(["", *lines, *(f"{count:5} {method}" for method, count in sorted(self.calls.items()))])


def stories(calls: Sequence[ApiCall]) -> dict[str, list[ApiCall]]:
    """Return the calls that had an effect, by the address of their thread."""
    roots: dict[tuple[str, str, str], str] = {}
    found: dict[str, list[ApiCall]] = {}
    for call in calls:
        if not call.ok:
            continue
        given, answer = call.arguments, call.answer or {}
        channel = given.get("channel") or given["channel_id"]
        root = given.get("thread_ts") or roots[call.team, channel, given["ts"]]
        roots[call.team, channel, answer.get("ts", "")] = root
        found.setdefault(Thread(call.team, channel, root, "", "").address, []).append(call)
    return found


def is_active(call: ApiCall) -> bool:
    """Return whether *call* left its session active."""
    return call.method == "chat.stopStream" or call.arguments.get("status") == "active"


@dataclass(frozen=True)
class CrowdPlan:
    """In each of *teams* come *size* questions, for which models think *thinking* seconds and up to 2.5 more."""

    teams: Sequence[str]
    size: int
    thinking: float


@asynccontextmanager
async def crowd(
    open_database: OpenDatabase, clock: FakeClock, leaping: Leaping, scene: CrowdPlan
) -> AsyncIterator[Crowd]:
    """Let the questions of *scene* be asked, in threads spread over ten channels."""
    app = App(subscribed=frozenset({"agent_session_stopped"}))
    workspaces = [_workspace(team) for team in scene.teams]
    stand_in = SlackStandIn(clock=clock, workspaces=workspaces, app=app, echo=False)
    async with stand_in.serving() as url, aiohttp.ClientSession() as http:
        talks = await _asked(open_database, stand_in, scene)
        database = HeldDatabase(open_database(), leaping)
        pacer, known = Pacer(clock), dict[str, Space]()
        for team in workspaces:
            api = Far(team.bot_token, clock=clock, leaping=leaping, session=http, base_url=f"{url}api/")
            known[team.id] = Space(team.id, "UPARLEY", "BPARLEY", api, pacer)

        async def workspace(team: str) -> Space:
            return known[team]

        story = CrowdEvents(clock, {talk.session: talk for talk in talks})
        ledger = Ledger(database, clock, "slack")
        threads = Threads(cast("Core", story), ledger, workspace, clock, share=pacer.use)
        for talk in talks:
            await threads.want(talk.session, talk.thread)
        try:
            yield Crowd(stand_in, story, threads)
        finally:
            await threads.stop()
            await database.close()


def _workspace(team: str) -> SimulatedWorkspace:
    made = SimulatedWorkspace.example(team, team)
    made.add(*(Channel(f"C{n}", f"crowd-{n}", members={"UANN", "UPARLEY"}) for n in range(CHANNELS)))
    return made


async def _asked(open_database: OpenDatabase, stand_in: SlackStandIn, scene: CrowdPlan) -> list[CrowdTalk]:
    """Write the questions, and open a session for each."""
    random = Random(13)  # noqa: S311 - not a secret
    core = Core(
        open_database(), providers={"s": ScriptedProvider([])}, tools={}, default_model="s", channels=compose.CHANNELS
    )
    await core.start()
    await core.agents.create(Definition(name="a", instructions=""))
    talks: list[CrowdTalk] = []
    for team in stand_in.teams.values():
        for n in range(scene.size):
            channel = f"C{n % CHANNELS}"
            asked = await team.says("UANN", channel, f"Question {n}")
            title, loading = f"Question {n}", ("Looking into it",)
            thread = Thread(team.id, channel, asked.ts, "UANN", team.id, title=title, loading=loading)
            session = await core.open_session(agent="a", actor=ANN, address=thread.address)
            talks.append(CrowdTalk(thread, session.id, f"{team.id}n{n}", scene.thinking + random.uniform(0.0, 2.5)))
    await core.stop()
    return talks
