"""Law 6 of the design: a message during a run follows its overlap policy, and none is lost."""

import asyncio
from dataclasses import dataclass
from typing import Literal

import pytest

from agent_core.channels import Inbound, Overlap
from agent_core.errors import SessionBusy
from agent_core.events import RunCancelled
from agent_core.messages import Message, Text
from agent_core.testing import FakeClock, call, pause, say
from agent_core.tools.base import Pending
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, set_stage, texts
from tests.conftest import MakeCore


@dataclass
class Busy:
    """A session whose first run is in its model call until *may_end*; time does not advance."""

    stage: Stage
    run: str
    may_end: asyncio.Event


@pytest.fixture
async def busy(make_core: MakeCore) -> Busy:
    may_end = asyncio.Event()
    script = [(say("To "), pause(may_end), say("one.")), (say("To two."),), (say("To three."),)]
    stage = await set_stage(make_core, script, clock=FakeClock())
    run = await stage.send("one")
    await stage.asked(1)
    return Busy(stage, run, may_end)


async def test_law_6_queue_is_the_next_run_in_order(busy: Busy):
    """By default a message during a run waits for its own run, which starts when the first has ended; in order."""
    second, third = await busy.stage.send("two"), await busy.stage.send("three")
    assert len({busy.run, second, third}) == 3
    assert (await busy.stage.core.run(second)).status == "queued"
    busy.may_end.set()
    done = [await busy.stage.done(run) for run in (busy.run, second, third)]
    assert [run.text for run in done] == ["To one.", "To two.", "To three."]
    facts = await busy.stage.log()
    ends = {fact.run: fact.seq for fact in facts if fact.type == "run.completed"}
    starts = {fact.run: fact.seq for fact in facts if fact.type == "run.started"}
    assert starts[busy.run] < ends[busy.run] < starts[second] < ends[second] < starts[third]
    check_log(facts)


async def test_law_6_steer_joins_at_the_next_step(busy: Busy):
    """A steered message joins the run, the post returns that run, and its next step takes the message."""
    assert await busy.stage.send("two", overlap="steer") == busy.run
    busy.may_end.set()
    run = await busy.stage.done(busy.run)
    assert (run.text, run.steps) == ("To two.", 2)
    assert texts(busy.stage.provider.requests[1]) == [("user", "one"), ("assistant", "To one."), ("user", "two")]
    assert len((await busy.stage.core.runs()).items) == 1


async def test_law_6_an_unconsumed_steered_message_opens_the_next_run(make_core: MakeCore):
    """When the run ends before a step could take a steered message, the message opens the next run."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), say("One.")), (say("Two."),)], clock=FakeClock())
    run = await stage.send("one", max_steps=1)
    await stage.asked(1)
    assert await stage.send("two", overlap="steer") == run
    may_end.set()
    assert (await stage.done(run)).text == "One."
    (next_run,) = [fact.run for fact in await stage.log() if fact.type == "run.queued" and fact.run != run]
    assert (await stage.done(next_run or "")).text == "Two."
    two = (await stage.core.messages(stage.session)).items[1]
    assert (two.parts, two.run) == ((Text("two"),), next_run)


async def test_law_6_interrupt_cancels_and_then_runs(busy: Busy):
    """An interrupting message cancels the run, which keeps its partial answer, and is then answered."""
    second = await busy.stage.send("two", overlap="interrupt")
    first = await busy.stage.done(busy.run)
    assert (first.status, first.text) == ("cancelled", "To ")
    assert (await busy.stage.done(second)).text == "To two."
    assert [(end.by, end.reason) for end in await busy.stage.said(RunCancelled)] == [(ANN, "interrupted")]
    check_log(await busy.stage.log())


async def test_law_6_reject_leaves_no_trace(busy: Busy):
    """A message that wants no waiting is refused while a run is active, and leaves nothing behind."""
    before = len(await busy.stage.log())
    with pytest.raises(SessionBusy, match="is answering"):
        await busy.stage.send("two", overlap="reject")
    assert len(await busy.stage.log()) == before
    busy.may_end.set()
    await busy.stage.done(busy.run)
    assert (await busy.stage.play("two")).text == "To two."
    accepted = await busy.stage.send("three", overlap="reject")
    assert (await busy.stage.done(accepted)).text == "To three."


@pytest.mark.parametrize("overlap", ["queue", "steer", "interrupt", "reject"])
async def test_law_6_every_policy_just_runs_in_an_idle_session(make_core: MakeCore, overlap: Overlap):
    """In an idle session every policy opens a run at once."""
    stage = await set_stage(make_core, [(say("Hi."),)], clock=FakeClock())
    run = await stage.send("one", overlap=overlap)
    assert (await stage.done(run)).text == "Hi."


@pytest.mark.parametrize("overlap", ["queue", "steer", "interrupt"])
@pytest.mark.parametrize("where", ["model", "tool"])
async def test_law_6_no_message_is_lost(make_core: MakeCore, overlap: Overlap, where: Literal["model", "tool"]):
    """A message that comes in during a model call or a tool is answered, whatever its policy."""
    may_end, running = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        running.set()
        await may_end.wait()
        return "waited"

    first = (call("wait"),) if where == "tool" else (pause(may_end), say("One."))
    stage = await set_stage(make_core, [first, (say("More."),), (say("More."),)], tools=[wait], clock=FakeClock())
    run = await stage.send("one")
    await (running.wait() if where == "tool" else stage.asked(1))
    second = await stage.send("two", overlap=overlap)
    may_end.set()
    await stage.done(run)
    assert (await stage.done(second)).status == "completed"
    assert ("user", "two") in texts(stage.provider.requests[-1])
    check_log(await stage.log())


async def test_law_6_a_waiting_run_is_left_to_wait(make_core: MakeCore):
    """A message to a session whose run waits for a person is queued after it, or rejected, by its policy."""

    @tool
    async def ask() -> Pending:
        """Ask."""
        return Pending("client")

    stage = await set_stage(make_core, [(call("ask"),), (say("Two."),)], tools=[ask], clock=FakeClock())
    waiting = await stage.play("one")
    queued = await stage.send("two")
    assert (await stage.core.run(queued)).status == "queued"
    with pytest.raises(SessionBusy):
        await stage.send("three", overlap="reject")
    assert (await stage.core.run(waiting.id)).status == "requires_action"
    assert (await stage.stop(waiting.id)).status == "cancelled"
    assert (await stage.done(queued)).text == "Two."


async def test_law_6_what_a_run_brings_stays_with_its_message(busy: Busy):
    """A queued message keeps its own instructions, history and limits until its run starts."""
    history = (Message("user", (Text("Before."),)), Message("assistant", (Text("Yes."),)))
    inbound = Inbound(parts=(Text("two"),), actor=ANN, instructions="Be rude.", history=history)
    second = (await busy.stage.core.receive(busy.stage.session, inbound)).run
    busy.may_end.set()
    assert (await busy.stage.done(second)).text == "To two."
    request = busy.stage.provider.requests[1]
    assert request.snapshot.instructions == "Be rude."
    assert [text for _, text in texts(request)] == ["one", "To one.", "Before.", "Yes.", "two"]
