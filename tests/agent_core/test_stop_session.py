"""Stop as a person means it: what runs is cancelled and what waits is cleared, and nothing starts in between."""

import asyncio

import pytest

from agent_core.agents import Limits
from agent_core.channels import Inbound
from agent_core.errors import NotFound
from agent_core.events import RunCancelling, RunQueued, RunStarted, TextDelta, ToolStarted
from agent_core.messages import Text
from agent_core.testing import call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, is_a, set_stage, texts
from tests.conftest import MakeCore


@tool
async def wait() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return "never"


async def test_stop_ends_all_that_runs_and_waits(make_core: MakeCore):
    """The answer on the screen and all queued messages are cancelled; nothing of them is asked, then or later."""
    never = asyncio.Event()
    stage = await set_stage(make_core, [(say("Half"), pause(never)), (say("New."),)])
    async with stage.reader() as reader:
        first = await stage.send("one")
        await reader.until(is_a(TextDelta))
        queued = [await stage.send(text) for text in ("two", "three")]
        stopped = await stage.core.stop_session(stage.session, by=ANN, reason="stop")
    assert [run.id for run in stopped] == [first, *queued]
    assert [(await stage.done(run)).status for run in (first, *queued)] == ["cancelled"] * 3
    assert (await stage.core.run(first)).text == "Half"
    assert len(await stage.said(RunStarted)) == 1
    await stage.play("four")
    assert [text for role, text in texts(stage.provider.requests[1]) if role == "user"][0::2] == ["one", "four"]
    check_log(await stage.log())


async def test_stop_clears_what_joined_the_run(make_core: MakeCore):
    """A steered message that no step took opens no next run after a Stop; one that comes after it does."""
    stage = await set_stage(make_core, [(call("wait"),), (say("Three."),)], tools=[wait])
    run = await stage.send("one")
    await stage.until(is_a(ToolStarted))
    await stage.send("two", overlap="steer")
    await stage.core.stop_session(stage.session, by=ANN)
    assert (await stage.done(run)).status == "cancelled"
    assert [body.inputs for body in await stage.said(RunQueued)] == [()]
    assert (await stage.play("three")).text == "Three."
    assert "two" not in str(texts(stage.provider.requests[1]))
    check_log(await stage.log())


async def test_stop_after_a_plain_cancel_clears_the_queue(make_core: MakeCore):
    """A Stop that follows a cancel of the run still clears what joined it; a third changes nothing."""
    held = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Ignore the first cancellation."""
        try:
            await asyncio.Event().wait()
        finally:
            await held.wait()
        return "never"

    stage = await set_stage(make_core, [(call("stubborn"),)], tools=[stubborn])
    run = await stage.send("one")
    await stage.until(is_a(ToolStarted))
    await stage.send("two", overlap="steer")
    await stage.core.cancel(run, by=ANN)
    for _ in range(2):
        assert [each.id for each in await stage.core.stop_session(stage.session, by=ANN)] == [run]
    held.set()
    assert (await stage.done(run)).status == "cancelled"
    assert [body.clears for body in await stage.said(RunCancelling)] == [False, True]
    assert len((await stage.core.runs(session=stage.session)).items) == 1


async def test_stop_makes_room_for_others(make_core: MakeCore):
    """When the agent may run once at a time, another session's message is answered after the Stop."""
    never = asyncio.Event()
    stage = await set_stage(make_core, [(say("Half"), pause(never)), (say("Yes."),)], limits=Limits(max_runs=1))
    await stage.send("one")
    await stage.asked(1)
    await stage.send("two")
    other = await stage.core.open_session(agent="assistant", actor=ANN)
    run = (await stage.core.receive(other.id, Inbound(parts=(Text("three"),), actor=ANN))).run
    assert len(await stage.core.stop_session(stage.session, by=ANN)) == 2
    assert (await stage.done(run)).text == "Yes."


async def test_stop_of_an_idle_session_stops_nothing(make_core: MakeCore):
    """Where nothing runs nothing is cancelled and nothing is written; a session that is not there is not found."""
    stage = await set_stage(make_core, [(say("One."),)])
    await stage.play("one")
    before = len(await stage.log())
    assert await stage.core.stop_session(stage.session, by=ANN) == ()
    assert len(await stage.log()) == before
    with pytest.raises(NotFound):
        await stage.core.stop_session("ses_unknown", by=ANN)
