"""One message as input items of a Responses request."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import msgspec

from agent_core.agents import SEARCH_TOOLS
from agent_core.messages import File, Message, NativePiece, Part, Text, ToolCall, ToolResult, native_text
from agent_core.providers.base import Files, RequestEntry
from agent_core.providers.openai.items import (
    SEARCH,
    SEARCH_OUTPUT,
    SEARCHED,
    function_call,
    raw_of,
    read,
    search_output,
)
from agent_core.providers.wording import Readable, RewrittenEntry, note, plain_name, readable

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


def unloaded(entries: Sequence[RequestEntry]) -> Sequence[RequestEntry]:
    """Return *entries* with searches as calls of a function, and what they found as text.

    For a server that was found to know no search: it refuses the items of one in the conversation too.
    """
    return [
        RewrittenEntry(each.message, _without_searches(each)) if b'"tool_search_' in each.wire else each
        for each in entries
    ]


def _without_searches(entry: RequestEntry) -> bytes:
    raws = msgspec.json.decode(b"[%s]" % entry.wire, type=list[msgspec.Raw])
    results = [part for part in entry.message.parts if isinstance(part, ToolResult)]
    if entry.message.role == "tool":  # notes after the outputs are in these now
        return b",".join(_plain_output(raw, result) for raw, result in zip(raws, results, strict=False))
    return b",".join(map(_plain_call, raws)) if entry.message.role == "assistant" else entry.wire


def _plain_output(raw: msgspec.Raw, result: ToolResult) -> bytes:
    if (item := read(raw)).type != SEARCH_OUTPUT:
        return bytes(raw)
    output = {"type": "function_call_output", "call_id": item.call_id, "output": _output(result, {})}
    return msgspec.json.encode(output)


def _plain_call(raw: msgspec.Raw) -> bytes:
    item = read(raw)
    if item.type != SEARCH or item.execution != "client":
        return bytes(raw)
    return function_call(item.call_id or "", SEARCH_TOOLS, raw_of(item.arguments)).encode()


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

    A search of its own is answered with the tools that were loaded; any other with their definitions as text. Such an
    answer has no place for why a search did not succeed: a note after all outputs has it.
    """
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    own = message.native is not None and message.native.model == reader
    calls = message.native.calls if own and message.native else repeat(None)
    answered = [(call or result.call, result) for call, result in zip(calls, results, strict=own)]
    items = [_result(call, result, files) for call, result in answered]
    return [*items, *(_failed_search(result) for call, result in answered if _is_failed_search(call, result))]


def _is_failed_search(call: str, result: ToolResult) -> bool:
    return call.startswith(SEARCHED) and result.outcome != "done"


def _failed_search(result: ToolResult) -> Json:
    words = "\n".join(part.text for part in result.parts if isinstance(part, Text))
    text = f"[A search for tools did not succeed: {result.outcome}. It found nothing because of that.]\n{words}"
    return {"type": "message", "role": "developer", "content": [_text_block(text.rstrip())]}


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
