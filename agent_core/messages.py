"""Messages and their parts: text, files, calls and results, what a model's call used, and why one failed."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, cast, get_args
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


MAX_FILE = 25_000_000
"""Bytes of a file, whatever an agent allows."""
MAX_FILES = 20
"""Files of one message."""
MAX_FILE_NAME = 200
"""Characters of a file's name."""
KEPT_FOR = 86_400_000
"""Milliseconds for which a file waits for a message that takes it."""
MAX_PDF_BYTES, MAX_PDF_PAGES = 5_000_000, 100
"""Of a PDF that models are sent as it is: all vendors take that, and several fit into one request."""
MAX_FILE_TEXT = 100_000
"""Characters of a file that models are shown: as many as a message may have."""
Reading = Literal["image", "pdf", "docx", "sheet", "text"]
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_SHEET = "application/vnd.oasis.opendocument.spreadsheet"


class FileKind(msgspec.Struct, frozen=True):
    """One type of files: the *endings* of its names, the first of which it gets, and how it is read."""

    endings: tuple[str, ...]
    reading: Reading


FILE_KINDS: Mapping[str, FileKind] = MappingProxyType(
    {
        "image/png": FileKind(("png",), "image"),
        "image/jpeg": FileKind(("jpg", "jpeg"), "image"),
        "image/webp": FileKind(("webp",), "image"),
        "image/gif": FileKind(("gif",), "image"),
        "application/pdf": FileKind(("pdf",), "pdf"),
        _WORD: FileKind(("docx",), "docx"),
        _EXCEL: FileKind(("xlsx",), "sheet"),
        _SHEET: FileKind(("ods",), "sheet"),
        "text/plain": FileKind(("txt", "log"), "text"),
        "text/csv": FileKind(("csv",), "text"),
        "text/markdown": FileKind(("md", "markdown"), "text"),
        "application/json": FileKind(("json",), "text"),
    }
)
"""What may be sent, by MIME type. Not SVG and not HTML, which are programs where they are opened."""
_FORBIDDEN = frozenset('/\\:*?"<>|')


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A File: one that a person sent. *session* is where it is, None until a message or its sender says that."""

    id: str
    name: str
    mime: str
    size: int
    session: str | None
    created_at: int
    agent: str | None
    actor: str
    actor_kind: str
    text: str | None = None
    pages: int | None = None

    @property
    def part(self) -> File:
        """Return the part of a message that names the file."""
        return File(self.id, self.name, self.mime, self.size, self.text, self.pages)


def is_whole(file: File) -> bool:
    """Return whether models that take files are sent *file*, of which there is a text, as it is."""
    return file.mime == "application/pdf" and file.size <= MAX_PDF_BYTES and (file.pages or 0) <= MAX_PDF_PAGES


def mime_of(file: File) -> str:
    """Return the type of *file* in small letters, without parameters."""
    return file.mime.partition(";")[0].strip().lower()


def is_text(file: File) -> bool:
    """Return whether models are shown the bytes of *file* as text."""
    return mime_of(file).startswith("text/") or mime_of(file) == "application/json"


def kind_of_name(name: str) -> str | None:
    """Return the MIME type that a file's *name* says by its ending."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    return next((mime for mime, kind in FILE_KINDS.items() if ending in kind.endings), None)


def clean_name(name: str, mime: str) -> str:
    """Return *name* without paths, controls and what systems take for more than a name, with an ending of *mime*."""
    last = visible(name).replace("\\", "/").rpartition("/")[2]
    cleaned = " ".join("".join(" " if each in _FORBIDDEN or not each.isprintable() else each for each in last).split())
    stem, _, ending = cleaned.strip(". ").rpartition(".")
    endings, other = FILE_KINDS[mime].endings, kind_of_name(ending and f"x.{ending}")
    if stem and other is not None and FILE_KINDS[other].reading == FILE_KINDS[mime].reading == "image":
        ending = ending if other == mime else endings[0]  # an image that was encoded in another format
    elif not stem or ending.lower() not in endings:
        stem, ending = cleaned, endings[0]
    stem = stem[: MAX_FILE_NAME - len(ending) - 1].strip(". ")
    return f"{stem or 'file'}.{ending.lower()}"


def shorten(text: str, limit: int) -> str:
    """Return *text* in at most *limit* characters, 1 or more, with an ellipsis where its end is missing."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


FailureKind = Literal[
    "overloaded",
    "rate_limited",
    "network",
    "error",
    "context_overflow",
    "quota",
    "auth",
    "misconfigured",
    "invalid",
    "content_refused",
    "file_refused",
    "stale_reasoning",
    "controls_refused",
]
KINDS: tuple[str, ...] = get_args(FailureKind)
CONTENT_REFUSED, FILE_REFUSED = "content_refused", "file_refused"
REFUSALS = frozenset({CONTENT_REFUSED, FILE_REFUSED, "invalid", "stale_reasoning", "refused"})
"""What the same conversation meets again, however often it is sent; `refused` is the answer of a model itself."""

_EXPLANATIONS: dict[str, str] = {
    "overloaded": "The model's provider is overloaded. Nothing is lost; please ask again in a few minutes.",
    "rate_limited": "The model is asked more than its limit allows. Nothing is lost; please ask again shortly.",
    "network": "The connection to the model broke off. Nothing is lost; please ask again.",
    "error": "The model's provider had a fault of its own. Nothing is lost; please ask again.",
    "context_overflow": "This is too long for the model. Please send less at once, or begin a new conversation.",
    "quota": "The account that pays for the model has reached its limit. Only an operator can fix this.",
    "auth": "The model's provider does not accept the key it was given. Only an operator can fix this.",
    "misconfigured": "The model is not set up correctly here. Only an operator can fix this.",
    "invalid": "The model's provider refused the request. Asking in another way, or in a new conversation, may help.",
    "content_refused": (
        "The content filter of the model's provider refused what was sent. "
        "It is left out from now on; please ask in another way."
    ),
    "file_refused": (
        "The model's provider could not take a file or a picture. It is left out from now on; please go on without it."
    ),
    "stale_reasoning": "The model could not take up its earlier thoughts again. Please ask again.",
    "controls_refused": "The model does not take what this agent asks. Only an operator can fix this.",
}


def explanation(kind: str) -> str:
    """Return the text for the person who asked when a model call failed finally as *kind*; it names no internals."""
    return _EXPLANATIONS.get(kind, _EXPLANATIONS["error"])


CostGroup = Literal["agent", "actor", "channel", "session", "day"]


class CostFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which spending is summed: of UTC days, counted since 1970-01-01, from *first* on and before *end*.

    *agent* is an id or a name, the others are ids.
    """

    first: int | None = None
    end: int | None = None
    agent: str | None = None
    actor: str | None = None
    channel: str | None = None
    session: str | None = None


class CostItem(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent under one *key*: an id, the name of a channel, or a day such as 2026-11-23.

    *key* is None for what people or sessions spent that were deleted; *name* is that of an agent that exists. *runs*
    are those with a billed model call, each day counted apart; *steps* are answered model calls. *usage* and the costs,
    decimals in US dollars, sum what is known: *unmeasured* calls lack tokens, *unpriced* ones a price. *uncached_cost*
    is what the same tokens would cost without a prompt cache.
    """

    key: str | None
    name: str | None = None
    runs: int
    steps: int
    unmeasured: int
    unpriced: int
    usage: Usage
    cost: str | None
    uncached_cost: str | None
