"""What a tool knows of who asks: the actor, the channel, and what the channel itself says of them."""

from typing import Any

from agent_core import Actor, Controls, Inbound, Text
from agent_core.testing import call, say
from agent_core.tools.base import CallContext
from agent_core.tools.function import FunctionTool, tool
from tests.agent_core.stage import ANN, set_stage
from tests.conftest import MakeCore

BEN = Actor("ben", "user", "Ben")
SECRET = "s3cret-7"


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
