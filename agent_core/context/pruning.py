"""Placeholders: for old results of tools, which can be read again, and for what a model's provider refused. Pure."""

import re
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from agent_core.context.estimates import tokens_of_parts
from agent_core.context.frames import Frames
from agent_core.messages import CONTENT_REFUSED, FILE_REFUSED, File, Message, Part, Text, ToolCall, ToolResult

MIN_SAVING = 170
"""Tokens of a result below which a placeholder would save next to nothing; an image or a page is always beyond it."""
_READ = "was left out to make room; call it again if it is needed."
_UNREAD = (
    "was left out unread: it is too large for what can be read at once. Call fewer tools at once, or ask for less."
)
_REFUSED = {
    CONTENT_REFUSED: "the content filter of the model's provider refused it",
    FILE_REFUSED: "the model's provider could not take it",
}
_HANDLE = re.compile(r"^\[result r\d{1,9}: [^\n]*\]$", re.MULTILINE)


def prunable(message: Message) -> bool:
    """Return whether *message* has a result for which a placeholder would save something."""
    return message.role == "tool" and any(isinstance(part, ToolResult) and _is_large(part) for part in message.parts)


def pruned(message: Message, tools: Mapping[str, str], frames: Frames, *, unread: bool = False) -> Message:
    """Return *message* with placeholders for its large results; *tools* are the names by call.

    A handle of rows stays, so that the model can still pass it to other tools. Of results that are *unread* no step has
    seen anything: the same call would only bring them again.
    """
    remedy = _UNREAD if unread else _READ
    return Message(message.role, tuple(_placeholder(part, tools, frames, remedy) for part in message.parts))


def left_out(message: Message, code: str, frames: Frames, files: Collection[str] = ()) -> Message:
    """Return *message* with notes for what a provider refused as *code*: these *files* of it, or all."""

    def noted(what: str) -> Text:
        why = _REFUSED.get(code, "the model's provider refused what was sent with it")
        return Text(frames.context("note", f"{what} was left out: {why}. Tell the person, if they do not know yet."))

    def placed(part: Part) -> Part:
        match part:
            case File() if not files or part.file in files:
                return noted(f"The file `{part.name}`")
            case Text() if not files:
                return noted("What was said here")
            case ToolResult():
                return replace(part, parts=tuple(map(placed, part.parts)))
            case ToolCall() if not files:
                return replace(part, arguments={})
            case _:
                return part

    return replace(message, parts=tuple(map(placed, message.parts)))


def _is_large(result: ToolResult) -> bool:
    return tokens_of_parts(result.parts) > MIN_SAVING


def _placeholder(part: Part, tools: Mapping[str, str], frames: Frames, remedy: str) -> Part:
    if not isinstance(part, ToolResult) or not _is_large(part):
        return part
    texts = [each.text for each in part.parts if isinstance(each, Text)]
    files = [f"`{each.name}`" for each in part.parts if isinstance(each, File)]
    size = f"{sum(map(len, texts)):,} characters" + (f" and {', '.join(files)}" if files else "")
    tool = tools.get(part.call, "a tool")
    note = f"The result of `{tool}`, {size}, {remedy}"
    handles = [match for text in texts if (match := _HANDLE.findall(text))]
    handle = (Text(handles[-1][-1]),) if handles else ()
    return ToolResult(part.call, part.outcome, (Text(frames.context("note", note)), *handle))
