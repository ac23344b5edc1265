"""Tools that a search of ours loads (`router: native`): on the wires that take them, and on the one that does not."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from agent_core.agents import Compaction, Definition, Hook, Limits
from agent_core.events import (
    CacheMissed,
    ContextAdded,
    SnapshotFrozen,
    StepCompleted,
    StepFailed,
    ToolCompleted,
    ToolRequested,
)
from agent_core.messages import CallOutcome, LoadedTool, Message, Native, Text, ToolResult
from agent_core.providers.anthropic import encoder_of
from agent_core.providers.openai import encode
from agent_core.testing import FakeClock, call, fail, say, think
from tests.agent_core.providers.contract.searching import FIND, NATIVE, played, set_shop, tools_of
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES, RESPONSES
from tests.agent_core.routing import SHOP, Growing, by_name, ends, shop_tool
from tests.agent_core.stage import ANN
from tests.cases import for_each

pytestmark = pytest.mark.whole


@NATIVE
async def test_the_model_finds_tools_and_calls_them_by_their_names(scene: Any, wire: Any):
    """What the search found is called directly, in later messages too, and each request begins with the one before."""
    stage = await set_shop(
        scene, wire, FIND, call("create_order", id=7), say("Made."), call("create_order", id=8), say("Again.")
    )
    assert await played(stage) == "Made."
    assert await played(stage) == "Again."
    found, *made = await ends(stage)
    assert '"name":"create_order"' in found[1]
    assert made == [("done", "create_order 7 is fine"), ("done", "create_order 8 is fine")]
    assert [(each.name, each.via) for each in await stage.said(ToolRequested)] == [
        ("search_tools", None),
        ("create_order", None),
        ("create_order", None),
    ]
    requests = stage.requests
    assert len(requests) == 5
    assert [(before, later) for before, later in pairwise(requests) if later[: len(before)] != before] == []
    tools = [msgspec.json.encode(tools_of(asked)) for asked in stage.line.models.asked]
    assert len(set(tools)) == 1
    (end, *_) = await stage.said(ToolCompleted)
    assert len(end.loaded) == 5
    assert end.loaded[0].name == "create_order"


async def test_anthropic_gets_all_tools_deferred_and_references(scene: Any):
    """The tools beside the prompt carry no cache mark and are not in the cache; a result refers to those it found."""
    stage = await set_shop(
        scene, MESSAGES, FIND, call("create_order"), say("Made."), operating_contract="", instructions=""
    )
    await played(stage)
    first, second, _ = stage.line.models.asked
    prompt, deferred = tools_of(first)[:2], tools_of(first)[2:]
    assert [tool["name"] for tool in prompt] == ["call_tool", "search_tools"]
    assert "cache_control" in prompt[-1]
    assert {tool["name"] for tool in deferred} == {tool.spec.name for tool in SHOP}
    assert [tool for tool in deferred if not (tool["defer_loading"] and "cache_control" not in tool)] == []
    (result,) = second.body["messages"][-1]["content"]
    assert {"type": "tool_reference", "tool_name": "create_order"} in result["content"]
    assert {each["type"] for each in result["content"]} == {"tool_reference"}


async def test_openai_gets_a_search_of_the_clients_and_what_it_loaded(scene: Any):
    """The list has the search alone, and the answer to it the definitions; the call's other items stay as they came."""
    stage = await set_shop(scene, RESPONSES, (think("Hm."), FIND), call("create_order"), say("Made."))
    await played(stage)
    first, second, _ = stage.line.models.asked
    assert [(tool["type"], tool.get("name")) for tool in tools_of(first)] == [
        ("function", "call_tool"),
        ("tool_search", None),
    ]
    assert tools_of(first)[1]["execution"] == "client"
    reasoning, asked, answer = second.body["input"][-3:]
    assert (reasoning["type"], asked["type"], answer["type"]) == ("reasoning", "tool_search_call", "tool_search_output")
    assert asked["arguments"] == {"query": "create an order"}
    assert answer["call_id"] == asked["call_id"]
    assert answer["tools"][0]["name"] == "create_order"
    assert [tool for tool in answer["tools"] if not (tool["defer_loading"] and tool["strict"] is False)] == []


