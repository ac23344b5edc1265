"""Agents with many tools: what the model is offered of them, and that their calls are calls like any other."""

import asyncio
from typing import Any

import msgspec
import pytest
import structlog

from agent_core.agent.snapshot import RULES
from agent_core.agents import ROUTER_TOOLS, Controls, Definition
from agent_core.channels import Inbound
from agent_core.errors import InvalidInput
from agent_core.events import MessageCompleted, ToolCompleted, ToolRequested, ToolStarted
from agent_core.messages import Actor, Text, ToolCall
from agent_core.testing import ScriptedProvider, call, raw_call, say
from agent_core.tools.base import Tool
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.routing import SHOP, Growing, by_name, ends, names, played, shop_tool, stage_of, use
from tests.agent_core.scenes import ANN
from tests.agent_core.stage import PATIENCE, Stage, restart, results
from tests.conftest import MakeCore


async def test_sixty_tools_are_reached_through_three(make_core: MakeCore):
    """The model finds a resource, opens it and calls a tool of it; the call is recorded as one of that tool."""
    stage = await stage_of(
        make_core, call("list_resources", query="orders"), use("order"), by_name("get_order", id=7), say("Fine.")
    )
    assert await played(stage) == "Fine."
    assert [request for request in stage.provider.requests if names(request) != list(ROUTER_TOOLS)] == []
    found, shown, got = await ends(stage)
    assert found[0] == shown[0] == "done"
    assert "- order: " in found[1]
    assert '"name":"get_order","description":"Do something in the shop."' in shown[1]
    assert got == ("done", "get_order 7 is fine")
    asked = [(r.name, r.via, r.title, r.arguments) for r in await stage.said(ToolRequested)]
    assert asked == [
        ("list_resources", None, "Looking for the right tool", {"query": "orders"}),
        ("use_resource", None, "Getting tools ready", {"name": "order"}),
        ("get_order", "call_tool", None, {"id": 7}),
    ]
    wrote = [part for said in await stage.said(MessageCompleted) for part in said.parts if isinstance(part, ToolCall)]
    assert (wrote[-1].name, wrote[-1].arguments) == ("call_tool", {"name": "get_order", "arguments": {"id": 7}})
    assert results(stage.provider.requests[-1])[-1].call == wrote[-1].call


async def test_the_same_conversation_ends_the_same_without_a_router(make_core: MakeCore):
    """The facts of the inner calls are those of plain calls, but for `via`."""
    routed = await stage_of(make_core, use("order"), by_name("create_order", id=7), by_name("get_order"), say("Made."))
    await routed.core.agents.create(
        Definition(name="plain", instructions="Be brief.", tools=tuple(t.spec.name for t in SHOP), router="off")
    )
    plain = Stage(routed.core, routed.provider, (await routed.core.open_session(agent="plain", actor=ANN)).id)
    assert await played(routed) == "Made."
    routed.provider._script = [*[()] * 4, (call("create_order", id=7),), (call("get_order"),), (say("Made."),)]
    assert await played(plain) == "Made."
    ends_seen = []
    for stage in (routed, plain):
        facts = [fact.body for fact in await stage.log()]
        asked = {body.call: body.name for body in facts if isinstance(body, ToolRequested)}
        ends_seen.append(
            [
                (body.type, asked[body.call], *_rest(body))
                for body in facts
                if isinstance(body, ToolRequested | ToolStarted | ToolCompleted)
                and asked[body.call] not in ROUTER_TOOLS
            ]
        )
    assert ends_seen[0] == ends_seen[1]
    assert len(names(routed.provider.requests[-1])) == 60


def _rest(body: Any) -> tuple[Any, ...]:
    match body:
        case ToolRequested():
            return (body.arguments, body.index)
        case ToolCompleted():
            return (body.outcome, body.parts)
        case _:
            return ()


async def test_a_tool_of_a_resource_that_is_not_open_is_refused(make_core: MakeCore):
    """The model reads which resource to open, and its second try is run; the next message opens again."""
    stage = await stage_of(
        make_core,
        by_name("get_order"),
        (use("order"), by_name("get_order")),
        by_name("get_customer"),
        say("Fine."),
        by_name("get_order"),
        say("Again."),
    )
    assert await played(stage) == "Fine."
    assert await played(stage) == "Again."
    ends_seen = await ends(stage)
    assert [outcome for outcome, _ in ends_seen] == ["failed", "done", "done", "failed", "failed"]
    for place, noun in ((0, "order"), (3, "customer"), (4, "order")):
        assert f'Call `use_resource` with {{"name": "{noun}"}} first' in ends_seen[place][1]


