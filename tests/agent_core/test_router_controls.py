"""Hooks, approvals, controls, clients and people with a router: they mean the tools, however a model calls them."""

import pytest

from agent_core.agents import ROUTER_TOOLS, DeclaredTool, Hook
from agent_core.channels import Inbound
from agent_core.controls import UNABLE, HasToolCall, NamedTool, StepRule
from agent_core.events import ApprovalRequested, HookRuled, StepStarted, ToolPending, ToolRequested
from agent_core.messages import ToolCall, text_of
from agent_core.runtime.segments import ToolOutput
from agent_core.testing import call, say
from tests.agent_core.asking import asks, yes
from tests.agent_core.laws import check_log
from tests.agent_core.routing import by_name, ends, played, stage_of, use
from tests.agent_core.scenes import ANN
from tests.agent_core.stage import results, texts
from tests.conftest import MakeCore

NEVER = [{"field": "tool", "operator": "EQUALS", "value": "never"}]


async def test_hooks_and_approvals_see_the_inner_tool(make_core: MakeCore):
    """People are asked about the tool that is meant, with its arguments; an approved call runs once."""
    stage = await stage_of(
        make_core, use("order"), by_name("delete_order", id=7), say("Gone."), hooks=(asks("delete_*"),)
    )
    run = await stage.play()
    (asked,) = await stage.said(ApprovalRequested)
    assert (run.status, asked.tool, asked.arguments) == ("waiting", "delete_order", {"id": 7})
    frozen = await stage.core.approvals.tool(asked.approval)
    assert frozen is not None
    assert frozen.parameters["properties"]["id"]["type"] == "integer"
    await stage.core.approvals.decide(yes(asked.approval))
    assert (await stage.done(run.id)).text == "Gone."
    check_log(await stage.log())
    assert (await ends(stage))[-1] == ("done", "delete_order 7 is fine")
    assert [ruled.hook for ruled in await stage.said(HookRuled)] == [asked.hook]


async def test_no_hook_is_asked_about_the_routers_own_tools(make_core: MakeCore):
    """A hook for every tool is asked about the tool that is meant alone, as without a router."""
    hook = Hook(event="PreToolUse", type="rule", config={"conditions": NEVER, "decision": "deny"})
    stage = await stage_of(
        make_core, call("list_resources"), use("order"), by_name("get_order"), say("Fine."), hooks=(hook,)
    )
    await played(stage)
    (ruled,) = await stage.said(HookRuled)
    assert ruled.call == (await stage.said(ToolRequested))[-1].call


async def test_a_refused_call_asks_no_people(make_core: MakeCore):
    """A call outside what is open is refused before any hook hears of it."""
    stage = await stage_of(make_core, by_name("delete_order"), say("Well."), hooks=(asks("delete_*"),))
    assert await played(stage) == "Well."
    assert not await stage.said(ApprovalRequested)


async def test_active_tools_hold_for_inner_tools(make_core: MakeCore):
    """`active_tools` names the tools that are meant: the router's come along, and any other is refused."""
    stage = await stage_of(make_core, use("order"), by_name("delete_order"), by_name("get_order"), say("Fine."))
    await played(stage, active_tools=("get_order",))
    assert [outcome for outcome, _ in await ends(stage)] == ["done", "denied", "done"]
    assert {r.controls.active_tools for r in stage.provider.requests} == {None}  # the prompt has nothing to withhold
    (started,) = [each for each in await stage.said(StepStarted) if each.controls]
    assert started.controls is not None
    assert started.controls["active_tools"] == ["get_order", *ROUTER_TOOLS]


async def test_active_tools_may_leave_the_router_out(make_core: MakeCore):
    """Where only tools of the prompt are active, the router's are not, and nothing is reached through them."""
    stage = await stage_of(make_core, by_name("get_order"), use("order"), say("Fine."))
    await played(stage, active_tools=("list_resources",))
    assert [outcome for outcome, _ in await ends(stage)] == ["denied", "denied"]
    assert stage.provider.requests[0].controls.active_tools == ("list_resources",)


async def test_a_tool_that_must_be_called_is_called_by_name(make_core: MakeCore):
    """A forced inner tool is asked for as `call_tool`, with its definition in a note, and needs no opening."""
    stage = await stage_of(make_core, by_name("get_order", id=7), say("Fine."))
    rules = (StepRule(step=1, tool_choice=NamedTool("get_order")),)
    await played(stage, step_rules=rules)
    assert stage.provider.requests[0].controls.tool_choice == NamedTool("call_tool")
    assert any(
        'Call `call_tool` now, for this tool: {"name":"get_order"' in text
        for _, text in texts(stage.provider.requests[0])
    )
    assert await ends(stage) == [("done", "get_order 7 is fine")]


async def test_a_model_that_enforces_nothing_is_asked_in_notes(make_core: MakeCore):
    """Without abilities of its API the model reads what it may call, and other calls are refused just the same."""
    stage = await stage_of(make_core, use("order"), by_name("delete_order"), say("Fine."), able=UNABLE)
    await played(stage, active_tools=("get_order",))
    said = " ".join(text for _, text in texts(stage.provider.requests[0]))
    assert "you may call `get_order`, `call_tool`, `list_resources`, `use_resource` only" in said
    assert [outcome for outcome, _ in await ends(stage)] == ["done", "denied"]


@pytest.mark.parametrize("name", ["get_order", "call_tool"])
async def test_a_run_stops_after_an_inner_call(make_core: MakeCore, name: str):
    """`has_tool_call` knows the tool that is meant, and the router's."""
    stage = await stage_of(make_core, use("order"), by_name("get_order"))
    run = await stage.play(stop_conditions=(HasToolCall(type="has_tool_call", tool=name),))
    check_log(await stage.log())
    assert (run.status, run.stop_reason) == ("completed", "stop_condition")


async def test_a_client_runs_its_tool_as_ever(make_core: MakeCore):
    """A call for the client waits under the tool's own name and arguments, and its output goes to the model."""
    where = DeclaredTool(name="get_place", kind="client", description="Where they are.", parameters={"type": "object"})
    stage = await stage_of(make_core, use("place"), by_name("get_place"), say("There."), names=(where,), tool_limit=0)
    run = await stage.play()
    (pending,) = await stage.said(ToolPending)
    assert (run.status, pending.tool, pending.arguments) == ("requires_action", "get_place", {})
    await stage.core.submit(run.id, [ToolOutput(call=pending.call, output="Bergen")])
    assert (await stage.done(run.id)).text == "There."
    assert text_of(results(stage.provider.requests[-1])[-1].parts) == "Bergen"


async def test_a_persons_message_may_use_any_tool(make_core: MakeCore):
    """A message that is a tool's output runs a routed tool: what the model has looked at is no matter of people."""
    stage = await stage_of(make_core, say("I see."))
    used = Inbound(parts=(ToolCall("call_used", "get_order", {"id": 7}),), actor=ANN)
    run = await stage.done((await stage.core.receive(stage.session, used)).run)
    assert run.text == "I see."
    assert await ends(stage) == [("done", "get_order 7 is fine")]
