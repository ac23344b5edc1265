"""One request as the server received it, decoded lazily."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

import msgspec

from agent_core.providers.demo import NOTE, SPEAKER
from agent_core.testing import scripted as script

Wire = Literal["messages", "responses", "chat"]


class Head(msgspec.Struct):
    """The top of a request of any wire; what is long stays as its bytes."""

    model: str = ""
    stream: bool = False
    messages: list[msgspec.Raw] | None = None
    input: list[msgspec.Raw] | str | None = None
    tools: msgspec.Raw = msgspec.Raw(b"[]")
    instructions: msgspec.Raw = msgspec.Raw(b"null")
    stream_options: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    max_tokens: int | None = None


class _Position(msgspec.Struct):
    """A message or an item, decoded far enough to know its role."""

    role: str = ""
    type: str = "message"
    content: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True)
class ModelCall:
    """One model call.

    *body* is the JSON as sent, *raw* its bytes, *headers* have small letters, *query* is the URL's; *text* is the
    newest text of the user, and *step* counts what the assistant said since: 0 in the first step. *time* is
    milliseconds since the epoch.
    """

    wire: Wire
    model: str
    raw: bytes
    headers: Mapping[str, str]
    text: str
    step: int
    time: int
    query: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def body(self) -> dict[str, Any]:
        return cast("dict[str, Any]", msgspec.json.decode(self.raw))


def read(
    wire: Wire, raw: bytes, headers: Mapping[str, str], time: int, query: Mapping[str, str] | None = None
) -> tuple[ModelCall, Head]:
    """Read a request from its newest end; raises `msgspec.DecodeError` for what is no JSON of a request."""
    head = msgspec.json.decode(raw, type=Head)
    text, step = _newest(wire, head)
    return ModelCall(wire, head.model, raw, headers, text, step, time, query or {}), head


def _newest(wire: Wire, head: Head) -> tuple[str, int]:
    """Return the newest text of the user, skipping the core's notes, and the number of answers after it."""
    items = head.input if wire == "responses" else head.messages
    if isinstance(items, str):
        return items, 0
    step, ours = 0, False
    for each in reversed(items or ()):
        position = msgspec.json.decode(each, type=_Position)
        if position.role == "user" and (text := _plain_text(position.content)) is not None and not NOTE.match(text):
            return SPEAKER.sub("", text, count=1) if SPEAKER.match(text) else text, step
        spoken = position.role == "assistant" or (wire == "responses" and _is_output(position.type))
        # An answer is one message, but on Responses a run of items.
        step += spoken and not (ours and wire == "responses")
        ours = spoken
    return "", step


def _is_output(type_: str) -> bool:
    return type_ != "message" and not type_.endswith("_output")


def _plain_text(content: bytes) -> str | None:
    """Return the text in *content*, None when there is none: results of tools are no text of the user."""
    decoded = msgspec.json.decode(content)
    if isinstance(decoded, str):
        return decoded
    parts = cast("Sequence[Any]", decoded) if isinstance(decoded, list) else ()
    texts = [_text_in(cast("dict[str, Any]", part)) for part in parts if isinstance(part, dict)]
    present = [text for text in texts if text is not None]
    return "\n".join(present) if present else None


def _text_in(part: dict[str, Any]) -> str | None:
    text = part.get("text") if part.get("type") in ("text", "input_text") else None
    return text if isinstance(text, str) else None


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes for the stream, as they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class WholeResponse:
    """A whole HTTP answer; it comes first in its script entry."""

    code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Stall:
    """Silence on an open connection."""


@dataclass(frozen=True, slots=True)
class Split:
    """The stream in pieces of *size* bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class NativeWire:
    """An item in the wire's own JSON."""

    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Redacted:
    """Thinking as an opaque block."""


Item = script.Item | Raw | WholeResponse | Stall | Split | NativeWire | Redacted
Answer = Sequence[Item]
Script = Sequence[Answer] | Callable[[ModelCall], Answer]


def raw(data: bytes) -> Raw:
    """Send *data* in the stream as it is."""
    return Raw(data)


def status(code: int, body: str | bytes = b"", headers: Mapping[str, str] | None = None) -> WholeResponse:
    """Answer with this HTTP status, body and headers instead of a stream."""
    return WholeResponse(code, body.encode() if isinstance(body, str) else body, headers or {})


def stall() -> Stall:
    """Send nothing more, and keep the connection open until the client leaves."""
    return Stall()


def split(size: int) -> Split:
    """Write the whole stream in pieces of *size* bytes; the rate does not count then."""
    if size < 1:
        raise ValueError(f"A piece has one byte or more, not {size}.")
    return Split(size)


def native(item: dict[str, Any]) -> NativeWire:
    """Send *item* verbatim: a content block (Messages), an output item (Responses), a chunk (Chat Completions)."""
    return NativeWire(item)


def redacted() -> Redacted:
    """Think something encrypted: a `redacted_thinking` block on Messages, nothing elsewhere."""
    return Redacted()
