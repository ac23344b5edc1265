"""Invalid controls are rejected where they come in: with an agent, a run, or a message."""

from typing import Any

import pytest

from agent_core.agents import Controls, DeclaredTool
from agent_core.controls import Budget, NamedTool, StepRule
from agent_core.errors import InvalidInput
from tests.agent_core.scenes import inbound
from tests.agent_core.stage import set_stage
from tests.agent_core.test_loop_controls import look, stop_at, write
from tests.conftest import MakeCore

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ANSWER = DeclaredTool(name="answer", kind="none", description="Answer.", parameters=SCHEMA)
PICK = DeclaredTool(name="pick", kind="client", description="Pick.", parameters={"type": "object"})


BAD: list[tuple[dict[str, Any], str]] = [
    ({"tool_choice": NamedTool("gone")}, "controls.tool_choice.tool"),
    ({"tool_choice": NamedTool("look"), "active_tools": ("write",)}, "controls.tool_choice.tool"),
    ({"tool_choice": "required", "active_tools": ()}, "controls.tool_choice"),
    ({"active_tools": ("look", "gone")}, "controls.active_tools"),
    ({"active_tools": ("look", "look")}, "controls.active_tools"),
    ({"step_rules": (StepRule(step=0, tool_choice="none"),)}, "controls.step_rules[0].step"),
    ({"step_rules": (StepRule(step=201, tool_choice="none"),)}, "controls.step_rules[0].step"),
    ({"step_rules": (StepRule(step=2, tool_choice="none"),) * 2}, "controls.step_rules[1].step"),
    ({"step_rules": (StepRule(step=2),)}, "controls.step_rules[0]"),
    ({"step_rules": (StepRule(step=2, active_tools=("gone",)),)}, "controls.step_rules[0].active_tools"),
    ({"stop_conditions": stop_at("gone")}, "controls.stop_conditions[0].tool"),
    ({"stop_conditions": stop_at("look") * 101}, "controls.stop_conditions"),
    ({"output_schema": {"type": "thing"}}, "controls.output_schema"),
    ({"budget": Budget()}, "controls.budget"),
    ({"budget": Budget(usd="0.00")}, "controls.budget.usd"),
    ({"budget": Budget(usd="-1")}, "controls.budget.usd"),
    ({"budget": Budget(usd="1e3")}, "controls.budget.usd"),
    ({"budget": Budget(tokens=0)}, "controls.budget.tokens"),
    ({"tool_context": {"token": "x" * 64_000}}, "controls.tool_context"),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("given", "path"), BAD, ids=[f"{path} {n}" for n, (_, path) in enumerate(BAD)])
async def test_invalid_controls_are_rejected_at_intake(make_core: MakeCore, given, path):
    """The field is named, for an agent as for a run, and nothing is taken in or left behind."""
    stage = await set_stage(make_core, [], tools=[look, write])
    with pytest.raises(InvalidInput) as refused:
        await stage.send(**given)
    assert refused.value.path == path
    with pytest.raises(InvalidInput) as refused:
        await stage.core.run_agent("assistant", inbound("Go", controls=Controls(**given)))
    assert refused.value.path == path
    with pytest.raises(InvalidInput) as refused:
        await stage.core.agents.update("assistant", {"controls": given})
    assert refused.value.path == path
    assert len(await stage.log()) == 2
    assert [session.id for session in (await stage.core.sessions()).items] == [stage.session]


async def test_a_call_cannot_be_required_of_an_agent_without_tools(make_core: MakeCore):
    """Where there is nothing to call, a call that must come is refused."""
    stage = await set_stage(make_core, [])
    with pytest.raises(InvalidInput, match="tool_choice"):
        await stage.send(tool_choice="required")
