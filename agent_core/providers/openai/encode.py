"""One message as input items of a Responses request."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import msgspec

from agent_core.domain.messages import File, Message, NativePiece, Part, Text, ToolCall, ToolResult, native_text
from agent_core.providers.base import Files
from agent_core.providers.openai.items import SEARCHED, function_call, search_output
from agent_core.providers.wording import Readable, note, plain_name, readable

_NAME_LENGTH = 64
_EMPTY = "(no output)"
Json = Mapping[str, Any]


def encode(reader: str, message: Message, files: Files) -> bytes:
    """Return *message* for *reader*, `provider:model`: its own answers verbatim, those of others as text and calls."""
    match message.role:
        case "user":
            items: Sequence[Json] = _user(message, files)
        case "tool":
            items = _results(reader, message, files)
        case "assistant":
            if message.native is not None and message.native.model == reader:
                return _verbatim(message, message.native.pieces)
            return ",".join(_assistant(message)).encode()
    return b",".join(map(msgspec.json.encode, items))


def _verbatim(message: Message, pieces: Sequence[NativePiece]) -> bytes:
    return b"".join(piece.encode() if isinstance(piece, str) else _text_at(message, piece) for piece in pieces)


def _text_at(message: Message, piece: int | tuple[int, int, int]) -> bytes:
    return msgspec.json.encode(native_text(message.parts, piece))


def _user(message: Message, files: Files) -> list[Json]:
    content = list(_contents(message.parts, files))
    return [{"type": "message", "role": "user", "content": content}] if content else []


def _assistant(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case ToolCall(call, name, arguments):
                raw = msgspec.json.encode(arguments).decode()
                yield function_call(call, plain_name(name, _NAME_LENGTH), raw)
            case Text() | File():
                text = part.text if isinstance(part, Text) else note(part, "it is not repeated here")
                if text.strip():
                    yield msgspec.json.encode({"type": "message", "role": "assistant", "content": text}).decode()
            case _:
                continue


def _results(reader: str, message: Message, files: Files) -> list[Json]:
    """Return an output for each result, under the model's own call ids where it reads its own calls.

    A search of its own is answered with the tools that were loaded; any other with their definitions as text.
    """
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    own = message.native is not None and message.native.model == reader
    calls = message.native.calls if own and message.native else repeat(None)
    return [_result(call or result.call, result, files) for call, result in zip(calls, results, strict=own)]


def _result(call: str, result: ToolResult, files: Files) -> Json:
    if call.startswith(SEARCHED):
        return search_output(call.removeprefix(SEARCHED), result.loaded)
    return {"type": "function_call_output", "call_id": call, "output": _output(result, files)}


def _output(result: ToolResult, files: Files) -> str | list[Json]:
    contents = list(_contents(result.parts, files))
    if result.outcome != "done":
        contents.insert(0, _text_block(f"[This call did not succeed: {result.outcome}]"))
    if all(each["type"] == "input_text" for each in contents):
        return "\n\n".join(each["text"] for each in contents) or _EMPTY
    return contents


def _contents(parts: Sequence[Part], files: Files) -> Iterator[Json]:
    return map(_content_block, readable(parts, files))


def _content_block(content: Readable | str) -> Json:
    match content:
        case str(text):
            return _text_block(text)
        case Readable("image") as image:
            return {"type": "input_image", "detail": "auto", "image_url": image.url}
        case document:
            return {"type": "input_file", "filename": document.name, "file_data": document.url}


def _text_block(text: str) -> Json:
    return {"type": "input_text", "text": text}
