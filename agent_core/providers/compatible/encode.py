"""One message as messages of a Chat Completions request."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agent_core.domain.messages import File, Message, Part, Text, ToolCall, ToolResult
from agent_core.providers.base import Files
from agent_core.providers.wording import Readable, note, plain_name, readable

EMPTY = "(no output)"
_NAME_LENGTH = 64
Json = Mapping[str, Any]


def encode(message: Message, files: Files) -> bytes:
    """Return *message* as text and calls: this wire has no native items to replay."""
    match message.role:
        case "user":
            messages = _user(message, files)
        case "assistant":
            messages = _assistant(message)
        case "tool":
            messages = _results(message, files)
    return b",".join(map(msgspec.json.encode, messages))


def _user(message: Message, files: Files) -> Iterator[Json]:
    if contents := list(_contents(message.parts, files)):
        yield {"role": "user", "content": _content(contents)}


def _assistant(message: Message) -> Iterator[Json]:
    texts = [text for part in message.parts if (text := _said(part)).strip()]
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if texts or calls:
        said = {"role": "assistant", "content": "\n\n".join(texts) or None}
        yield {**said, "tool_calls": calls} if calls else said


def _said(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case File():
            return note(part, "it is not repeated here")
        case _:
            return ""


def _call(part: ToolCall) -> Json:
    arguments = msgspec.json.encode(part.arguments).decode()
    return {
        "id": part.call,
        "type": "function",
        "function": {"name": plain_name(part.name, _NAME_LENGTH), "arguments": arguments},
    }


def _results(message: Message, files: Files) -> Iterator[Json]:
    """Return a message per result; results are text only here, so other parts follow as a user's message."""
    shown: list[Json] = []
    for result in message.parts:
        if isinstance(result, ToolResult):
            yield {"role": "tool", "tool_call_id": result.call, "content": _output(result, files, shown)}
    if shown:
        yield {"role": "user", "content": [_text_block("[Files that the tools returned]"), *shown]}


def _output(result: ToolResult, files: Files, shown: list[Json]) -> str:
    """Return the text of *result* and add its other parts to *shown*."""
    texts = [] if result.outcome == "done" else [f"[This call did not succeed: {result.outcome}]"]
    for part in result.parts:
        for content in _contents((part,), files):
            if content["type"] == "text":
                texts.append(content["text"])
            elif isinstance(part, File):
                texts.append(note(part, "it follows the results"))
                shown.append(content)
    return "\n\n".join(texts) or EMPTY


def _content(contents: Sequence[Json]) -> str | Sequence[Json]:
    """Return text as a plain string: not every server takes a list."""
    if all(content["type"] == "text" for content in contents):
        return "\n\n".join(content["text"] for content in contents)
    return contents


def _contents(parts: Sequence[Part], files: Files) -> Iterator[Json]:
    return map(_content_block, readable(parts, files))


def _content_block(content: Readable | str) -> Json:
    match content:
        case str(text):
            return _text_block(text)
        case Readable("image") as image:
            return {"type": "image_url", "image_url": {"url": image.url}}
        case document:
            return {"type": "file", "file": {"filename": document.name, "file_data": document.url}}


def _text_block(text: str) -> Json:
    return {"type": "text", "text": text}
