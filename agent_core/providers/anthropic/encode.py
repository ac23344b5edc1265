"""Messages as Anthropic's request JSON, each made once.

Each ends with `}]}`, the ends of its last block, its content and itself, where a cache mark can be inserted.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from agent_core.messages import File, Message, Native, Part, ToolCall, ToolResult, native_text
from agent_core.providers import models
from agent_core.providers.base import CacheMarks, Encode, Files, RequestEntry, named
from agent_core.providers.wording import Readable, RewrittenEntry, note, plain_name, readable

_NAME_LENGTH = 128
"""The longest name of a tool that the API takes; it has letters, digits, `_` and `-` alone."""
Block = dict[str, Any]
MARK: Block = {"cache_control": {"type": "ephemeral"}}
"""It keeps what is before it for five minutes after its last use."""
_INSERTED = b"," + msgspec.json.encode(MARK)[1:-1]
_ENDS = len(b"}]}")


@lru_cache(maxsize=256)
def encoder_of(model: str) -> Encode:
    """Return how a message becomes request JSON for *model*, `anthropic:name`; the same function for the same model."""
    loads = models.find(f"anthropic:{named(model)}").tool_search

    def encode(message: Message, files: Files) -> bytes:
        native = message.native if message.native and message.native.model == model else None
        match message.role:
            case "assistant":
                return _verbatim(message.parts, native) if native and native.pieces else _message(_answer(message))
            case "tool":
                return _message(_results(message.parts, native, files, loads=loads), "user")
            case "user":
                return _message(_blocks(message.parts, files), "user")

    return encode


def wires(entries: Sequence[RequestEntry], marks: CacheMarks | None) -> list[bytes]:
    """Return the request JSON of *entries*, with cache marks where the request before ended and at the newest block.

    Each mark is in the last block of a user's message or of results. An answer is passed over: it may end in thinking
    or in what a server's tool found, which take no mark; the mark before it and the next request's cover it.
    """
    wires = [entry.wire for entry in entries]
    if marks is not None:
        for place in {_marked(entries, marks.previous), _marked(entries, len(entries))} - {None}:
            assert place is not None
            wire = wires[place]
            wires[place] = b"".join((wire[:-_ENDS], _INSERTED, wire[-_ENDS:]))
    return wires


def _marked(entries: Sequence[RequestEntry], end: int) -> int | None:
    """Return the last of the first *end* entries that takes a mark, None if none does."""
    places = range(min(end, len(entries)) - 1, -1, -1)
    return next((place for place in places if entries[place].message.role != "assistant" and entries[place].wire), None)


def _message(blocks: Sequence[Block], role: str = "assistant") -> bytes:
    return msgspec.json.encode({"role": role, "content": blocks}) if blocks else b""


def _verbatim(parts: Sequence[Part], native: Native) -> bytes:
    """Return an answer as the model wrote it."""
    pieces = [piece if isinstance(piece, str) else _json(native_text(parts, piece)) for piece in native.pieces]
    return b'{"role":"assistant","content":[%s]}' % "".join(pieces).encode()


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _answer(message: Message) -> list[Block]:
    """Return an answer of another model, or one from before a new prefix: text and calls, without the thinking."""
    blocks: list[Block] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            blocks.append(
                {
                    "type": "tool_use",
                    "id": part.call,
                    "name": plain_name(part.name, _NAME_LENGTH),
                    "input": part.arguments,
                }
            )
        elif isinstance(part, File):  # the API refuses documents in an answer
            blocks.append(_text_block(note(part, "an answer holds text alone")))
        else:
            blocks += _blocks((part,), {})
    return blocks


def unloaded(entries: Sequence[RequestEntry]) -> Sequence[RequestEntry]:
    """Return *entries* with what searches found as text: for a server that was found to know no references."""
    return [RewrittenEntry(each.message, _as_text(each)) if each.message.role == "tool" else each for each in entries]


def _as_text(entry: RequestEntry) -> bytes:
    results = [part for part in entry.message.parts if isinstance(part, ToolResult)]
    if not entry.wire or not any(result.loaded for result in results):
        return entry.wire
    message: dict[str, Any] = msgspec.json.decode(entry.wire)
    for block, result in zip(message["content"], results, strict=True):
        if result.loaded:
            block["content"] = _blocks(result.parts, {})
    return msgspec.json.encode(message)


def _results(parts: Sequence[Part], native: Native | None, files: Files, *, loads: bool) -> list[Block]:
    """Return the results of all calls of one answer, under the ids by which that answer is replayed."""
    results = [part for part in parts if isinstance(part, ToolResult)]
    calls = native.calls if native else [result.call for result in results]
    return [_result(call, result, files, loads=loads) for call, result in zip(calls, results, strict=True)]


def _result(call: str, result: ToolResult, files: Files, *, loads: bool) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call}
    if result.loaded and loads:
        return block | {"content": [{"type": "tool_reference", "tool_name": tool.name} for tool in result.loaded]}
    content = _blocks(result.parts, files)
    if result.outcome != "done":
        block["is_error"] = True
        # An error without content is refused; a success may be empty.
        content = content or [_text_block(f"The call ended as {result.outcome}, without a word.")]
    if content:
        block["content"] = content
    return block


def _blocks(parts: Sequence[Part], files: Files) -> list[Block]:
    return [_block(content) for content in readable(parts, files)]


def _block(content: Readable | str) -> Block:
    match content:
        case str(text):
            return _text_block(text)
        case Readable("image", mime, image):
            return {"type": "image", "source": _source(mime, image)}
        case Readable(_, mime, document, name):
            return {"type": "document", "source": _source(mime, document), "title": name}


def _source(mime: str, data: bytes) -> Block:
    return {"type": "base64", "media_type": mime, "data": data}  # msgspec writes bytes as base64


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}
