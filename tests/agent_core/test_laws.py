"""Laws 1 and 2 of the design: announce, act, record; and no started write is blindly repeated."""

import asyncio
from typing import Literal

import pytest

from agent_core.events import (
    MessageCompleted,
    RunResumed,
    StepCompleted,
    StepStarted,
    ToolCompleted,
    ToolRequested,
    ToolStarted,
)
from agent_core.messages import text_of
from agent_core.testing import by_step, call, pause, say
from agent_core.tools.base import CallContext, Tool
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import PATIENCE, Stage, restart, results, set_stage
from tests.conftest import MakeCore


async def test_law_1_a_tool_is_announced_before_it_runs_and_recorded_after(make_core: MakeCore):
    """While a tool runs its start is in the log and its end is not; when the model is asked next, its end is."""
    stages: list[Stage] = []
    seen: list[tuple[str, list[str]]] = []

    async def look_at_the_log(where: str) -> None:
        seen.append((where, [fact.type for fact in await stages[0].log() if fact.type.startswith("tool.")]))

    @tool(effect="write")
    async def book() -> str:
        """Book."""
        await look_at_the_log("in the tool")
        return "booked"

    stage = await set_stage(make_core, by_step((call("book"),), (say("Done."),)), tools=[book])
    stages.append(stage)
    run = await stage.play()
    assert run.text == "Done."
    assert seen == [("in the tool", ["tool.requested", "tool.started"])]
    order = [fact.body for fact in await stage.log() if fact.run == run.id]
    kinds = [type(body) for body in order if not isinstance(body, StepStarted)]
    assert kinds.index(ToolRequested) < kinds.index(ToolStarted) < kinds.index(ToolCompleted)
    assert kinds.index(MessageCompleted) < kinds.index(StepCompleted) < kinds.index(ToolRequested)


async def test_law_1_a_model_call_is_announced_before_it_is_made(make_core: MakeCore):
    """When the model is asked, the step that asks is in the log already, and nothing of its answer is."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), say("Hi."))])
    run = await stage.send()
    await stage.asked(1)
    assert (await stage.types(run))[-1] == "step.started"
    may_end.set()
    await stage.done(run)


class CallRecord:
    """What the outside world knows of a tool's executions: the ids of the calls, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.running = asyncio.Event()
        self.may_end = asyncio.Event()

    def tool(self, *, effect: Literal["read", "write"], idempotent: bool = False) -> Tool:
        @tool(effect=effect, idempotent=idempotent, concurrency_safe=True)
        async def act(context: CallContext, n: int = 0) -> str:
            """Act."""
            self.calls.append(context.call)
            self.running.set()
            await self.may_end.wait()
            return f"{n} is done"

        return act


async def interrupted(make_core: MakeCore, ledger: CallRecord, made: Tool, count: int = 1) -> Stage:
    """Stop the process while *count* calls run, start it again, and return the stage once the run is over."""
    script = by_step(tuple(call("act", n=n) for n in range(count)), (say("I see."),))
    stage = await set_stage(make_core, script, tools=[made])
    run = await stage.send()
    await asyncio.wait_for(ledger.running.wait(), PATIENCE)
    await stage.core.stop()
    ledger.may_end.set()
    again = await restart(make_core, stage, script, tools=[made])
    assert (await again.done(run)).text == "I see."
    assert [(resumed.epoch, resumed.cause) for resumed in await again.said(RunResumed)] == [(2, "handed_over")]
    check_log(await again.log())
    return again


async def ends(stage: Stage) -> list[tuple[str, str]]:
    """Return call and outcome of each call, and check that the model was sent the same."""
    logged = await stage.said(ToolCompleted)
    sent = {result.call: result for result in results(stage.provider.requests[-1])}
    assert {end.call: (end.outcome, end.parts) for end in logged} == {
        call: (result.outcome, result.parts) for call, result in sent.items()
    }
    return [(end.call, end.outcome) for end in logged]


async def test_law_2_an_interrupted_read_runs_again(make_core: MakeCore):
    """A read that a crash interrupted runs again, and the model gets its result."""
    ledger = CallRecord()
    stage = await interrupted(make_core, ledger, ledger.tool(effect="read"))
    ((name, outcome),) = await ends(stage)
    assert (ledger.calls, outcome) == ([name, name], "done")
    assert len(await stage.said(ToolStarted)) == 1


async def test_law_2_an_idempotent_write_runs_again_under_its_call_id(make_core: MakeCore):
    """A write that takes the call id as its idempotency key runs again after a crash, with the same id."""
    ledger = CallRecord()
    stage = await interrupted(make_core, ledger, ledger.tool(effect="write", idempotent=True))
    ((name, outcome),) = await ends(stage)
    assert (ledger.calls, outcome) == ([name, name], "done")


async def test_law_2_any_other_write_is_not_repeated(make_core: MakeCore):
    """A write that a crash interrupted is never run again: its outcome is unknown, and the model is informed."""
    ledger = CallRecord()
    stage = await interrupted(make_core, ledger, ledger.tool(effect="write"))
    ((name, outcome),) = await ends(stage)
    assert (ledger.calls, outcome) == ([name], "unknown")
    (sent,) = results(stage.provider.requests[-1])
    assert "not known whether this call took effect" in text_of(sent.parts)


@pytest.mark.parametrize(("effect", "outcome"), [("write", "unknown"), ("read", "failed")])
async def test_law_2_holds_when_the_tool_is_gone(make_core: MakeCore, effect, outcome):
    """A write that was interrupted is unknown even when the next process has no such tool; a read just fails."""
    ledger = CallRecord()
    script = by_step((call("act"),), (say("I see."),))
    stage = await set_stage(make_core, script, tools=[ledger.tool(effect=effect, idempotent=True)])
    run = await stage.send()
    await asyncio.wait_for(ledger.running.wait(), PATIENCE)
    again = await restart(make_core, stage, script)
    assert (await again.done(run)).text == "I see."
    assert [end for _, end in await ends(again)] == [outcome]


async def test_law_2_holds_for_each_of_several_writes(make_core: MakeCore):
    """Of several writes that ran side by side when the process died none is repeated."""
    ledger = CallRecord()
    stage = await interrupted(make_core, ledger, ledger.tool(effect="write"), count=3)
    assert [outcome for _, outcome in await ends(stage)] == ["unknown"] * 3
    assert len(ledger.calls) == len(set(ledger.calls)) == 3


async def test_law_2_a_call_that_had_not_started_runs_once(make_core: MakeCore):
    """A write after the one that a crash interrupted had not started: it runs after the restart, once."""
    written: list[str] = []
    running, may_end = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def write(what: str) -> str:
        """Write."""
        written.append(what)
        running.set()
        await may_end.wait()
        return what

    script = by_step((call("write", what="a"), call("write", what="b")), (say("I see."),))
    stage = await set_stage(make_core, script, tools=[write])
    run = await stage.send()
    await asyncio.wait_for(running.wait(), PATIENCE)
    await stage.core.stop()
    may_end.set()
    again = await restart(make_core, stage, script, tools=[write])
    assert (await again.done(run)).text == "I see."
    assert written == ["a", "b"]
    assert [outcome for _, outcome in await ends(again)] == ["unknown", "done"]
