"""Matchers of hooks: one that fits no tool of its agent would guard nothing."""

from typing import Any

import pytest
import structlog

from agent_core.agents import DeclaredTool, Definition, Hook
from agent_core.errors import InvalidInput
from agent_core.hooks.rules import check_matchers
from tests.cases import for_each

WHERE = DeclaredTool(name="where", kind="client", description="Where.", parameters={"type": "object"})
TOOLS = ("calculate", "send_mail", WHERE)


def agent(*matchers: str | None, tools: tuple[Any, ...] = TOOLS) -> Definition:
    """Return an agent with an approval for each of *matchers*."""
    hooks = tuple(Hook(event="PreToolUse", type="approval", matcher=matcher) for matcher in matchers)
    return Definition(name="careful", instructions="Be brief.", tools=tools, hooks=hooks)


@for_each(
    "matcher, likely",
    [
        ("calculat", "calculate"),
        ("Calculate", "calculate"),
        ("calculate ", "calculate"),
        ("send", "send_mail"),
        ("current_time", None),
    ],
)
def test_a_name_that_is_no_tool_of_the_agent_is_refused(matcher: str, likely: str | None) -> None:
    """A mistyped name is refused with its path and the tools that there are, as its hook would never be asked."""
    with pytest.raises(InvalidInput) as refused:
        check_matchers(agent("calculate", matcher))
    assert refused.value.path == "hooks[1].matcher"
    meant = f" (did you mean `{likely}`?)" if likely else ""
    assert refused.value.message == (
        f"the agent has no tool `{matcher}`{meant}; its tools are: `calculate`, `send_mail`, `where`."
    )


@for_each("matcher", ["refund_*", "*_sms", "wher[abc]", "????"])
def test_a_glob_that_matches_no_tool_is_logged(matcher: str) -> None:
    """A glob may be there for tools that are yet to come; until then a warning names agent and hook."""
    with structlog.testing.capture_logs() as logs:
        check_matchers(agent("calculate", matcher))
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("hook.matches_nothing", "warning")
    assert (line["agent"], line["hook"], line["matcher"]) == ("careful", 2, matcher)


def test_matchers_that_fit_are_fine() -> None:
    """Names of the server's tools and of the agent's own, globs and no matcher at all are taken without a word."""
    with structlog.testing.capture_logs() as logs:
        check_matchers(agent("calculate", "where", "send_*", "*", "[cw]*", None))
    assert logs == []


def test_an_agent_without_tools_has_nothing_to_guard_yet() -> None:
    """Hooks may be written before the tools: adding tools that they do not match is refused then."""
    check_matchers(agent("calculate", "refund_*", tools=()))
    with pytest.raises(InvalidInput, match="`send_mail`"):
        check_matchers(agent("calculate", "refund_*", tools=("send_mail",)))
