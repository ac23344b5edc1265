"""The little language of scripted answers: what a model says, calls, waits for, and how it fails.

An answer is a sequence of items, one answer per model call::

    [think("They want a sum."), call("calculate", expression="12 * 7")]
    [say("12 * 7 ", "is 84.")]

=====================================  ==================================================================
`say("a", "b")`, `say("ab", cut=2)`    text, one delta per string, or one string cut in equal pieces
`think(…)`                             reasoning, the same way
`call("tool", a=1)`                    a tool call; several make several calls in one step
`raw_call("tool", '{"a": ')`           a tool call with just these arguments, JSON or not
`refuse("No.")`                        a refusal
`usage(input=3, output=5)`             a usage report; what is not given is unknown
`together(item, item)`                 what these say arrives as one batch, like one network read
`flat(1000, rate=50)`                  many prebuilt text deltas at little cost, for benches
`pause(event)`, `sleep(2)`             wait for an `asyncio.Event`, or on the clock
`finish("length")`                     the end, with this reason; otherwise it is the fitting one
`fail("overloaded", retryable=True)`   the call fails, before or after the first token
`cut()`                                the stream ends without a word
`bug(ValueError("…"))`                 the provider itself breaks and raises
=====================================  ==================================================================

Nothing after `finish`, `fail`, `cut` or `bug` is played. Every item is a frozen value: an answer may be used
any number of times.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from agent_core.messages import Usage
from agent_core.providers.base import (
    CallFailed,
    FailureKind,
    Finished,
    FinishReason,
    ModelDelta,
    ModelTextDelta,
    Refusal,
    UsageReport,
)

FLAT_SLOT = -1


@dataclass(frozen=True, slots=True)
class Say:
    """Text, one delta per piece."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning, one delta per piece."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call; *pieces* joined are its raw arguments, *arguments* is None when they are no JSON object."""

    name: str
    pieces: tuple[str, ...]
    arguments: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Together:
    """What *items* say, as one batch."""

    items: "tuple[Spoken, ...]"


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait for *event*."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Sleep:
    """A wait of *seconds* on the provider's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Flat:
    """Ready batches, passed on as they are; *rate* batches per second, 0 is flat out."""

    batches: tuple[tuple[ModelDelta, ...], ...]
    rate: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The silent end of a stream."""


@dataclass(frozen=True, slots=True)
class Bug:
    """An error raised by the provider."""

    error: Exception


Spoken = Say | Think | ScriptedCall | Refusal | UsageReport | Finished | CallFailed
Item = Spoken | Together | Pause | Sleep | Flat | Cut | Bug
Answer = Sequence[Item]


def say(*text: str, cut: int = 1) -> Say:
    """Say *text*, one delta per string, each cut in *cut* pieces of about equal length."""
    return Say(_cut(text, cut))


def think(*text: str, cut: int = 1) -> Think:
    """Think *text*, one delta per string, each cut in *cut* pieces of about equal length."""
    return Think(_cut(text, cut))


def call(name: str, /, **arguments: Any) -> ScriptedCall:
    """Call the tool *name* with *arguments*."""
    return raw_call(name, json.dumps(arguments, ensure_ascii=False))


def raw_call(name: str, raw: str, *, cut: int = 1) -> ScriptedCall:
    """Call the tool *name* with *raw* as its arguments, in *cut* pieces.

    As real providers do, an empty *raw* and `null` count as no arguments.
    """
    return ScriptedCall(name, _cut((raw,), cut), _parse(raw))


def refuse(text: str = "I cannot help with that.") -> Refusal:
    """Refuse; unless the answer says otherwise it then ends as `refused`."""
    return Refusal(text)


def usage(
    *,
    input: int | None = None,
    output: int | None = None,
    reasoning: int | None = None,
    cache_read: int | None = None,
    cache_write_short: int | None = None,
    cache_write_long: int | None = None,
) -> UsageReport:
    """Report tokens; what is not given is unknown."""
    return UsageReport(Usage(input, output, reasoning, cache_read, cache_write_short, cache_write_long))


def together(*items: Spoken) -> Together:
    """Send what *items* say as one batch, like one network read."""
    return Together(items)


def pause(event: asyncio.Event) -> Pause:
    """Wait until *event* is set."""
    return Pause(event)


def sleep(seconds: float) -> Sleep:
    """Wait *seconds* on the provider's clock."""
    return Sleep(seconds)


def finish(reason: FinishReason = "done") -> Finished:
    """End in order with *reason*."""
    return Finished(reason)


def fail(
    kind: FailureKind = "overloaded",
    *,
    retryable: bool = True,
    retry_after: float | None = None,
    message: str = "The scripted model is overloaded.",
) -> CallFailed:
    """Fail the model call; *retry_after* is seconds."""
    return CallFailed(kind, message, retryable, retry_after)


def cut() -> Cut:
    """End the stream without a word, as a broken connection does."""
    return Cut()


def bug(error: Exception | None = None) -> Bug:
    """Raise *error*: the provider itself is broken."""
    return Bug(error or RuntimeError("The scripted provider raised this error on request."))


def flat(deltas: int, *, text: str = "word ", per_batch: int = 1, rate: float = 0) -> Flat:
    """Stream *deltas* times *text*, *per_batch* deltas in each batch, at *rate* deltas per second (0: flat out).

    Everything is built here, once, so that playing it costs next to nothing: keep the answer and use it again.
    """
    delta = ModelTextDelta(FLAT_SLOT, text)
    full, rest = divmod(deltas, per_batch)
    batches = [(delta,) * per_batch] * full + ([(delta,) * rest] if rest else [])
    return Flat(tuple(batches), rate / per_batch)


def _cut(texts: tuple[str, ...], pieces: int) -> tuple[str, ...]:
    if pieces == 1:
        return texts
    parts: list[str] = []
    for text in texts:
        borders = [len(text) * n // pieces for n in range(pieces + 1)]
        parts += [text[start:end] for start, end in pairwise(borders) if end > start]
    return tuple(parts)


def _parse(raw: str) -> dict[str, Any] | None:
    if raw.strip() in {"", "null"}:
        return {}
    try:
        parsed = json.loads(raw)
    except ValueError:
        return None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None
