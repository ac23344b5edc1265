"""Callers that are cancelled at the commit of what they asked for, as when a client disconnects."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from agent_core.agents import DeclaredTool
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.events import RunResumed
from agent_core.messages import Text
from agent_core.runtime.segments import ToolOutput
from agent_core.testing import FakeClock, by_step, call, pause, say
from tests.agent_core.asking import Till, asks, open_approvals, yes
from tests.agent_core.databases import Wrapped
from tests.agent_core.stage import ANN, PATIENCE, Stage, set_stage
from tests.conftest import MakeCore
from tests.polling import until

T = TypeVar("T")
SCHEMA = {"type": "object", "properties": {}}
WHERE = DeclaredTool(name="where", kind="client", description="Where the person is.", parameters=SCHEMA)
PAYS = by_step((call("pay", amount=5),), (say("Done."),))


class CallerLeaves(Wrapped):
    """A database whose first writer is cancelled as its transaction is committed, before it gets the result."""

    def __init__(self, core: Core) -> None:
        super().__init__(core._store.database)
        self._core = core

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        self._core._store.database = self.inner
        caller = asyncio.current_task()
        assert caller is not None

        def leave(done: T) -> None:
            if committed is not None:
                committed(done)
            caller.cancel()

        return await super().write(work, leave)


async def left(core: Core, request: Awaitable[Any]) -> None:
    """Make *request* as a caller who leaves at its commit."""
    core._store.database = CallerLeaves(core)

    async def caller() -> None:
        await request

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(caller())


async def first_run(stage: Stage) -> str:
    """Return the newest run, of whose message no caller got the receipt."""
    return (await stage.core.runs()).items[0].id


async def test_a_message_is_answered_although_its_sender_left(make_core: MakeCore) -> None:
    """A run that a message started is driven at once, also when the sender has left by then."""
    stage = await set_stage(make_core, [(say("Hello."),)], clock=FakeClock())
    await left(stage.core, stage.send("Hello"))
    assert (await stage.done(await first_run(stage))).text == "Hello."
    assert await stage.said(RunResumed) == []


async def test_a_first_message_is_answered_although_its_sender_left(make_core: MakeCore) -> None:
    """The same holds for a run that opened its session."""
    stage = await set_stage(make_core, [(say("Hello."),)], clock=FakeClock())
    await left(stage.core, stage.core.run_agent("assistant", Inbound(parts=(Text("Hello"),), actor=ANN)))
    run = await stage.done(await first_run(stage))
    assert (run.text, run.session == stage.session) == ("Hello.", False)


async def test_a_decision_wakes_its_run_although_the_decider_left(make_core: MakeCore) -> None:
    """After a decision the run continues at once, also when the decider has left by then."""
    till = Till()
    stage = await set_stage(make_core, PAYS, tools=till.tools(), hooks=(asks(),), clock=FakeClock())
    await stage.play("Pay")
    (asked,) = await open_approvals(stage)
    await left(stage.core, stage.core.approvals.decide(yes(asked.id)))
    await until(lambda: till.paid == [5])
    assert (await stage.done(asked.run)).text == "Done."


async def test_an_output_wakes_its_run_although_the_client_left(make_core: MakeCore) -> None:
    """After the output of a client's call the run continues at once, also when the client has left by then."""
    script = by_step((call("where"),), (say("There."),))
    stage = await set_stage(make_core, script, declared=(WHERE,), clock=FakeClock())
    run = await stage.play()
    await left(stage.core, stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="Bern")]))
    async with asyncio.timeout(PATIENCE):
        await stage.provider.asked(2)
    assert (await stage.done(run.id)).text == "There."


@pytest.mark.parametrize("whole", [False, True], ids=["run", "session"])
async def test_a_cancel_interrupts_although_the_caller_left(make_core: MakeCore, *, whole: bool) -> None:
    """A cancelled run ends at once, also when who cancelled it has left by then."""
    stage = await set_stage(make_core, [(say("Hello"), pause(asyncio.Event()), say("."))], clock=FakeClock())
    run = await stage.send()
    await stage.asked(1)
    core = stage.core
    await left(core, core.stop_session(stage.session, by=ANN) if whole else core.cancel(run, by=ANN))
    assert (await stage.done(run)).status == "cancelled"


async def test_the_next_run_starts_although_the_one_who_deleted_a_message_left(make_core: MakeCore) -> None:
    """The run after a queued one that a deletion cancelled starts at once, also when the caller has left by then."""
    script = by_step((call("where"),), (say("There."),))
    stage = await set_stage(make_core, script, declared=(WHERE,), clock=FakeClock())
    waiting = await stage.play("Where am I?")
    following = await stage.send("And then?")
    (asked,) = [each for each in (await stage.core.messages(stage.session)).items if each.run == waiting.id][:1]
    await left(stage.core, stage.core.retract(stage.session, asked.id, by=ANN))
    await left(stage.core, stage.core.cancel(waiting.id, by=ANN))
    assert (await stage.done(following)).status in ("completed", "requires_action")


async def test_a_reader_of_a_deleted_session_ends_although_the_caller_left(make_core: MakeCore) -> None:
    """The stream of a session ends with its deletion, also when who deleted it has left by then."""
    stage = await set_stage(make_core, [(say("Hello."),)], clock=FakeClock())

    begun = asyncio.Event()

    async def read() -> None:
        async for _ in stage.core.follow(stage.session):
            begun.set()

    reading = asyncio.create_task(read())
    await begun.wait()
    await left(stage.core, stage.core.delete_session(stage.session))
    async with asyncio.timeout(PATIENCE):
        await reading
