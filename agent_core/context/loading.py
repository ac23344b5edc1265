"""Loaded tools: what searches found beside the prompt, as long as it is in the window. Pure."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from agent_core.messages import Message, ToolResult


def loaded_in(messages: Iterable[Message]) -> frozenset[str]:
    """Return the names of the tools that searches in *messages* found."""
    return frozenset(tool.name for result in _searches(messages) for tool in result.loaded)


def unloaded(message: Message) -> Message:
    """Return *message* with what its searches found as text alone: another prompt may not have those tools."""
    if not any(_searches((message,))):
        return message
    parts = (replace(part, loaded=()) if isinstance(part, ToolResult) else part for part in message.parts)
    return replace(message, parts=tuple(parts))


def _searches(messages: Iterable[Message]) -> Iterator[ToolResult]:
    tools = (message for message in messages if message.role == "tool")
    return (part for each in tools for part in each.parts if isinstance(part, ToolResult) and part.loaded)
