"""What a tool knows of who asks: the actor, the channel, and what the channel itself says of them."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from agent_core.agents import Controls, DeclaredTool, Hook
from agent_core.channels import Inbound
from agent_core.errors import InvalidInput
from agent_core.events import MessageReceived, RunCompleted
from agent_core.messages import Actor, Text
from agent_core.runtime.segments import Changes, ToolOutput
from agent_core.store.log import RUN
from agent_core.testing import call, pause, say
from agent_core.tools.base import CallContext
from agent_core.tools.functions import FunctionTool, tool
from tests.agent_core.stage import ANN, is_a, restart, set_stage
from tests.conftest import MakeCore

BEN = Actor("ben", "user", "Ben")
SECRET = "s3cret-7"
PICK = DeclaredTool(name="pick", kind="client", description="Pick.", parameters={"type": "object"})


def noting(seen: list[CallContext]) -> FunctionTool[..., Any]:
    """Return a tool `ask` that notes its contexts in *seen*."""

    @tool
    async def ask(context: CallContext) -> str:
        """Ask."""
        seen.append(context)
        return "asked"

    return ask


def asking(actor: Actor = ANN, **fields: Any) -> Inbound:
    return Inbound(parts=(Text("Go"),), actor=actor, **fields)


async def test_a_tool_knows_who_asked_and_where(make_core: MakeCore):
    """The actor is the one whose message opened the run, the channel that of the session."""
    seen: list[CallContext] = []
    stage = await set_stage(make_core, [(call("ask"),), (say("Done."),)] * 2, tools=[noting(seen)])
    await stage.done((await stage.core.receive(stage.session, asking(BEN))).run)
    visitor = Actor("v-1", "visitor")
    placed = await stage.core.open_session(agent="assistant", actor=visitor, address="slack:T:C:1")
    await stage.done((await stage.core.receive(placed.id, asking(visitor))).run)
    assert [(each.actor, each.channel) for each in seen] == [(BEN, "api"), (visitor, "slack")]
    assert seen[0].session == stage.session


async def test_what_the_channel_knows_is_passed_over_controls(make_core: MakeCore):
    """The tool context of a message has the last word on its keys; the controls' own keys are kept."""
    seen: list[CallContext] = []
    stage = await set_stage(make_core, [(call("ask"),), (say("Done."),)], tools=[noting(seen)])
    controls = Controls(tool_context={"customer": "forged", "shop": 4})
    inbound = asking(tool_context={"customer": SECRET}, controls=controls)
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    assert seen[0].tool_context == {"customer": SECRET, "shop": 4}
    assert SECRET not in repr(inbound) + repr(seen[0])
    assert not any(SECRET.encode() in fact.raw for fact in await stage.log())
    assert SECRET not in repr(stage.provider.requests)


async def test_the_asker_is_the_same_after_a_wait_and_in_another_process(make_core: MakeCore):
    """A run that waited goes on in another process for the same person; an output's tool context replaces no keys."""
    seen: list[CallContext] = []
    ask = noting(seen)
    stage = await set_stage(make_core, [(call("ask"), call("pick"))], tools=[ask], declared=[PICK])
    controls = Controls(tool_context={"shop": 4})
    inbound = asking(BEN, tool_context={"customer": SECRET}, controls=controls)
    run = await stage.done((await stage.core.receive(stage.session, inbound)).run)
    other = await restart(make_core, stage, [(call("ask"),), (say("Done."),)], tools=(ask,))
    changes = Changes(tool_context={"customer": "forged", "shop": 5})
    await other.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="that")], changes)
    assert (await other.done(run.id)).text == "Done."
    assert [each.actor for each in seen] == [BEN, BEN]
    assert [each.tool_context for each in seen] == [{"customer": SECRET, "shop": shop} for shop in (4, 5)]


async def test_a_steered_message_brings_nothing_into_the_run_that_it_joins(make_core: MakeCore):
    """What another person says into a run changes neither its actor nor its tool context."""
    seen: list[CallContext] = []
    may_call = asyncio.Event()
    script = [(pause(may_call), call("ask")), (say("Done."),)]
    stage = await set_stage(make_core, script, tools=[noting(seen)])
    run = (await stage.core.receive(stage.session, asking(ANN, tool_context={"customer": 1}))).run
    await stage.asked(1)
    joined = asking(BEN, tool_context={"customer": 2}, overlap="steer")
    assert (await stage.core.receive(stage.session, joined)).run == run
    may_call.set()
    await stage.done(run)
    assert [(each.actor, each.tool_context) for each in seen] == [(ANN, {"customer": 1})]


