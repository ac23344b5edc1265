r"""What a script can say to a wire beyond the little language: bytes, whole HTTP answers, stalls, native items.

These stand between the items of `agent_core.testing.script`; the scripted provider does not know them.

=====================================  ==================================================================
`raw(b": hello\n\n")`                  these bytes, as they are, in the stream
`status(418, "…", {"x": "y"})`         any HTTP answer instead of one of the wire's own
`stall()`                              nothing more; the connection stays open until the client leaves
`split(7)`                             the whole stream in pieces of so many bytes, each written by itself
`native({…})`                          a content block, an output item or a chunk, verbatim
`redacted()`                           thinking that is encrypted; a wire without it leaves it out
=====================================  ==================================================================
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_core.testing import script
from agent_core.testing.models.asked import ModelCall


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
