"""Outputs: messages of people whose content is what a tool returned, as the model reads them. Pure."""

from collections.abc import Mapping

from agent_core.context.frames import Frames
from agent_core.domain.messages import Message, ToolCall, ToolResult


def with_outputs(message: Message, logged: Mapping[str, ToolResult | None], frames: Frames) -> Message:
    """Return *message* with the results of the tools that it had used, each in a frame; *logged* are those of the log.

    Any other message is returned as it is.
    """
    used = {part.call: part for part in message.parts if isinstance(part, ToolCall)}
    if message.role != "user" or not used:
        return message
    own = {part.call: part for part in message.parts if isinstance(part, ToolResult)}
    results = {call: own.get(call) or logged.get(call) for call in used}
    texts = (frames.output(used[call], result) for call, result in results.items() if result is not None)
    others = (part for part in message.parts if not isinstance(part, ToolCall | ToolResult))
    return Message("user", (*others, *(part for parts in texts for part in parts)))
