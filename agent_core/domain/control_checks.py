"""Checks of controls before a run has them; each error names its path."""

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from agent_core.domain.controls import Budget, Controls, Defaults, NamedTool, Override, is_forced, listed
from agent_core.domain.likely import hint
from agent_core.domain.structured import output_problem
from agent_core.errors import InvalidInput

MAX_STEPS = 200
MAX_TEMPERATURE = 2
MAX_CONDITIONS = 100
MAX_TOKENS = 10**12
MAX_TOOL_CONTEXT = 64_000
"""Bytes of JSON: it is stored with every run that sets it."""
USD = r"[0-9]{1,9}(\.[0-9]{1,9})?"
"""A decimal amount."""


def check(controls: Override, tools: Collection[str], at: str = "controls.") -> None:
    """Raise `InvalidInput` if an agent with *tools* cannot follow *controls*; *at* is the prefix of the field paths."""
    _check_choice(controls, tools, at)
    if isinstance(controls, Defaults):
        _check_numbers(controls, at)
        _check_rules(controls, tools, at)
        for index, condition in enumerate(controls.stop_conditions or ()):
            _check_known(f"{at}stop_conditions[{index}].tool", [condition.tool], tools)
        if len(controls.stop_conditions or ()) > MAX_CONDITIONS:
            raise InvalidInput(f"{at}stop_conditions", f"at most {MAX_CONDITIONS}.")
        if controls.output_schema is not None and (problem := output_problem(controls.output_schema)):
            raise InvalidInput(f"{at}output_schema", problem)
        if controls.budget is not None:
            _check_budget(controls.budget, f"{at}budget")
    if isinstance(controls, Controls):
        check_tool_context(controls.tool_context, at)


def check_tool_context(tool_context: Mapping[str, Any] | None, at: str = "") -> None:
    """Raise `InvalidInput` if *tool_context* is more than a run may bring for its tools."""
    if len(msgspec.json.encode(tool_context)) > MAX_TOOL_CONTEXT:
        raise InvalidInput(f"{at}tool_context", f"at most {MAX_TOOL_CONTEXT:,} bytes of JSON.")


def _check_numbers(controls: Defaults, at: str) -> None:
    if controls.max_steps is not None and not 1 <= controls.max_steps <= MAX_STEPS:
        raise InvalidInput(f"{at}max_steps", f"between 1 and {MAX_STEPS}.")
    if controls.max_output_tokens is not None and controls.max_output_tokens < 1:
        raise InvalidInput(f"{at}max_output_tokens", "at least 1.")
    if controls.temperature is not None and not 0 <= controls.temperature <= MAX_TEMPERATURE:
        raise InvalidInput(f"{at}temperature", f"between 0 and {MAX_TEMPERATURE}.")


def _check_rules(controls: Defaults, tools: Collection[str], at: str) -> None:
    steps: set[int] = set()
    for index, rule in enumerate(controls.step_rules or ()):
        path = f"{at}step_rules[{index}]."
        if not 1 <= rule.step <= MAX_STEPS:
            raise InvalidInput(f"{path}step", f"between 1 and {MAX_STEPS}: steps are counted from 1.")
        if rule.step in steps:
            raise InvalidInput(f"{path}step", f"there is a rule for step {rule.step} already; merge them.")
        if rule.tool_choice is None and rule.active_tools is None:
            raise InvalidInput(path[:-1], "set `tool_choice` or `active_tools`, or remove the rule.")
        steps.add(rule.step)
        _check_choice(rule, tools, path)


def _check_choice(controls: Override, tools: Collection[str], at: str) -> None:
    """Check that a choice names tools of the agent, and none that the same level forbids."""
    choice, active = controls.tool_choice, controls.active_tools
    if active is not None:
        _check_known(f"{at}active_tools", active, tools)
        if len(set(active)) < len(active):
            raise InvalidInput(f"{at}active_tools", "name each tool once.")
    if isinstance(choice, NamedTool):
        _check_known(f"{at}tool_choice.tool", [choice.tool], tools)
        if active is not None and choice.tool not in active:
            raise InvalidInput(f"{at}tool_choice.tool", f"`{choice.tool}` is not among the `active_tools`.")
    if is_forced(choice) and not (tools if active is None else active):
        raise InvalidInput(f"{at}tool_choice", "a call cannot be required where no tool may be called.")


def _check_known(path: str, names: Sequence[str], tools: Collection[str]) -> None:
    for name in names:
        if name not in tools:
            has = listed(sorted(tools)) or "none"
            raise InvalidInput(path, f"the agent has no tool `{name}`{hint(name, tools)}; its tools are: {has}.")


def _check_budget(budget: Budget, path: str) -> None:
    if budget.usd is None and budget.tokens is None:
        raise InvalidInput(path, "set `usd`, `tokens` or both.")
    if budget.usd is not None and (not re.fullmatch(USD, budget.usd) or not Decimal(budget.usd)):
        raise InvalidInput(f"{path}.usd", 'an amount above 0 as a decimal text, such as "0.50".')
    if budget.tokens is not None and not 1 <= budget.tokens <= MAX_TOKENS:
        raise InvalidInput(f"{path}.tokens", f"between 1 and {MAX_TOKENS}.")
