"""The neutral stream: what every model provider is asked, and what it answers.

A provider's `stream` yields *batches*: all deltas that came in with one network read, in order. The loop shows
what came in one read as one event, so a provider must not split a read into many batches, nor wait to fill one.
Failure of a model call is data (`Failed`), never an exception; exceptions are programming errors.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent_core.agents import Controls, Snapshot
from agent_core.messages import Message, Usage

FinishReason = Literal["done", "tools", "length", "continue", "refused"]
FailureKind = Literal["overloaded", "rate_limited", "network", "context_overflow", "invalid", "auth", "quota", "error"]


@dataclass(frozen=True, slots=True)
class Started:
    """The provider accepted the request."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the part *slot*; slots are any hashable, unique per part of one answer."""

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's thinking in *slot*."""

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningEnd:
    """The thinking in *slot* is whole; *opaque* is its native item, JSON to be replayed verbatim."""

    slot: int
    opaque: str


@dataclass(frozen=True, slots=True)
class ProviderItem:
    """A native item that is neither text, thinking nor a call; *opaque* is JSON to be replayed verbatim."""

    slot: int
    opaque: str


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
    """The call in *slot* is whole; *arguments* is None when *raw* is not a JSON object."""

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
class Failed:
    """The call failed; *retry_after* is seconds, as the provider asked; *partial*: part of an answer had come."""

    kind: FailureKind
    message: str
    retryable: bool
    retry_after: float | None = None
    partial: bool = False


Delta = (
    Started
    | TextDelta
    | ReasoningDelta
    | ReasoningEnd
    | ProviderItem
    | ToolStart
    | ToolArgsDelta
    | ToolEnd
    | Refusal
    | UsageReport
    | Finished
    | Failed
)


class Entry(Protocol):
    """One message of the window and its ready request JSON, made once."""

    @property
    def message(self) -> Message: ...

    @property
    def wire(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: the frozen prefix, the window, and what this step may do.

    *model* is the name without the provider's prefix. With `controls.tool_choice` `none` the tools stay in the
    prefix and must not be called.
    """

    model: str
    snapshot: Snapshot
    messages: Sequence[Entry]
    controls: Controls
    session: str


class Provider(Protocol):
    """A model behind one wire protocol."""

    @property
    def name(self) -> str:
        """Return the prefix in `PARLEY_MODEL`, such as `anthropic`."""
        ...

    def encode(self, message: Message) -> bytes:
        """Return *message* as this wire's request JSON; called once per message of a window."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Sequence[Delta]]:
        """Yield batches of deltas, one per network read; closing it ends the model call at once."""
        ...