@NATIVE
@pytest.mark.parametrize(
    ("router", "script"),
    [
        ("native", (FIND, call("create_order", id=7))),
        ("meta", (call("use_resource", name="order"), by_name("create_order", id=7))),
        ("off", (call("create_order", id=7),)),
    ],
)
async def test_the_same_conversation_ends_the_same_on_each_router(scene: Any, wire: Any, router: str, script: Any):
    """The facts of the inner call do not tell how the tool was found, but for `via`."""
    stage = await set_shop(scene, wire, *script, say("Made."), router=router)
    assert await played(stage) == "Made."
    (asked,) = [each for each in await stage.said(ToolRequested) if each.name == "create_order"]
    (end,) = [each for each in await stage.said(ToolCompleted) if each.call == asked.call]
    assert (asked.arguments, asked.index, asked.raw) == ({"id": 7}, 0, None)
    assert (end.outcome, end.parts, end.loaded) == ("done", (Text("create_order 7 is fine"),), ())


@NATIVE
async def test_a_tool_that_no_search_found_is_refused_with_a_hint(scene: Any, wire: Any):
    """The model reads what to search for, and its next try runs; so by `call_tool`."""
    stage = await set_shop(
        scene,
        wire,
        call("get_order"),
        by_name("get_order"),
        call("search_tools", query="get_order", limit=1),
        by_name("get_order", id=1),
        call("get_ordr"),
        say("Fine."),
    )
    await played(stage)
    first, named, _, got, unknown = await ends(stage)
    assert first == named
    assert first[0] == "failed"
    assert 'Call `search_tools` with {"query": "get_order"} first' in first[1]
    assert got == ("done", "get_order 1 is fine")
    assert unknown[1] == "There is no tool `get_ordr` (did you mean `get_order`?). `search_tools` finds tools by words."


@NATIVE
async def test_hooks_see_the_tools_and_not_the_search(scene: Any, wire: Any):
    """A rule for all tools holds for the inner one, and is not asked about the search."""
    conditions = [{"field": "actor.id", "operator": "EQUALS", "value": ANN.id}]
    deny = Hook(
        event="PreToolUse",
        type="rule",
        matcher="*",
        config={"conditions": conditions, "decision": "deny", "reason": "Not today."},
    )
    stage = await set_shop(scene, wire, FIND, call("create_order"), say("Well."), hooks=(deny,))
    await played(stage)
    found, made = await ends(stage)
    assert found[0] == "done"
    assert made[0] == "denied"
    assert "Not today." in made[1]


@NATIVE
async def test_a_search_that_finds_nothing_or_is_refused_is_answered(scene: Any, wire: Any):
    """A search has its answer on each wire, whatever became of it."""
    stage = await set_shop(
        scene,
        wire,
        call("search_tools", query="zeppelin"),
        call("search_tools", limit=3),
        (FIND, call("search_tools", query="refund")),
        say("Well."),
    )
    assert await played(stage) == "Well."
    assert [outcome for outcome, _ in await ends(stage)] == ["done", "failed", "done", "done"]
    empty, failed = (asked.raw.decode() for asked in stage.line.models.asked[1:3])
    assert "query" in failed
    assert ("did not succeed" in empty, "did not succeed" in failed) == (False, wire is RESPONSES)


@NATIVE
async def test_a_choice_among_tools_reaches_them(scene: Any, wire: Any):
    """`active_tools` lets the model search, and `tool_choice` asks for a tool by its name."""
    stage = await set_shop(
        scene,
        wire,
        FIND,
        (call("create_order"), call("update_order")),
        say("Made."),
        by_name("get_order", id=2),
        say("Got."),
    )
    assert await played(stage, active_tools=("create_order",)) == "Made."
    assert [outcome for outcome, _ in await ends(stage)] == ["done", "done", "denied"]


