"""Sessions of a core are shown in their threads by whichever process is running."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.clock import Clock, SystemClock
from agent_core.core import Core
from agent_core.errors import NotFound
from agent_core.messages import Actor, Text
from agent_core.testing import FakeClock, ScriptedProvider, pause, say
from channels.ledger import LEASE, Ledger, OwnedPlace
from channels.slack.api import SlackApi
from channels.slack.pace import Pacer
from channels.slack.pace import Workspace as Space
from channels.slack.settings import Thread
from channels.slack.testing import SimulatedWorkspace, SlackStandIn
from channels.slack.threads import Threads
from tests.channels.slack.rig import HASTY
from tests.conftest import Fresh, OpenDatabase
from tests.polling import PATIENCE

ANN = Actor("slack:T0001:UANN", "user", "Ann")


class Later(SystemClock):
    """The clock of a process whose predecessor's lease has expired."""

    def now(self) -> int:
        return super().now() + LEASE + 1


class Hasty(SystemClock):
    """A clock on which the second passes at once that is waited for a message that may be pending."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead

    async def sleep(self, seconds: float) -> None:
        if seconds == 1.0:
            self.ahead += 1000
        await super().sleep(0.0 if seconds == 1.0 else seconds)


class LateLedger(Ledger):
    """A ledger in which a place rests only once `go` is set; `rests` is set when it is about to."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.rests, self.go = asyncio.Event(), asyncio.Event()

    async def rest(self, place: OwnedPlace, shown: int | None, *, seen: int | None = None) -> OwnedPlace | None:
        self.rests.set()
        await self.go.wait()
        return await super().rest(place, shown, seen=seen)


@pytest.fixture
async def stand_in() -> AsyncIterator[SlackStandIn]:
    made = SlackStandIn(workspaces=[SimulatedWorkspace.example()], rates=None)
    async with made.serving():
        yield made


@pytest.fixture
def open_database(fresh: Fresh) -> Iterator[OpenDatabase]:
    with fresh() as opened:
        yield opened


class ThreadsProcess:
    """A core and what it shows in Slack."""

    def __init__(self, core: Core, threads: Threads, stand_in: SlackStandIn) -> None:
        self.core, self.threads, self.stand_in = core, threads, stand_in

    async def ask(self, text: str, thread: Thread | None = None, *, show: bool = True) -> Thread:
        if thread is None:
            asked = await self.stand_in.team().says("UANN", "CGENERAL", text)
            thread = Thread("T0001", "CGENERAL", asked.ts, "UANN", "T0001", title=text)
        session = await self.core.find_session(thread.address) or await self.core.open_session(
            agent="a", actor=ANN, address=thread.address
        )
        await self.threads.want(session.id, thread)
        await self.core.receive(session.id, Inbound(parts=(Text(text),), actor=ANN))
        if show:
            self.threads.show(session.id)
        return thread

    async def shown(self, thread: Thread, *texts: str) -> None:
        team = self.stand_in.team()

        def is_shown() -> bool:
            answers = team.answers("CGENERAL", thread.root)
            session = team.session("CGENERAL", thread.root)
            is_quiet = session is not None and session.status == "active"
            return [each.text for each in answers] == list(texts) and is_quiet

        await self.stand_in.until(is_shown, timeout=PATIENCE)


@asynccontextmanager
async def process(
    open_database: OpenDatabase,
    stand_in: SlackStandIn,
    script,
    clock: Clock | None = None,
    ledger: Callable[..., Ledger] = Ledger,
) -> AsyncIterator[ThreadsProcess]:
    """Start a process; the test decides whether it is killed or stopped."""
    database = open_database()
    core = Core(database, providers={"s": ScriptedProvider(script)}, tools={}, default_model="s")
    await core.start()
    if not (await core.agents.list()).items:
        await core.agents.create(Definition(name="a", instructions=""))
    clock = clock or SystemClock()
    async with aiohttp.ClientSession() as http:
        api = SlackApi(stand_in.team().bot_token, session=http, base_url=f"{stand_in.base_url}api/")
        is_still = isinstance(clock, FakeClock)  # there no wait for a rate would end
        pacer = Pacer(clock, share=HASTY if is_still else 1.0)
        space = Space("T0001", "UPARLEY", "BPARLEY", api, pacer)

        async def workspace(team: str) -> Space:
            if team != space.team:
                raise NotFound("workspace", team)
            return space

        share = (lambda _: None) if is_still else pacer.use
        threads = Threads(core, ledger(database, clock, "slack"), workspace, clock, share=share)
        await threads.start()
        try:
            yield ThreadsProcess(core, threads, stand_in)
        finally:
            await threads.stop()
            await core.stop()


async def test_a_question_is_answered_in_its_thread(open_database: OpenDatabase, stand_in: SlackStandIn):
    """An answer streams into the thread under a title, the session is active again, and nothing is left in memory."""
    async with process(open_database, stand_in, lambda _: (say("Hello ", "there."),)) as one:
        thread = await one.ask("Hi")
        await one.shown(thread, "Hello there.")
        session = stand_in.team().session("CGENERAL", thread.root)
        assert session is not None
        assert session.title == "Hi"
        await one.ask("Again", thread)
        await one.shown(thread, "Hello there.", "Hello there.")
        await asyncio.gather(*one.threads._showing.values())
        assert one.threads._showing == {}


