"""Renders of tools: what people are shown, what the model reads, and what a hook keeps from both."""

from agent_core.agents import Hook
from agent_core.events import RenderShown, ToolCompleted
from agent_core.messages import Render, Text
from agent_core.runtime.calls import MAX_RENDER
from agent_core.testing import call, say
from agent_core.tools.base import Done, NewRender
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import Stage, set_stage, texts
from tests.conftest import MakeCore


@tool
async def draw(size: int = 1) -> NewRender:
    """Draw something."""
    return NewRender("bars", {"bars": "x" * size}, "one bar", title="Bars")


@tool
async def tell() -> Done:
    """Say what was drawn, and draw it."""
    return Done((Text("Two are drawn."),), (NewRender("bars", {}, "one"), NewRender("dots", {}, "two")))


async def stage_of(make_core: MakeCore, name: str, *hooks: Hook, **arguments: int) -> Stage:
    script = [(call(name, **arguments),), (say("Done."),)]
    stage = await set_stage(make_core, script, tools=(draw, tell), hooks=hooks)
    assert (await stage.play()).status == "completed"
    return stage


async def test_a_render_is_a_fact_before_the_end_of_its_call(make_core: MakeCore):
    """The payload is in one fact, the call's end names it, and the model reads its text."""
    stage = await stage_of(make_core, "draw")
    (shown,), (done,) = await stage.said(RenderShown), await stage.said(ToolCompleted)
    assert (shown.kind, shown.title, shown.payload, shown.text) == ("bars", "Bars", {"bars": "x"}, "one bar")
    assert shown.call == done.call
    assert done.parts == (Text("one bar"), Render(shown.render))
    assert texts(await stage.asked(2))[-1] == ("tool", "done: one bar")
    log = await stage.log()
    types = [fact.type for fact in log]
    assert types.index("tool.started") < types.index("render.shown") < types.index("tool.completed")
    check_log(log)


async def test_a_tool_that_speaks_is_read_by_its_words(make_core: MakeCore):
    """Beside a text of the tool the model does not read those of its renders."""
    stage = await stage_of(make_core, "tell")
    assert texts(await stage.asked(2))[-1] == ("tool", "done: Two are drawn.")
    assert [shown.kind for shown in await stage.said(RenderShown)] == ["bars", "dots"]
    (done,) = await stage.said(ToolCompleted)
    assert done.parts[1:] == tuple(Render(shown.render) for shown in await stage.said(RenderShown))


async def test_a_hook_that_withholds_a_result_withholds_its_renders(make_core: MakeCore):
    """A rule sees the texts of renders; what it denies is in no fact."""
    config = {"conditions": [{"field": "result", "operator": "CONTAINS", "value": "two"}], "reason": "Private."}
    stage = await stage_of(make_core, "tell", Hook(event="PostToolUse", type="rule", config=config))
    assert not await stage.said(RenderShown)
    (done,) = await stage.said(ToolCompleted)
    assert [type(part) for part in done.parts] == [Text]
    assert "drawn" not in str(done.parts)


async def test_a_render_that_is_too_large_is_its_text(make_core: MakeCore):
    """The log takes no render beyond the bound; the call is done, and the model reads the text."""
    stage = await stage_of(make_core, "draw", size=MAX_RENDER)
    assert not await stage.said(RenderShown)
    assert [done.parts for done in await stage.said(ToolCompleted)] == [(Text("one bar"),)]
