"""Uses: messages of people whose content is the output of a tool, checked before anything is stored."""

from msgspec.structs import replace

from agent_core.agents import Agent
from agent_core.channels import Inbound
from agent_core.errors import InvalidInput
from agent_core.messages import Part, ToolCall, ToolResult, used_in
from agent_core.schemas import problems
from agent_core.tools.toolset import unknown_tool


def with_uses(agent: Agent, inbound: Inbound) -> Inbound:
    """Return *inbound* with the outputs of untrusted tools marked.

    Raises `InvalidInput` for a call that *agent* cannot make. A message without tools is returned as it is.
    """
    history = tuple(replace(each, parts=_marked(agent, each.parts)) for each in inbound.history)
    parts = _marked(agent, inbound.parts)
    for used in used_in(parts):
        _check(agent, used, inbound)
    return (
        inbound
        if (parts, history) == (inbound.parts, inbound.history)
        else replace(inbound, parts=parts, history=history)
    )


def _check(agent: Agent, used: ToolCall, inbound: Inbound) -> None:
    if inbound.overlap == "steer":
        raise InvalidInput("overlap", "a message that uses a tool opens a run of its own; use another `overlap`.")
    if (spec := agent.tools.get(used.name)) is None:
        raise InvalidInput("tool_output.tool", unknown_tool(used.name, agent.tools.keys()))
    if faults := problems(spec.parameters, used.arguments):
        first, *more = (fault.within("tool_output.input") for fault in faults)
        raise InvalidInput(first.path, first.message, *more)


def _marked(agent: Agent, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return *parts* in which the results of tools that are untrusted, or not known, are marked."""
    if not any(isinstance(part, ToolResult) for part in parts):
        return parts
    names = {part.call: part.name for part in parts if isinstance(part, ToolCall)}
    return tuple(
        replace(part, untrusted=True) if isinstance(part, ToolResult) and _is_untrusted(agent, names, part) else part
        for part in parts
    )


def _is_untrusted(agent: Agent, names: dict[str, str], result: ToolResult) -> bool:
    spec = agent.tools.get(names.get(result.call, ""))
    return spec is None or spec.untrusted
