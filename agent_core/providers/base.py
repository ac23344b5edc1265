"""The neutral stream: the request to any model provider, and its answer.

A provider's `stream` yields *batches*: all deltas that came in with one network read, in order. The loop shows
what came in one read as one event, so a provider must not split a read into many batches, nor wait to fill one.
Failure of a model call is data (`CallFailed`), never an exception; exceptions are programming errors.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import msgspec

from agent_core.agents import Snapshot
from agent_core.controls import Abilities, Controls
from agent_core.messages import MAX_TOKENS, Citation, FailureKind, Message, NativePiece, Usage

FinishReason = Literal["done", "tools", "length", "continue", "refused"]
Files = Mapping[str, bytes]
"""The bytes of stored files by their blob ids; a file that is gone is not in it."""
Encode = Callable[[Message, Files], bytes]
"""Makes the ready request JSON of one message: no, one or several JSON values with commas between them."""


@dataclass(frozen=True, slots=True)
class Started:
    """The provider accepted the request."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class ModelTextDelta:
    """More text of the part *slot*; slots are any hashable, unique per part of one answer.

    What the model wrote side by side is one part; what lies between two parts parts paragraphs.
    """

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class ModelReasoningDelta:
    """More of the model's thinking in *slot*."""

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class ModelCitation:
    """The provider names a source for a stretch of the text in *slot*."""

    slot: int
    citation: Citation


@dataclass(frozen=True, slots=True)
class NativeItem:
    """An item of the answer in the provider's own JSON, to be replayed verbatim to the model that wrote it.

    *pieces* joined are the item: verbatim JSON, and in the place of a slot its text as a JSON string, so that text
    is not stored twice; that text must not be blank, since blank parts are left out. Three numbers are a stretch of a
    slot's text: the slot, and its begin and end in code points. Without pieces only the provider's ids of the calls are
    kept. *call* is the slot of the call that the item is; it is kept only with that call.
    """

    pieces: tuple[NativePiece, ...]
    call: int | None = None


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A tool call begins in *slot*; *call_id* is the provider's own id."""

    slot: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArgsDelta:
    """More of the raw JSON text of the arguments in *slot*."""

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """The call in *slot* is whole; *arguments* is None when *raw* is not a JSON object.

    No text, `null` and `{}` are the arguments of a call without arguments.
    """

    slot: int
    raw: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model refuses; shown text is withdrawn."""

    text: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens so far; the last report wins."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer ended in order, for the wire's own reason *native*. A stream that ends without one was cut."""

    reason: FinishReason
    native: str = ""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call failed; *retry_after* is seconds, as the provider asked.

    *message* is for the operator: what the provider said, and what to do. It holds no secret. *cache_unknown*: the
    server says that it does not know a field of the prompt cache; *search_unknown*: one of the search for tools.
    *path* names a part of the request, *item* is that part, as JSON. *otherwise* is the failure where the request has
    no picture or page that it could be about.
    """

    kind: FailureKind
    message: str
    retryable: bool
    retry_after: float | None = None
    cache_unknown: bool = False
    search_unknown: bool = False
    path: str = ""
    item: bytes = field(default=b"", repr=False)
    otherwise: "CallFailed | None" = None


ModelDelta = (
    Started
    | ModelTextDelta
    | ModelReasoningDelta
    | ModelCitation
    | NativeItem
    | ToolStart
    | ToolArgsDelta
    | ToolEnd
    | Refusal
    | UsageReport
    | Finished
    | CallFailed
)


class RequestEntry(Protocol):
    """One message of the window and its ready request JSON, made once; it may be empty."""

    @property
    def message(self) -> Message: ...

    @property
    def wire(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CacheMarks:
    """How a request uses the provider's prompt cache.

    *key* names those who share its prefix: the agent. *previous* is how many of its messages the session's request
    before it had, 0 if none: that much is in the cache already.
    """

    key: str
    previous: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: the frozen prefix, the window, and what this step may do.

    *model* is the name without the provider's prefix. *controls* that are passed to the model as text are left out
    already (`controls.sent`). With `tool_choice` `none` the tools stay in the prefix and must not be called.
    Without *cache* nothing about the prompt cache is sent.
    """

    model: str
    snapshot: Snapshot
    messages: Sequence[RequestEntry]
    controls: Controls
    session: str
    cache: CacheMarks | None = None


class Provider(Protocol):
    """A vendor's models, over one wire protocol."""

    @property
    def name(self) -> str:
        """Return the prefix in `PARLEY_MODEL`, such as `anthropic`."""
        ...

    def accepts(self, model: str) -> bool:
        """Return whether this provider serves *model*, a name without the provider's prefix."""
        ...

    def able(self, model: str) -> Abilities:
        """Return which controls the API of *model* enforces by itself."""
        ...

    def encoder(self, model: str) -> Encode:
        """Return how a message becomes request JSON for *model*; the same function for the same model."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Yield batches of deltas, one per network read; closing it ends the model call at once."""
        ...


def named(model: str) -> str:
    """Return the name of *model*, `provider:name`, without its provider."""
    return model.partition(":")[2]


def counted(usage: object, *path: str) -> int | None:
    """Return the tokens that a server counts at *path* of its *usage*; None for what is no number, in any form."""
    for name in path:
        usage = cast("dict[str, object]", usage).get(name) if isinstance(usage, dict) else None
    try:
        count = float(usage) if isinstance(usage, int | float | str) and not isinstance(usage, bool) else -1
    except (ValueError, OverflowError):
        return None
    return int(count) if 0 <= count <= MAX_TOKENS else None


NULL = msgspec.Raw(b"null")


def decoded(raw: msgspec.Raw) -> object:
    """Return the JSON of a usage figure; None for what cannot be read, which must not discard an answer."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def neutral(message: Message, _files: Files) -> bytes:
    """Return *message* as neutral JSON: the encoder of providers that speak no wire of their own."""
    return msgspec.json.encode(message)