@pytest.mark.parametrize(
    ("wire", "model"), [(CHAT, None), (MESSAGES, "anthropic:claude-opus-4-1"), (RESPONSES, "openai:gpt-5.2")]
)
async def test_a_model_that_loads_nothing_has_the_routers_three_tools(scene: Any, wire: Any, model: str | None):
    """A compatible server, and a model that is not known to load tools, are asked as with `meta`."""
    script = (call("use_resource", name="order"), by_name("create_order", id=7), say("Made."))
    stage = await set_shop(scene, wire, *script, model=model)
    assert await played(stage) == "Made."
    named = [tool.get("name") or tool["function"]["name"] for tool in tools_of(stage.line.models.asked[0])]
    assert named == ["call_tool", "list_resources", "use_resource"]


@pytest.mark.parametrize(("wire", "other"), [(MESSAGES, CHAT), (RESPONSES, CHAT), (MESSAGES, RESPONSES)])
async def test_a_fallback_on_another_wire_reads_what_was_found(scene: Any, dial: Any, wire: Any, other: Any):
    """A model that takes over reads the definitions as text, and calls the tools by `call_tool`."""
    stand_in = await dial(other, [(by_name("create_order", id=7),), (say("Made."),)])
    stage = await set_shop(scene, wire, FIND, fail("auth"), stand_in=stand_in, fallback_models=(other.full,))
    assert await played(stage) == "Made."
    assert ("done", "create_order 7 is fine") in await ends(stage)
    assert '\\"name\\":\\"create_order\\"' in stand_in.models.asked[0].raw.decode()


@NATIVE
async def test_a_restarted_process_sends_the_same_bytes(scene: Any, wire: Any):
    """What was loaded is folded from the log again."""
    stage = await set_shop(
        scene, wire, FIND, call("create_order", id=7), say("Made."), call("create_order"), say("Yes.")
    )
    await played(stage)
    before = stage.requests[-1]
    await stage.core.stop(grace=1.0)
    again = await scene(wire, line=stage.line, session=stage.session, tools=SHOP)
    assert await played(again) == "Yes."
    assert again.requests[3][: len(before)] == before
    assert (await ends(again))[-1] == ("done", "create_order 0 is fine")


@NATIVE
async def test_each_request_reads_the_cache_of_the_one_before(scene: Any, wire: Any):
    """What a search loads comes after what is cached: nothing is written twice, and no miss is noted."""
    rules = "Be brief, and say nothing that is not known. " * 200
    stage = await set_shop(
        scene,
        wire,
        FIND,
        call("create_order"),
        say("Made."),
        call("create_order", id=2),
        say("Yes."),
        instructions=rules,
    )
    await played(stage)
    await played(stage)
    steps = [step.usage for step in await stage.said(StepCompleted)]
    reads = [usage.cache_read or 0 for usage in steps]
    wrote = [(usage.cache_write_short or 0) + (usage.cache_write_long or 0) for usage in steps]
    assert reads[0] == 0 < wrote[0]
    assert reads[1:] == [read + written for read, written in zip(reads, wrote, strict=True)][:-1]
    assert await stage.said(CacheMissed) == []


@NATIVE
async def test_the_prefix_stays_while_tools_come_and_go(scene: Any, wire: Any):
    """A tool that came later is announced by a note and called by `call_tool`; the list stays as it is frozen."""
    growing = Growing(*(shop_tool(f"mcp__shop__{verb}_order") for verb in ("get", "list", "create")))
    script = (
        FIND,
        call("mcp__shop__create_order", id=1),
        say("Made."),
        by_name("mcp__shop__get_cart", id=2),
        say("Yes."),
    )
    stage = await set_shop(scene, wire, *script, tools=())
    core = stage.core
    core.agents._toolset = core._segments._toolset = growing
    core._segments.sources._notes._toolset = growing
    fields = {"tools": ("mcp__shop__*",), "router": "native", "tool_limit": 0}
    await core.agents.create(Definition(name="clerk", instructions="", **fields))
    stage.session = (await core.open_session(agent="clerk", actor=ANN)).id
    await played(stage)
    growing.known["mcp__shop__get_cart"] = shop_tool("mcp__shop__get_cart")
    del growing.known["mcp__shop__list_order"]
    await played(stage)
    assert [outcome for outcome, _ in await ends(stage)] == ["done"] * 3
    (note,) = [added.text for added in await stage.said(ContextAdded)]
    assert "gone, calls of them fail: mcp__shop__list_order." in note
    assert "mcp__shop__get_cart" in note
    requests = stage.requests
    assert [(before, later) for before, later in pairwise(requests) if later[: len(before)] != before] == []
    assert len({msgspec.json.encode(tools_of(asked)) for asked in stage.line.models.asked}) == 1


