"""What is said of a field that is not there."""

from typing import Any

import msgspec
import pytest

from agent_core.agents import ApprovalConfig, Definition
from agent_core.channels import misfit, unknown_field
from tests.cases import for_each

AGENT = {"name": "a", "instructions": "b"}


@for_each(
    "given, where, why",
    [
        (
            {"limits": {"max_run": 3}},
            "limits",
            "unknown field `max_run`; did you mean `max_runs`? Known: `max_context_",
        ),
        ({"limits": {"visitor": {"sessions": 3}}}, "limits.visitor", "did you mean `sessions_per_day`? Known: `mess"),
        ({"hooks": [{"typ": "rule"}]}, "hooks[0]", "unknown field `typ`; did you mean `type`? Known: `event`, `type`"),
        (
            {"tools": ["x", {"descr": "y"}]},
            "tools[1]",
            "unknown field `descr`; did you mean `description`? Known: `name`",
        ),
        (
            {"controls": {"step_rules": [{"tool": "x"}]}},
            "controls.step_rules[0]",
            "unknown field `tool`. Known: `tool_c",
        ),
        ({"x" * 99: 1}, "", f"unknown field `{'x' * 50}`. Known: `name`, `instructions`, `model`"),
        ({"name": 1}, "name", "Expected `str`, got `int`"),
    ],
)
def test_an_unknown_field_comes_with_the_known_ones(given: dict[str, Any], where: str, why: str):
    """At any depth the likely field is named, and those that are known there; other faults are said as they are."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({**AGENT, **given}, Definition)
    found = misfit(caught.value, Definition)
    assert found[0] == where
    assert why in found[1]


def test_fields_of_other_types_are_known_too():
    """The config of a hook is read by its type, and so are its mistakes."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"respnders": []}, ApprovalConfig)
    assert "did you mean `responders`?" in misfit(caught.value, ApprovalConfig)[1]


def test_where_nothing_is_known_that_is_said():
    """A place without fields knows none."""
    assert unknown_field("a", ()) == "unknown field `a`. Known: none."
