"""Who can show tables and charts: every agent, unless it, a run or the environment says otherwise."""

from typing import Any

import msgspec
import pytest

from agent_core.agent.snapshot import RULES, contract_of
from agent_core.agents import AgentDefaults, Controls, DeclaredTool, Definition, Hook
from agent_core.channels import Inbound
from agent_core.controls import NamedTool
from agent_core.errors import InvalidInput
from agent_core.events import RenderShown, SnapshotFrozen, ToolCompleted
from agent_core.messages import Text
from agent_core.providers.base import Request
from agent_core.runtime.segments import ToolOutput
from agent_core.testing import ScriptedProvider, call, say
from agent_core.tools.functions import tool
from agent_core.tools.render import render_tools
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN
from tests.agent_core.stage import Stage, restart
from tests.conftest import MakeCore

RENDERS = tuple(render_tools(None).values())
BOTH = ["render_chart", "render_table"]
TABLE = {"columns": ["a"], "rows": [{"a": 1}]}


@tool
async def look() -> str:
    """Look something up."""
    return "It is fine."


async def stage_of(
    make_core: MakeCore, script: Any = None, *, tools: tuple[Any, ...] = (), options: Any = None, **definition: Any
) -> Stage:
    """Open a session of an agent that names *tools*, in a process that has the render tools and `look`."""
    provider = ScriptedProvider(script or (lambda _: (say("Fine."),)))
    wanted = {"tools": tools, **definition}
    core = await make_core(provider, tools=(look, *RENDERS), definition=wanted, **(options or {}))
    return Stage(core, provider, (await core.open_session(agent="assistant", actor=ANN)).id)


def names(request: Request) -> list[str]:
    return [spec.name for spec in request.snapshot.tools]


async def prompts(stage: Stage, *runs: dict[str, Any]) -> list[list[str]]:
    """Return the tools in the prompt of a run with each of these controls."""
    for controls in runs:
        assert (await stage.play(**controls)).status == "completed"
    check_log(await stage.log())
    return [names(request) for request in stage.provider.requests]


async def test_an_agent_can_show_tables_and_charts(make_core: MakeCore):
    """Both tools are in the prompt of an agent that names none, once, with the lines that say when to use them."""
    stage = await stage_of(make_core)
    assert await prompts(stage, {}) == [BOTH]
    (request,) = stage.provider.requests
    assert request.snapshot.instructions == "Be brief."
    assert request.snapshot.contract == contract_of(None, BOTH)
    assert "`render_table`" in request.snapshot.contract


async def test_an_agent_that_names_them_has_them_once(make_core: MakeCore):
    """An agent may name a render tool among its own; it has each of them once."""
    stage = await stage_of(make_core, tools=("render_table", "look"))
    assert await prompts(stage, {}) == [["look", *BOTH]]


async def test_an_agent_may_do_without(make_core: MakeCore):
    """`include_render: false` takes both out of the prompt, and the prompt is what it was without such tools."""
    stage = await stage_of(make_core, tools=("look", "render_table"), controls=Controls(include_render=False))
    assert await prompts(stage, {}) == [["look"]]
    assert stage.provider.requests[0].snapshot.shared == f"{RULES}\n\nBe brief."


async def test_the_environment_may_do_without(make_core: MakeCore):
    """A process whose default is off adds no tool, and takes none that an agent names or asks for."""
    off = {"defaults": AgentDefaults(include_render=False)}
    stage = await stage_of(make_core, tools=("render_table",), options=off)
    assert await prompts(stage, {}, {"include_render": True}) == [["render_table"], BOTH]
    await stage.core.agents.create(
        Definition(name="shows", instructions="Show.", controls=Controls(include_render=True))
    )
    shows = Stage(stage.core, stage.provider, (await stage.core.open_session(agent="shows", actor=ANN)).id)
    await shows.play()
    assert names(stage.provider.requests[-1]) == BOTH


async def test_a_run_may_do_without_and_the_next_has_them_again(make_core: MakeCore):
    """A run's own `include_render` freezes a prompt for that run; the next one has the session's again."""
    stage = await stage_of(make_core, tools=("look",))
    found = await prompts(stage, {}, {"include_render": False}, {"include_render": True}, {})
    assert found == [["look", *BOTH], ["look"], ["look", *BOTH], ["look", *BOTH]]
    assert [frozen.reason for frozen in await stage.said(SnapshotFrozen)] == ["opened", "run", "run"]
    bodies = [msgspec.json.encode(request.snapshot) for request in stage.provider.requests]
    assert bodies[0] == bodies[2] == bodies[3]


async def test_a_run_may_show_for_an_agent_that_does_not(make_core: MakeCore):
    """A run's `include_render: true` beats the agent's `false`, for that run alone."""
    script = [(call("render_table", **TABLE),), (say("There."),), (say("Fine."),)]
    stage = await stage_of(make_core, script, controls=Controls(include_render=False))
    assert await prompts(stage, {"include_render": True}, {}) == [BOTH, BOTH, []]
    assert [shown.kind for shown in await stage.said(RenderShown)] == ["table"]


