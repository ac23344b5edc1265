"""A thread that waits for people is shown again once its run continues, regardless of who decided and where."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from sqlalchemy import event

from agent_core.agents import DeclaredTool
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.messages import Actor, Text
from agent_core.objects import Decider, Decision
from agent_core.runtime.segments import ToolOutput
from agent_core.testing import FakeClock, ScriptedProvider
from channels.ledger import Ledger
from channels.slack.api import SlackApi
from channels.slack.pace import Pacer, Workspaces
from channels.slack.settings import Thread
from channels.slack.testing import SimulatedWorkspace, SlackStandIn
from channels.slack.threads import SWEEP, Threads
from tests.agent_core.scenes import engine_of
from tests.channels.slack.cards.desk import HASTY, TypedTill, asks, wants
from tests.conftest import MakeCore

ANN = Actor("slack:T0001:UANN", "user", "Ann Lee")
OPERATOR = Decider(actor=Actor("ops", "service"), is_operator=True)
LONG = 60.0


@dataclass
class RestingThreads:
    """A core, and a Slack in which its sessions are shown now and then."""

    core: Core
    clock: FakeClock
    stand_in: SlackStandIn
    http: aiohttp.ClientSession

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Threads]:
        """Show threads while the block lasts; approvals are not reported, as when another process decides."""
        team = self.stand_in.team()
        api = SlackApi(team.bot_token, session=self.http, base_url=f"{self.stand_in.base_url}api/")
        workspaces = Workspaces([api], Pacer(self.clock, share=HASTY))
        ledger = Ledger(self.core._store.database, self.clock, "slack")
        threads = Threads(self.core, ledger, workspaces.space, self.clock, share=lambda _: None)
        await threads.start(alone=True)
        try:
            yield threads
        finally:
            await threads.stop()

    async def waits(self, threads: Threads) -> tuple[str, str]:
        """Have a run wait, and its thread rest; return both."""
        root = (await self.stand_in.team().says("UANN", "CGENERAL", "Pay")).ts
        thread = Thread("T0001", "CGENERAL", root, "UANN", "T0001")
        session = (await self.core.open_session(agent="assistant", actor=ANN, address=thread.address)).id
        await threads.want(session, thread)
        run = (await self.core.receive(session, Inbound(parts=(Text("Pay"),), actor=ANN))).run
        threads.show(session)
        await self.says(root, "suspended")
        await asyncio.gather(*threads._showing.values())
        return root, run

    async def says(self, root: str, status: str, text: str = "") -> None:
        """Return once the thread has that status, and says *text*."""
        team = self.stand_in.team()

        def is_said() -> bool:
            session = team.session("CGENERAL", root)
            answers = team.answers("CGENERAL", root)
            said = "\n".join(each.text for each in answers)
            is_quiet = not any(each.streaming for each in answers)
            return session is not None and session.status == status and text in said and is_quiet

        await self.stand_in.until(is_said, timeout=LONG)


@pytest.fixture
async def make_stage(make_core: MakeCore) -> AsyncIterator[Callable]:
    stand_in = SlackStandIn(
        clock=(clock := FakeClock()), workspaces=[SimulatedWorkspace.example()], rates=None, echo=False
    )
    async with stand_in.serving(), aiohttp.ClientSession() as http:

        async def make(**definition) -> RestingThreads:
            till = TypedTill() if "hooks" in definition else None
            model = ScriptedProvider(wants(to="Bob", amount=5))
            core = await make_core(model, clock=clock, tools=till.tools() if till else (), definition=definition)
            return RestingThreads(core, clock, stand_in, http)

        yield make


@pytest.mark.parametrize("alive", [True, False])
async def test_decided_elsewhere(make_stage: Callable, alive: bool):
    """A decision that was not reported to this process, or came while it was down, brings the answer all the same."""
    stage: RestingThreads = await make_stage(hooks=(asks(),))

    async def decide(run: str) -> None:
        (asked,) = (await stage.core.approvals.list(run=run)).items
        await stage.core.approvals.decide(Decision(approval=asked.id, by=OPERATOR, approved=True, surface="api"))
        await stage.core.settled(run, timeout=LONG)

    async with stage.process() as threads:
        root, run = await stage.waits(threads)
        if alive:
            await decide(run)
            stage.clock.advance(SWEEP)
            await stage.says(root, "active", "That is done.")
    if not alive:
        await decide(run)
        async with stage.process():
            await stage.says(root, "active", "That is done.")
    said = "\n".join(each.text for each in stage.stand_in.team().answers("CGENERAL", root))
    assert (said.count("I will pay."), said.count("That is done.")) == (1, 1)


async def test_answered_by_a_client(make_stage: Callable):
    """A call that a client executes lets its thread rest; its output, submitted anywhere, brings the answer."""
    pay = DeclaredTool(name="pay", kind="client", description="Pay.", parameters={"type": "object"})
    stage: RestingThreads = await make_stage(tools=(pay,))
    async with stage.process() as threads:
        root, run = await stage.waits(threads)
        (pending,) = (await stage.core.run(run)).pending
        await stage.core.submit(run, [ToolOutput(call=pending.call, output="Paid.")])
        await stage.core.settled(run, timeout=LONG)
        stage.clock.advance(SWEEP)
        await stage.says(root, "active", "That is done.")


async def test_stopped_elsewhere(make_stage: Callable):
    """A run that is cancelled while it waits says so in its thread, and no status is left over."""
    stage: RestingThreads = await make_stage(hooks=(asks(),))
    async with stage.process() as threads:
        root, run = await stage.waits(threads)
        await stage.core.cancel(run, by=ANN)
        stage.clock.advance(SWEEP)
        await stage.says(root, "active", "Stopped.")


async def test_what_only_waits_is_left_alone(make_stage: Callable):
    """While nothing happens in a session that waits, no sweep asks Slack or the log for anything."""
    stage: RestingThreads = await make_stage(hooks=(asks(timeout_s=24 * 3600),))
    async with stage.process() as threads:
        await stage.waits(threads)
        before = len(stage.stand_in.calls)
        for _ in range(3):
            await stage.clock.slept()
            stage.clock.advance(SWEEP)
        await stage.core.health.ping()
        assert threads._showing == {}
        assert len(stage.stand_in.calls) == before


async def test_what_is_queued_after_a_wait_holds_nothing(make_stage: Callable):
    """With a queued run after the one that waits, an hour passes without a write, a call to Slack or a held thread."""
    stage: RestingThreads = await make_stage(hooks=(asks(timeout_s=24 * 3600),))
    async with stage.process() as threads:
        root, run = await stage.waits(threads)
        session = (await stage.core.run(run)).session
        await threads.want(session, Thread("T0001", "CGENERAL", root, "UANN", "T0001"))
        queued = (await stage.core.receive(session, Inbound(parts=(Text("Any news?"),), actor=ANN))).run
        threads.show(session)
        async with asyncio.timeout(LONG):
            await asyncio.gather(*threads._showing.values())
        calls, writes = len(stage.stand_in.calls), list[str]()

        def note(_connection, _cursor, statement: str, *_rest: object) -> None:
            is_hourly = statement.startswith(("DELETE FROM served ", "DELETE FROM quota "))  # what has expired goes
            if not is_hourly and statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE")):
                writes.append(statement)

        event.listen(engine_of(stage.core), "before_cursor_execute", note)
        for _ in range(60):
            await stage.clock.slept()
            stage.clock.advance(60)
        await stage.core.health.ping()
        assert (threads._showing, writes, len(stage.stand_in.calls)) == ({}, [], calls)
        assert (await stage.core.run(queued)).status == "queued"
        (asked,) = (await stage.core.approvals.list(run=run)).items
        await stage.core.approvals.decide(Decision(approval=asked.id, by=OPERATOR, approved=True, surface="api"))
        await stage.core.settled(queued, timeout=LONG)
        stage.clock.advance(SWEEP)
        await stage.says(root, "suspended", "That is done.")  # what was queued asks to pay, too
