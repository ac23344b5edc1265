"""Agents with many tools: what the model is offered of them, and that their calls are calls like any other."""

import asyncio
from typing import Any

import msgspec
import pytest

from agent_core import (
    Actor,
    ApprovalRequested,
    Controls,
    DeclaredTool,
    Definition,
    Hook,
    HookRuled,
    Inbound,
    InvalidInput,
    MessageCompleted,
    StepStarted,
    Text,
    ToolCall,
    ToolCompleted,
    ToolOutput,
    ToolPending,
    ToolRequested,
    ToolStarted,
    text_of,
)
from agent_core.context.contract import RULES
from agent_core.domain.agents import ROUTER_TOOLS
from agent_core.domain.controls import UNABLE, HasToolCall, NamedTool, StepRule
from agent_core.providers.base import Request
from agent_core.testing import ScriptedProvider, call, raw_call, say
from agent_core.tools.base import Tool
from agent_core.tools.function import tool
from agent_core.tools.toolset import Scope
from tests.agent_core.asking import asks, yes
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN
from tests.agent_core.stage import PATIENCE, Stage, restart, results, texts
from tests.conftest import MakeCore

NEVER = [{"field": "tool", "operator": "EQUALS", "value": "never"}]
NOUNS = ("order", "customer", "invoice", "parcel", "refund", "voucher", "review", "product", "cart", "supplier")


def shop_tool(name: str, effect: Any = "read") -> Tool:
    @tool(name=name, effect=effect)
    async def made(id: int = 0) -> str:
        """Do something in the shop."""
        return f"{name} {id} is fine"

    return made


SHOP = tuple(
    shop_tool(f"{verb}_{noun}", effect)
    for noun in NOUNS
    for verb, effect in (
        ("list", "read"),
        ("get", "read"),
        ("search", "read"),
        ("create", "write"),
        ("update", "write"),
        ("delete", "write"),
    )
)


def by_name(name: str, **arguments: Any):
    return call("call_tool", name=name, arguments=arguments)


def use(name: str):
    return call("use_resource", name=name)


class Growing:
    """A toolset that gets more tools while the process runs."""

    def __init__(self, *tools: Tool) -> None:
        self.known = {each.spec.name: each for each in tools}

    async def tools(self, _scope: Scope, /) -> dict[str, Tool]:
        return dict(self.known)


async def stage_of(make_core: MakeCore, *script: Any, tools: tuple[Tool, ...] = SHOP, **definition: Any) -> Stage:
    """Open a session of an agent with *tools*, sixty if none are given, and see to it that each step is scripted."""
    options = {name: definition.pop(name) for name in ("able",) if name in definition}
    if "names" in definition:
        definition["tools"] = definition.pop("names")
    provider = ScriptedProvider([*((each,) if not isinstance(each, tuple) else each for each in script)], **options)
    core = await make_core(provider, tools=tools, definition=definition)
    return Stage(core, provider, (await core.open_session(agent="assistant", actor=ANN)).id)


async def played(stage: Stage, **controls: Any) -> str:
    """See a run through; return its answer."""
    run = await stage.play(**controls)
    check_log(await stage.log())
    assert run.status == "completed", run.error
    return run.text


async def ends(stage: Stage) -> list[tuple[str, str]]:
    """Return outcome and text of each call, in the log's order."""
    return [(end.outcome, text_of(end.parts)) for end in await stage.said(ToolCompleted)]


def names(request: Request) -> list[str]:
    return [spec.name for spec in request.snapshot.tools]


async def test_sixty_tools_are_reached_through_three(make_core: MakeCore):
    """The model finds a resource, opens it and calls a tool of it; the call is recorded as one of that tool."""
    stage = await stage_of(
        make_core, call("list_resources", query="orders"), use("order"), by_name("get_order", id=7), say("Fine.")
    )
    assert await played(stage) == "Fine."
    assert all(names(request) == list(ROUTER_TOOLS) for request in stage.provider.requests)
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
        ({"router": "native"}, "router"),
        ({"tool_limit": -1}, "tool_limit"),
        ({"tool_limit": 1_001}, "tool_limit"),
        ({"controls": Controls(active_tools=("call_tool",))}, "controls.active_tools"),
    ],
)
async def test_a_definition_that_cannot_work_is_refused(make_core: MakeCore, fields: dict[str, Any], path: str):
    """A router that is not there, a limit out of bounds, and the router's tools where there is none: with the field."""
    core = await make_core(tools=SHOP[:2])
    with pytest.raises(InvalidInput) as refused:
        await core.agents.create(Definition(**{"name": "b", "instructions": "", "tools": ("get_order",), **fields}))
    assert refused.value.path == path


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