async def test_an_answer_of_a_killed_process_is_shown_by_another(open_database: OpenDatabase, stand_in: SlackStandIn):
    """Killed after a message was received and before anything was shown: the next process answers it, once."""
    async with process(open_database, stand_in, lambda _: (pause(asyncio.Event()),)) as one:
        await one.threads._sweep.stop()
        thread = await one.ask("Hi", show=False)
    async with process(open_database, stand_in, lambda _: (say("Here I am."),), Later()) as two:
        await two.shown(thread, "Here I am.")


async def test_a_half_shown_answer_is_completed_after_a_stop(open_database: OpenDatabase, stand_in: SlackStandIn):
    """An answer that was half streamed by one process is whole, and there once, by the next."""
    async with process(open_database, stand_in, lambda _: (say("Half "), pause(asyncio.Event()))) as one:
        thread = await one.ask("Hi")
        await stand_in.until(lambda: bool(stand_in.team().answers("CGENERAL", thread.root)), timeout=PATIENCE)
    async with process(open_database, stand_in, lambda _: (say("The whole of it."),)) as two:
        await two.shown(thread, "The whole of it.")


async def test_a_stop_in_slack_stops_the_run(open_database: OpenDatabase, stand_in: SlackStandIn):
    """A stream that a person stopped cancels its run, keeps its words, shows "Stopped.", and clears the status."""
    go = asyncio.Event()
    async with process(
        open_database, stand_in, lambda _: (say("One "), pause(go), say("two "), pause(asyncio.Event()))
    ) as one:
        thread = await one.ask("Count")
        team = stand_in.team()
        await stand_in.until(lambda: bool(team.answers("CGENERAL", thread.root)), timeout=PATIENCE)
        await team.stops("UANN", "CGENERAL", thread.root)
        go.set()  # the next append is refused
        await one.shown(thread, "One two\nStopped.")


async def test_a_duplicate_request_shows_nothing_twice(open_database: OpenDatabase, stand_in: SlackStandIn):
    """The second event of a mention requests the same again: no status is set, and nothing is shown."""
    clock = Hasty()
    async with process(open_database, stand_in, lambda _: (say("Hello."),), clock) as one:
        thread = await one.ask("Hi")
        await one.shown(thread, "Hello.")
        session = await one.core.find_session(thread.address)
        assert session is not None
        await asyncio.gather(*one.threads._showing.values())
        before, clock.ahead = len(stand_in.calls), 0
        await one.threads.want(session.id, thread)
        one.threads.show(session.id)
        await asyncio.gather(*one.threads._showing.values())
        assert len(stand_in.calls) == before
        assert clock.ahead > 0


async def test_a_question_is_answered_that_comes_as_its_thread_goes_to_rest(
    open_database: OpenDatabase, stand_in: SlackStandIn
):
    """A message that is received in the very millisecond of the one before, whose answer is complete, is answered."""
    made: list[LateLedger] = []

    def late(*args) -> LateLedger:
        made.append(LateLedger(*args))
        return made[0]

    async with process(open_database, stand_in, lambda _: (say("Hello."),), FakeClock(), late) as one:
        thread = await one.ask("Hi")
        await made[0].rests.wait()
        await one.ask("Again", thread)
        made[0].go.set()
        await one.shown(thread, "Hello.", "Hello.")


async def test_an_answer_begins_with_its_message_though_the_thread_was_looked_at_before(
    open_database: OpenDatabase, stand_in: SlackStandIn
):
    """A thread that was wanted, and found without its message, is looked at again as soon as the message is there."""
    clock = FakeClock()
    async with process(open_database, stand_in, lambda _: (say("Hello."),), clock) as one:
        thread = await one.ask("Hi")
        await one.shown(thread, "Hello.")
        session = await one.core.find_session(thread.address)
        assert session is not None
        await asyncio.gather(*one.threads._showing.values())
        resting = clock.sleepers
        await one.threads.want(session.id, thread)
        one.threads.show(session.id)  # as a sweep does
        await clock.slept(resting + 2)  # the lease, and the second that the message is waited for
        await one.core.receive(session.id, Inbound(parts=(Text("Again"),), actor=ANN))
        one.threads.show(session.id)
        await one.shown(thread, "Hello.", "Hello.")


async def test_an_agent_says_in_its_own_words_that_it_works(open_database: OpenDatabase, stand_in: SlackStandIn):
    """The agent's `loading` texts are in the thread while it works, and no longer."""
    go = asyncio.Event()
    async with process(open_database, stand_in, lambda _: (pause(go), say("Done."))) as one:
        asked = await stand_in.team().says("UANN", "CGENERAL", "Hi")
        thread = Thread("T0001", "CGENERAL", asked.ts, "UANN", "T0001", loading=("Looking into it",))
        await one.ask("Hi", thread)

        def loading() -> str:
            session = stand_in.team().session("CGENERAL", thread.root)
            return session.loading if session is not None else ""

        await stand_in.until(lambda: "Looking into it" in loading(), timeout=PATIENCE)
        go.set()
        await one.shown(thread, "Done.")
        assert loading() == ""