@NATIVE
async def test_another_prompt_has_what_was_found_as_text(scene: Any, wire: Any):
    """A conversation that takes up the agent without the search sends no reference to tools that are not there."""
    clock = FakeClock()
    script = (FIND, call("create_order", id=1), say("Made."), say("Yes."))
    stage = await set_shop(scene, wire, *script, clock=clock, idle_refreeze_s=60)
    await played(stage)
    await stage.core.agents.update("assistant", {"router": "meta"})
    clock.advance(3_600)
    assert await played(stage) == "Yes."
    assert [frozen.reason for frozen in await stage.said(SnapshotFrozen)] == ["opened", "idle"]
    last = stage.line.models.asked[-1]
    assert not any(word in last.raw for word in (b"tool_reference", b"tool_search", b"defer_loading"))
    assert b'\\"name\\":\\"create_order\\"' in last.raw


@NATIVE
async def test_what_left_the_window_is_searched_for_again(scene: Any, wire: Any):
    """After a cut the model has not read the tools any more, and is asked to search."""
    stage = await set_shop(
        scene,
        wire,
        FIND,
        say("Found."),
        say("Hello."),
        call("create_order"),
        FIND,
        say("Well."),
        limits=Limits(4),
        compaction=Compaction(kind="cut"),
    )
    for _ in range(3):
        await played(stage)
    assert [outcome for outcome, _ in await ends(stage)] == ["done", "failed", "done"]
    assert not await stage.said(StepFailed)


@for_each("native", [True, False])
@for_each("outcome", ["done", "denied"])
def test_what_answers_a_search_by_responses(native: bool, outcome: CallOutcome):
    """The model's own search has its own kind of answer, whatever became of it; after a summary it is a text."""
    loaded = (LoadedTool("get_order", "Get it.", {"type": "object"}),) if outcome == "done" else ()
    result = ToolResult("call_1", outcome, (Text("Definitions."),), loaded=loaded)
    own = Native(RESPONSES.full, calls=("tool_search:call_x",)) if native else None
    item, *notes = msgspec.json.decode(b"[%s]" % encode(RESPONSES.full, Message("tool", (result,), own), {}))
    assert ["Definitions." in str(each) for each in notes] == [True] * (native and outcome == "denied")
    if native:
        assert (item["type"], item["call_id"]) == ("tool_search_output", "call_x")
        assert [tool["name"] for tool in item["tools"]] == [tool.name for tool in loaded]
    else:
        assert (item["type"], item["call_id"]) == ("function_call_output", "call_1")
        assert "Definitions." in item["output"]


def test_what_answers_a_search_by_messages():
    """References stand for the text where the model loads tools, and the text where it does not."""
    loaded = (LoadedTool("get_order", "Get it.", {"type": "object"}),)
    message = Message("tool", (ToolResult("call_1", "done", (Text("Definitions."),), loaded=loaded),))
    for model, content in (
        ("claude-sonnet-5-5", {"type": "tool_reference", "tool_name": "get_order"}),
        ("claude-opus-4-1", {"type": "text", "text": "Definitions."}),
    ):
        (result,) = msgspec.json.decode(encoder_of(f"anthropic:{model}")(message, {}))["content"]
        assert result["content"] == [content]