async def test_a_name_that_no_tool_has_gets_the_likely_one(make_core: MakeCore):
    """An unknown name fails with the most similar one and without sixty others; `call_tool` calls no `call_tool`."""
    stage = await stage_of(
        make_core,
        by_name("get_ordr"),
        use("ordr"),
        by_name("call_tool"),
        call("call_tool", name="get_order", id=3),
        raw_call("call_tool", "{"),
        say("Fine."),
    )
    await played(stage)
    ends_seen = await ends(stage)
    assert {outcome for outcome, _ in ends_seen} == {"failed"}
    unknown, resource, itself, unfit, raw = (text for _, text in ends_seen)
    assert unknown == "There is no tool `get_ordr` (did you mean `get_order`?). `list_resources` finds tools by words."
    assert "(did you mean `order`?)" in resource
    assert itself == "Name the tool that you want to call, not `call_tool`."
    assert unfit == "The arguments do not fit the schema of `call_tool`: $.id: there is no such property."
    assert "no JSON object" in raw
    assert [request.via for request in await stage.said(ToolRequested)] == ["call_tool", *[None] * 4]


async def test_arguments_that_do_not_fit_name_their_path(make_core: MakeCore):
    """The inner tool's own schema is checked, and the model may try again."""
    stage = await stage_of(
        make_core, use("order"), by_name("get_order", id="seven"), by_name("get_order", id=7), say("Fine.")
    )
    await played(stage)
    _, unfit, fit = await ends(stage)
    assert unfit[0] == "failed"
    assert "`get_order`: $.id" in unfit[1]
    assert fit == ("done", "get_order 7 is fine")


async def test_the_third_identical_inner_call_ends_the_run(make_core: MakeCore):
    """The doom loop sees the inner calls, however they were asked for."""
    stage = await stage_of(make_core, use("order"), *[by_name("get_order", id=7)] * 3)
    run = await stage.play()
    check_log(await stage.log())
    assert run.error is not None
    assert (run.status, run.error.code) == ("failed", "doom_loop")
    assert "`get_order`" in run.error.message


async def test_pinned_tools_and_the_contract_stay(make_core: MakeCore):
    """A pinned tool is in the prompt beside the router's, and Parley's rules are those of an agent without tools."""
    pinned = shop_tool("get_help")
    object.__setattr__(pinned, "spec", msgspec.structs.replace(pinned.spec, pinned=True))
    stage = await stage_of(make_core, call("get_help"), by_name("get_help"), say("Fine."), tools=(*SHOP, pinned))
    await played(stage)
    assert names(stage.provider.requests[0]) == ["call_tool", "get_help", "list_resources", "use_resource"]
    assert stage.provider.requests[0].snapshot.shared == f"{RULES}\n\nBe brief."
    assert [outcome for outcome, _ in await ends(stage)] == ["done", "done"]


async def test_a_restarted_process_shows_what_was_frozen(make_core: MakeCore):
    """What `use_resource` shows of a session is its snapshot's, whatever the tools say by now."""
    stage = await stage_of(make_core, say("Hello."))
    await played(stage)
    await stage.core.stop(grace=1.0)
    newer = tuple(_redescribed(each) for each in SHOP)
    provider = ScriptedProvider([(use("order"),), (by_name("get_order", id=1),), (say("Fine."),)])
    stage = Stage(await make_core(provider, tools=newer), provider, stage.session)
    assert await played(stage) == "Fine."
    shown, got = await ends(stage)
    assert "Do something in the shop." in shown[1]
    assert "Else." not in shown[1]
    assert got == ("done", "get_order 1 is fine")


def _redescribed(made: Tool) -> Tool:
    other = shop_tool(made.spec.name)
    object.__setattr__(other, "spec", msgspec.structs.replace(other.spec, description="Else."))
    return other