@pytest.mark.parametrize("context", [{"customer": 2}, None])
async def test_a_steered_message_that_opens_the_next_run_asks_there(
    make_core: MakeCore, context: dict[str, int] | None
):
    """The run that an unanswered message opens works for its author, with what came with that message and no more."""
    seen: list[CallContext] = []
    script = [(pause(asyncio.Event()), say("never")), (call("ask"),), (say("Done."),)]
    stage = await set_stage(make_core, script, tools=[noting(seen)])
    run = (await stage.core.receive(stage.session, asking(ANN, tool_context={"customer": 1}))).run
    await stage.asked(1)
    for actor, given in ((BEN, context), (ANN, {"customer": 3})):
        await stage.core.receive(stage.session, asking(actor, tool_context=given, overlap="steer"))
    async with stage.reader() as reader:
        await stage.stop(run)
        await reader.until(is_a(RunCompleted))
    assert [(each.actor, each.tool_context) for each in seen] == [(BEN, context or {})]


async def test_a_forgotten_person_leaves_no_tool_context(make_core: MakeCore):
    """What came with the messages of a person is deleted with them, also from runs that they joined."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), say("Done.")), (say("More."),)])
    run = (await stage.core.receive(stage.session, asking(ANN))).run
    await stage.asked(1)
    await stage.core.receive(stage.session, asking(BEN, tool_context={"customer": SECRET}, overlap="steer"))
    may_end.set()
    await stage.done(run)
    await stage.core.forget_actor(BEN.id, pseudonym="forgotten:1", by=ANN)
    stored = await stage.core._store.read(lambda connection: connection.execute(select(RUN.c.options)).scalars().all())
    assert not any(SECRET.encode() in options for options in stored if options)


async def test_a_forgotten_person_leaves_no_tool_context_of_a_run_without_steps(make_core: MakeCore):
    """A run that opened with a message that an earlier one left, and that ended before any step, is theirs too."""
    denial = {"conditions": [{"field": "actor.id", "operator": "EQUALS", "value": BEN.id}], "decision": "deny"}
    hook = Hook(event="OnRunStart", type="rule", config=denial)
    stage = await set_stage(make_core, [(pause(asyncio.Event()), say("never"))], hooks=[hook])
    run = (await stage.core.receive(stage.session, asking(ANN))).run
    await stage.asked(1)
    await stage.core.receive(stage.session, asking(BEN, tool_context={"customer": SECRET}, overlap="steer"))
    async with stage.reader() as reader:
        await stage.stop(run)
        await reader.until(is_a(RunCompleted))
    await stage.core.forget_actor(BEN.id, pseudonym="forgotten:1", by=ANN)
    stored = await stage.core._store.read(lambda connection: connection.execute(select(RUN.c.options)).scalars().all())
    assert len(stored) == 2
    assert not any(SECRET.encode() in options for options in stored if options)


async def test_a_tool_context_is_bounded(make_core: MakeCore):
    """What a channel passes is refused beyond the bound of controls, and nothing is written."""
    stage = await set_stage(make_core, [])
    with pytest.raises(InvalidInput, match="`tool_context`: at most 64,000 bytes"):
        await stage.core.receive(stage.session, asking(tool_context={"x": "x" * 64_000}))
    assert not await stage.said(MessageReceived)


async def test_a_copy_of_a_session_has_no_tool_context(make_core: MakeCore):
    """What came with the messages stays with the session that it was for."""
    stage = await set_stage(make_core, [(say("Done."),)])
    await stage.done((await stage.core.receive(stage.session, asking(tool_context={"customer": SECRET}))).run)
    await stage.core.fork_session(stage.session)
    stored = await stage.core._store.read(lambda connection: connection.execute(select(RUN.c.options)).scalars().all())
    assert [SECRET.encode() in (options or b"") for options in stored] == [True, False]
