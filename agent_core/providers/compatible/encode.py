"""One message as messages of a Chat Completions request."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from agent_core.messages import File, Message, NativePiece, Part, Text, ToolCall, ToolResult, native_text
from agent_core.providers.base import Files
from agent_core.providers.compatible.ids import call_id
from agent_core.providers.compatible.native import NAME_LENGTH
from agent_core.providers.wording import Readable, note, plain_name, readable

EMPTY = "(no output)"
UNSIGNED = "skip_thought_signature_validator"
"""What Gemini's endpoint takes in place of the signature of a call that it did not write."""
Json = Mapping[str, Any]


class Wants(NamedTuple):
    """What a server asks of the answers that it gets back.

    *thinking*: its `own`, as it wrote it; `always` some, so that answers of others have an empty one; or `never` any.
    *signature*: one on the first call of an answer, so that those of others have a stand-in.
    """

    thinking: Literal["own", "always", "never"] = "own"
    signature: bool = False


def encode(reader: str, wants: Wants, message: Message, files: Files) -> bytes:
    """Return *message* for *reader*, `provider:model`: its own answers verbatim, those of others as text and calls."""
    native = message.native if message.native and message.native.model == reader else None
    match message.role:
        case "user":
            messages = _user(message, files)
        case "assistant":
            if native and native.pieces and wants.thinking != "never":
                return _verbatim(message, native.pieces)
            messages = _assistant(message, native.calls if native else (), wants)
        case "tool":
            messages = _results(message, native.calls if native else (), files)
    return b",".join(map(msgspec.json.encode, messages))


def _verbatim(message: Message, pieces: Sequence[NativePiece]) -> bytes:
    texts = (piece if isinstance(piece, str) else _text_at(message, piece) for piece in pieces)
    return "".join(texts).encode()


def _text_at(message: Message, piece: int | tuple[int, int, int]) -> str:
    return msgspec.json.encode(native_text(message.parts, piece)).decode()


def _user(message: Message, files: Files) -> Iterator[Json]:
    if contents := list(_contents(message.parts, files)):
        yield {"role": "user", "content": _content(contents)}


def _assistant(message: Message, ids: Sequence[str], wants: Wants) -> Iterator[Json]:
    """Return an answer from its parts; *ids* are the server's own of its calls, if they are known."""
    texts = [text for part in message.parts if (text := _text_of(part)).strip()]
    made = [part for part in message.parts if isinstance(part, ToolCall)]
    calls = [_call(part, id_) for part, id_ in zip(made, _ids(ids, made), strict=True)]
    if not texts and not calls:
        return
    body: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) or None}
    if wants.thinking == "always":
        body["reasoning_content"] = ""
    if calls:
        if wants.signature:
            calls[0] = {**calls[0], "extra_content": {"google": {"thought_signature": UNSIGNED}}}
        body["tool_calls"] = calls
    yield body


def _ids(own: Sequence[str], parts: Sequence[ToolCall | ToolResult]) -> Sequence[str]:
    """Return the ids of calls for their server: its *own*, else some that every server takes."""
    return own or [call_id(part.call) for part in parts]


def _text_of(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case File():
            return note(part, "it is not repeated here")
        case _:
            return ""


def _call(part: ToolCall, id_: str) -> Json:
    arguments = msgspec.json.encode(part.arguments).decode()
    function = {"name": plain_name(part.name, NAME_LENGTH), "arguments": arguments}
    return {"id": id_, "type": "function", "function": function}


def _results(message: Message, ids: Sequence[str], files: Files) -> Iterator[Json]:
    """Return a message per result; results are text only here, so other parts follow as a user's message."""
    pictures: list[Json] = []
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    for result, id_ in zip(results, _ids(ids, results), strict=True):
        yield {"role": "tool", "tool_call_id": id_, "content": _output(result, files, pictures)}
    if pictures:
        yield {"role": "user", "content": [_text_block("[Files that the tools returned]"), *pictures]}


def _output(result: ToolResult, files: Files, pictures: list[Json]) -> str:
    """Return the text of *result* and add its other parts to *pictures*."""
    texts = [] if result.outcome == "done" else [f"[This call did not succeed: {result.outcome}]"]
    for part in result.parts:
        for content in _contents((part,), files):
            if content["type"] == "text":
                texts.append(content["text"])
            elif isinstance(part, File):
                texts.append(note(part, "it follows the results"))
                pictures.append(content)
    return "\n\n".join(texts) or EMPTY


def _content(contents: Sequence[Json]) -> str | Sequence[Json]:
    """Return text as a plain string: not every server takes a list."""
    if all(content["type"] == "text" for content in contents):
        return "\n\n".join(content["text"] for content in contents)
    return contents


def _contents(parts: Sequence[Part], files: Files) -> Iterator[Json]:
    return map(_content_block, readable(parts, files, pdfs=False))


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
