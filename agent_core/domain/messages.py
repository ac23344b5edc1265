"""Messages and their parts, as people and models exchange them."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast
from unicodedata import category

import msgspec

CallOutcome = Literal["done", "failed", "denied", "cancelled", "unknown"]
Role = Literal["user", "assistant", "tool"]


class Citation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source that a model's provider names for a stretch of a text part.

    *start* and *end* are code points of the part, None when the provider names the source for the text as a whole.
    *text* is what is quoted from the source; *url* is its address on the web, *source* any other name of it, and
    *index* its number among the documents, search results or files that the model was given, from 0.
    """

    start: int | None = None
    end: int | None = None
    text: str | None = None
    title: str | None = None
    url: str | None = None
    source: str | None = None
    index: int | None = None


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type", omit_defaults=True):
    """Plain or markdown text; *citations* are the sources that its model's provider names for it."""

    text: str
    citations: tuple[Citation, ...] = ()


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning", tag_field="type"):
    """The model's reasoning before its answer; replayed only until the next compaction or snapshot."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", tag_field="type"):
    """A model's request to use a tool; `call` is the id of that one use everywhere."""

    call: str
    name: str
    arguments: dict[str, Any]


class LoadedTool(msgspec.Struct, frozen=True):
    """A tool beside the prompt that the model has found, as it is shown from then on; *parameters* are JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", tag_field="type", omit_defaults=True):
    """The answer to one `ToolCall`; *untrusted*: strangers may have written it.

    *loaded* are the tools that a search found. An API that loads tools is sent them for the parts, which say the same.
    """

    call: str
    outcome: CallOutcome
    parts: "tuple[Part, ...]"
    untrusted: bool = False
    loaded: tuple[LoadedTool, ...] = ()


class File(msgspec.Struct, frozen=True, tag="file", tag_field="type", omit_defaults=True):
    """A stored file, named by its blob id; `size` in bytes.

    *text* is the blob of the text that stands for it where a model does not take the file; *pages* those of a PDF.
    """

    file: str
    name: str
    mime: str
    size: int
    text: str | None = None
    pages: int | None = None


class Render(msgspec.Struct, frozen=True, tag="render", tag_field="type"):
    """A typed table or chart, named by its render id."""

    render: str


Part = Text | Reasoning | ToolCall | ToolResult | File | Render


NativePiece = str | int | tuple[int, int, int]


class Native(msgspec.Struct, frozen=True, omit_defaults=True):
    """What *model* (`provider:name`) itself wrote, to be sent to that model again verbatim.

    *pieces* joined are its items as JSON, with commas between them; a number is a placeholder for the text of that
    part, as a JSON string, and three numbers are one for a stretch of it: the part, and where the stretch begins and
    ends in it, in code points. *calls* are the provider's own ids of the message's calls or results, in their order.
    """

    model: str
    pieces: tuple["NativePiece", ...] = ()
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


MAX_TOKENS = 1_000_000_000
"""The largest count of tokens that is believed of a model call; nine billion of them fit a sum of 64 bits."""


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

    def believed(self) -> "Usage":
        """Return what a server counted, where it cannot be true unknown: quotas, bills and estimates build on it."""
        return Usage(*(_believed(getattr(self, f)) for f in self.__struct_fields__))


UNKNOWN_USAGE = Usage(None, None, None, None, None, None)


def native_text(parts: Sequence[Part], piece: int | tuple[int, int, int]) -> str:
    """Return the text for which *piece*, of a message's native items, is the placeholder."""
    place, start, end = piece if isinstance(piece, tuple) else (piece, 0, None)
    part = parts[place]
    assert isinstance(part, Text | Reasoning), "A native item names a part that is no text."
    return part.text[start:end]


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the text parts of *parts*, joined by blank lines.

    They are paragraphs of their own: what a model wrote side by side is one part.
    """
    return "\n\n".join(p.text for p in parts if isinstance(p, Text))


def used_in(parts: Sequence[Part]) -> tuple[ToolCall, ...]:
    """Return the calls that a person's message makes: those of *parts* whose results are not among them."""
    answered = {part.call for part in parts if isinstance(part, ToolResult)}
    return tuple(part for part in parts if isinstance(part, ToolCall) and part.call not in answered)


def clean(text: str) -> str:
    """Return *text* as valid UTF-8: half a character, a lone surrogate, becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def all_clean(value: Any, plain: Callable[[Any], Any] | None = None) -> Any:
    """Return *value* of JSON with its keys and texts as `clean` has them; *plain* makes JSON of what is none yet."""
    match value:
        case str():
            return clean(value)
        case dict():
            fields = cast("dict[Any, Any]", value).items()
            return {clean(key) if isinstance(key, str) else key: all_clean(each, plain) for key, each in fields}
        case list() | tuple():
            return [all_clean(each, plain) for each in cast("list[Any]", value)]
        case _:
            return value if plain is None else all_clean(plain(value))


_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u180e\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
"""What people do not see and models read: controls, marks that reorder text, tags, fillers without width.

Joiners and the marks of direction stay: emoji, Persian, Hindi, Arabic and Hebrew need them.
"""


_PIECE = 65_536
MAX_NAME = 80
"""Characters of a name where the model or people read it."""


def visible(text: str) -> str:
    """Return *text* as `clean` does, without hidden characters; a line separator is a line break."""
    text = clean(text)
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\u2028", "\n").replace("\u2029", "\n")
    # In pieces: one regular expression over megabytes would hold up all threads.
    return "".join(_HIDDEN.sub("", text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))


def legible(name: str | None) -> str:
    """Return *name* on one line, without what cannot be seen, cut to `MAX_NAME`; empty when nothing is left."""
    seen = "".join(" " if sign.isspace() else sign for sign in name or "" if sign.isspace() or category(sign)[0] != "C")
    return " ".join(seen.split())[:MAX_NAME].strip()


def _believed(count: int | None) -> int | None:
    """Return *count*, None if it is out of bounds."""
    return count if count is not None and 0 <= count <= MAX_TOKENS else None


def _sum(a: int | None, b: int | None) -> int | None:
    """Add; a total with an unknown part is itself unknown."""
    return None if a is None or b is None else a + b