@pytest.mark.parametrize("attached", [True, False])
async def test_a_tool_that_came_later_is_called_by_name(make_core: MakeCore, attached: bool):
    """What the agent's definition attaches may be called though its prompt is older; no other tool of the process."""
    growing = Growing(shop_tool("mcp__shop__get_order"))
    provider = ScriptedProvider([(say("Hello."),), (by_name("mcp__shop__get_cart", id=2),), (say("Fine."),)])
    core = await make_core(provider, tools=(), definition={"tools": ()})
    core.agents._toolset = core._segments._toolset = growing
    await core.agents.create(Definition(name="clerk", instructions="", tools=("mcp__shop__*",)))
    stage = Stage(core, provider, (await core.open_session(agent="clerk", actor=ANN)).id)
    await played(stage)
    assert names(provider.requests[0]) == ["call_tool", "mcp__shop__get_order"]
    late = shop_tool("mcp__shop__get_cart" if attached else "mcp__bank__get_cart")
    growing.known[late.spec.name] = late
    await played(stage)
    assert provider.prefixes[1].startswith(provider.prefixes[0])
    ((outcome, text),) = await ends(stage)
    assert (outcome, "no tool" in text) == (("done", False) if attached else ("failed", True))


async def test_a_later_tool_that_is_gone_after_a_crash_may_have_run(make_core: MakeCore):
    """Nothing is known any more of a call that had started: the model reads that its outcome is unknown."""
    began = asyncio.Event()

    @tool(name="mcp__shop__get_cart", effect="write")
    async def cart() -> str:
        """Empty the cart."""
        began.set()
        await asyncio.Event().wait()
        return "never"

    provider = ScriptedProvider([(by_name("mcp__shop__get_cart"),)])
    core = await make_core(provider, tools=(), definition={"tools": ("mcp__shop__*",)})
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    core.agents._toolset = core._segments._toolset = Growing(cart)
    stage = Stage(core, provider, session)
    run = await stage.send()
    async with asyncio.timeout(PATIENCE):
        await began.wait()
    stage = await restart(make_core, stage, [(say("Well."),)])
    assert (await stage.done(run)).text == "Well."
    ((outcome, _),) = await ends(stage)
    assert outcome == "unknown"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"router": "native", "tools": ("search_tools",)}, "tools[0]"),
        ({"tool_limit": -1}, "tool_limit"),
        ({"tool_limit": 1_001}, "tool_limit"),
        ({"controls": Controls(active_tools=("call_tool",))}, "controls.active_tools"),
    ],
)
async def test_a_definition_that_cannot_work_is_refused(make_core: MakeCore, fields: dict[str, Any], path: str):
    """A name of the router's, a limit out of bounds, and the router's tools where there is none: with the field."""
    core = await make_core(tools=(*SHOP[:2], shop_tool("search_tools")), definition={"tools": ()})
    with pytest.raises(InvalidInput) as refused:
        await core.agents.create(Definition(**{"name": "b", "instructions": "", "tools": ("get_order",), **fields}))
    assert refused.value.path == path


async def test_a_native_router_that_the_model_has_not_is_said_once_and_is_meta(make_core: MakeCore):
    """The agent is stored, a warning names the remedy, and its prompt has the three tools."""
    with structlog.testing.capture_logs() as logs:
        stage = await stage_of(make_core, say("Fine."), router="native")
        assert await played(stage) == "Fine."
    assert [log["agent"] for log in logs if log["event"] == "agent.router_not_native"] == ["assistant"]
    assert names(stage.provider.requests[0]) == list(ROUTER_TOOLS)


async def test_the_routers_names_are_its_own(make_core: MakeCore):
    """An agent cannot name a tool of its own like one of the router's."""
    core = await make_core(tools=(shop_tool("call_tool"),), definition={"tools": ()})
    with pytest.raises(InvalidInput, match="name of the router's"):
        await core.agents.create(Definition(name="b", instructions="", tools=("call_tool",)))


async def test_a_message_in_the_middle_keeps_what_is_open(make_core: MakeCore):
    """A message that is steered into a run closes nothing: the run works at both."""
    stage = await stage_of(make_core, use("order"), by_name("get_order"), say("Fine."))
    run = await stage.send()
    await stage.core.receive(stage.session, Inbound(parts=(Text("And?"),), actor=Actor("bob", "user"), overlap="steer"))
    await stage.done(run)
    assert ("done", "get_order 0 is fine") in await ends(stage)