async def test_a_resumed_run_has_the_prompt_that_it_began_with(make_core: MakeCore):
    """After a restart, a run that waited for its client shows what it could show before."""
    pick = DeclaredTool(name="pick", kind="client", description="Pick.", parameters={"type": "object"})
    silent = Controls(include_render=False)
    stage = await stage_of(make_core, [(call("pick"),)], tools=(pick,), controls=silent)
    run = await stage.play(include_render=True)
    script = [(call("render_table", from_result="r1"),), (say("There."),)]
    stage = await restart(make_core, stage, script, tools=(look, *RENDERS))
    await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output=[{"a": 1}])])
    assert (await stage.done(run.id)).text == "There."
    assert names(stage.provider.requests[0]) == ["pick", *BOTH]
    assert [shown.payload["rows"] for shown in await stage.said(RenderShown)] == [[{"a": 1}]]


async def test_a_run_that_does_without_cannot_show(make_core: MakeCore):
    """A call of a tool that the run took out is refused, and the run goes on."""
    script = [(call("render_table", **TABLE),), (say("I cannot."),)]
    stage = await stage_of(make_core, script)
    assert (await stage.play(include_render=False)).text == "I cannot."
    (done,) = await stage.said(ToolCompleted)
    assert done.outcome == "denied"
    assert not await stage.said(RenderShown)


async def test_instructions_of_a_run_keep_the_contract(make_core: MakeCore):
    """A run that brings its own instructions has the lines on its tools too."""
    stage = await stage_of(make_core)
    inbound = Inbound(parts=(Text("Go"),), actor=ANN, instructions="Be loud.")
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    (request,) = stage.provider.requests
    assert (request.snapshot.contract, request.snapshot.instructions) == (contract_of(None, BOTH), "Be loud.")


async def test_a_refused_render_does_not_end_the_run(make_core: MakeCore):
    """The model reads what was wrong and calls again; people see the one that was right."""
    wrong = {"columns": ["a"], "rows": [{"a": n} for n in range(501)]}
    script = [(call("render_table", **wrong),), (call("render_table", **TABLE),), (say("There."),)]
    stage = await stage_of(make_core, script)
    assert (await stage.play()).status == "completed"
    assert [done.outcome for done in await stage.said(ToolCompleted)] == ["failed", "done"]
    assert len(await stage.said(RenderShown)) == 1
    check_log(await stage.log())


async def test_controls_may_name_the_render_tools(make_core: MakeCore):
    """A choice may require one of them, and narrow the tools to them; where they are taken out it is refused."""
    script = [(call("render_table", **TABLE),), (say("There."),)]
    stage = await stage_of(make_core, script, tools=("look",), controls=Controls(active_tools=("render_table",)))
    run = await stage.play(step_rules=())
    assert run.status == "completed"
    assert len(await stage.said(RenderShown)) == 1
    with pytest.raises(InvalidInput, match="no tool `render_table`"):
        await stage.send(tool_choice=NamedTool("render_table"), include_render=False)
    with pytest.raises(InvalidInput, match="no tool `render_table`"):
        await stage.core.agents.update(
            "assistant", {"controls": {"include_render": False, "active_tools": ["render_table"]}}
        )


async def test_the_last_step_still_answers(make_core: MakeCore):
    """An agent with these tools alone ends with `max_steps` when they were withheld, but not with a single step."""
    script = [(call("render_table", **TABLE),), (say("There."),), (say("At once."),)]
    stage = await stage_of(make_core, script)
    assert (await stage.play(max_steps=2)).stop_reason == "max_steps"
    assert (await stage.play(max_steps=1)).stop_reason == "end_turn"


async def test_a_hook_may_guard_the_render_tools(make_core: MakeCore):
    """A hook matches a render tool of an agent that does not name it, and keeps its render from people."""
    config = {"conditions": [{"field": "result", "operator": "CONTAINS", "value": "ren_"}], "reason": "Private."}
    hook = Hook(event="PostToolUse", type="rule", matcher="render_table", config=config)
    script = [(call("render_table", **TABLE),), (say("It was withheld."),)]
    stage = await stage_of(make_core, script, tools=("look",), hooks=(hook,))
    assert (await stage.play()).status == "completed"
    assert not await stage.said(RenderShown)


def test_the_contract_is_about_the_tools_that_are_there():
    """Without such tools it has its rules alone; each line is there for its tool alone."""
    assert contract_of(None, ["look"]) == RULES
    table, chart, both = (contract_of(None, given) for given in (["render_table"], ["render_chart"], BOTH))
    assert "render_chart" not in table
    assert "render_table" not in chart
    assert both.startswith(f"{RULES}\n- Show rows with `render_table`")
    assert len(both) - len(RULES) < 500


def test_a_contract_of_its_own_is_all_that_an_agent_has():
    """What an agent says itself replaces the rules and the lines for its tools; an empty text is none."""
    assert contract_of("Obey Ann.", BOTH) == "Obey Ann."
    assert contract_of(" \n", BOTH) == ""
