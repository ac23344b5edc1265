"""Messages and their parts, as people and models exchange them."""

from typing import Any, Literal

import msgspec

CallOutcome = Literal["done", "failed", "denied", "cancelled", "unknown"]
Role = Literal["user", "assistant", "tool"]


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """Plain or markdown text."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning", tag_field="type"):
    """The model's reasoning before its answer; replayed only until the next compaction or snapshot."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", tag_field="type"):
    """A model's request to use a tool; `call` is the id of that one use everywhere."""

    call: str
    name: str
    arguments: dict[str, Any]


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", tag_field="type"):
    """The answer to one `ToolCall`."""

    call: str
    outcome: CallOutcome
    parts: "tuple[Part, ...]"


class File(msgspec.Struct, frozen=True, tag="file", tag_field="type"):
    """A stored file, named by its blob id; `size` in bytes."""

    file: str
    name: str
    mime: str
    size: int


class Render(msgspec.Struct, frozen=True, tag="render", tag_field="type"):
    """A typed table or chart, named by its render id."""

    render: str


Part = Text | Reasoning | ToolCall | ToolResult | File | Render


class Native(msgspec.Struct, frozen=True, omit_defaults=True):
    """What *model* (`provider:name`) itself wrote, to be sent to that model again verbatim.

    *pieces* joined are its items as JSON, with commas between them; a number is a placeholder for the text of that
    part, as a JSON string. *calls* are the provider's own ids of the message's calls or results, in their order.
    """

    model: str
    pieces: tuple[str | int, ...] = ()
    calls: tuple[str, ...] = ()


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the window: a role, its parts in order, and the native items they are a projection of."""

    role: Role
    parts: tuple[Part, ...]
    native: Native | None = None


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user, a visitor, a service or an agent that acts."""

    id: str
    kind: Literal["user", "visitor", "service", "agent"]
    name: str | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens of a model call; `input` is the uncached part; unknown is None, never 0."""

    input: int | None
    output: int | None
    reasoning: int | None
    cache_read: int | None
    cache_write_short: int | None
    cache_write_long: int | None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(_sum(getattr(self, f), getattr(other, f)) for f in self.__struct_fields__))


UNKNOWN_USAGE = Usage(None, None, None, None, None, None)


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the text parts of *parts*, joined by blank lines."""
    return "\n\n".join(p.text for p in parts if isinstance(p, Text))


def clean(text: str) -> str:
    """Return *text* as valid UTF-8: lone surrogates become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _sum(a: int | None, b: int | None) -> int | None:
    """Add; a total with an unknown part is itself unknown."""
    return None if a is None or b is None else a + b
