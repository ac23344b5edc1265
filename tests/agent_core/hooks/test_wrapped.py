"""A tool under another name: the hooks of the tool that it wraps are asked too, and see its presets."""

import msgspec
import pytest

from agent_core.agents import Condition, Definition, Hook, RuleConfig, ToolDefinition
from agent_core.errors import InvalidInput
from agent_core.hooks.chain import Deny, Occasion
from agent_core.hooks.rules import rule
from agent_core.testing import ScriptedProvider, by_step, call, say
from tests.agent_core.asking import Till, asks, open_approvals, yes
from tests.agent_core.stage import ANN, Stage
from tests.conftest import MakeCore

ALIAS = ToolDefinition(
    name="pay_small", kind="python", description="Pay five.", config={"tool": "pay"}, preset={"amount": 5}
)
PAYS = by_step((say("Paying."), call("pay_small")), (say("Done."),))


async def _stage(make_core: MakeCore, till: Till, *hooks: Hook) -> Stage:
    """Return a stage whose agent has the alias, but not the tool itself, and *hooks* that name that."""
    provider = ScriptedProvider(PAYS)
    core = await make_core(provider, tools=till.tools())
    await core.tools.definitions.create(ALIAS)
    await core.agents.create(Definition(name="host", instructions="Pay.", tools=("pay_small",), hooks=hooks))
    return Stage(core, provider, (await core.open_session(agent="host", actor=ANN)).id)


async def test_the_approval_of_the_wrapped_tool_is_asked_for_and_says_the_presets(make_core: MakeCore) -> None:
    """People are asked before the alias runs, and read what the model's arguments do not say; then it runs once."""
    till = Till()
    stage = await _stage(make_core, till, asks(detail="Take care."))
    assert (await stage.play("Pay")).status == "waiting"
    (asked,) = await open_approvals(stage)
    assert (asked.tool, asked.arguments) == ("pay_small", {})
    assert asked.detail == "Take care.\npay_small runs pay.\nPreset: amount = 5"
    await stage.core.approvals.decide(yes(asked.id))
    assert ((await stage.done(asked.run)).status, till.paid) == ("completed", [5])


async def test_a_rule_of_the_wrapped_tool_sees_the_presets(make_core: MakeCore) -> None:
    """A rule that denies by an argument denies it when it is preset."""
    till = Till()
    config = {"conditions": [{"field": "arguments.amount", "operator": "GREATER_THAN", "value": 4}]}
    stage = await _stage(make_core, till, Hook(event="PreToolUse", type="rule", matcher="pay", config=config))
    assert ((await stage.play("Pay")).status, till.paid) == ("completed", [])


async def test_a_condition_on_the_tool_holds_for_the_wrapped_one() -> None:
    """A rule without a matcher that names the tool in a condition denies the alias too."""
    config = RuleConfig(conditions=(Condition("tool", "EQUALS", "pay"),))
    occasion = Occasion(
        event="PreToolUse", hook="h", agent="a", session="s", run="r", channel="api", actor=None, tool="pay_small"
    )
    assert await rule(config, occasion) is None
    assert isinstance(await rule(config, msgspec.structs.replace(occasion, wraps="pay")), Deny)


async def test_a_hook_may_name_no_tool_that_none_of_the_agent_wraps(make_core: MakeCore) -> None:
    """The tool itself is not the agent's: without the alias its name in a hook guards nothing."""
    core = await make_core(tools=Till().tools())
    with pytest.raises(InvalidInput, match="has no tool `pay`"):
        await core.agents.create(Definition(name="host", instructions="Pay.", tools=("look",), hooks=(asks(),)))
