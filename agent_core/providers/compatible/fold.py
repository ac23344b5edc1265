"""The Chat Completions stream: chunks in, neutral deltas out.

An answer is complete with `[DONE]`, or with a `finish_reason` and the end of the stream. Whether tools are to be run is
decided by the calls, never by the `finish_reason`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from agent_core.messages import UNKNOWN_USAGE, Usage
from agent_core.providers.base import (
    NULL,
    CallFailed,
    Finished,
    FinishReason,
    ModelDelta,
    ModelReasoningDelta,
    ModelTextDelta,
    Refusal,
    Started,
    UsageReport,
    counted,
    decoded,
)
from agent_core.providers.compatible.calls import CallDelta, CallFold
from agent_core.providers.compatible.native import Thinking, native_item
from agent_core.providers.failing import failed, in_stream

_THOUGHT, _TEXT, _CALLS = 0, 1, 2
"""The slots: thinking and text are one part each in this wire, calls count from the third."""
_LENGTH = ("length", "max_tokens", "model_length")
_BROKEN = ("error", "abort", "insufficient_system_resource")
"""Reasons of servers that failed in the middle: OpenRouter, vLLM and SGLang, DeepSeek."""


class _ChatDelta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[CallDelta | None] | None = None


class _Choice(msgspec.Struct):
    delta: _ChatDelta | None = None
    message: _ChatDelta | None = None
    finish_reason: str | None = None
    error: Any = None


class _Chunk(msgspec.Struct):
    id: Any = None
    model: Any = None
    choices: list[_Choice | None] | None = None
    usage: msgspec.Raw = NULL
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk | None)
_NO_CHOICE = _Choice()


class _Batch:
    """The deltas of one read; texts of a kind that follow each other become one."""

    __slots__ = ("_kind", "_texts", "deltas")

    def __init__(self) -> None:
        self.deltas: list[ModelDelta] = []
        self._kind: type[ModelTextDelta | ModelReasoningDelta] | None = None
        self._texts: list[str] = []

    def say(self, kind: type[ModelTextDelta | ModelReasoningDelta], text: str) -> None:
        if kind is not self._kind:
            self.flush()
            self._kind = kind
        self._texts.append(text)

    def add(self, deltas: Iterator[ModelDelta]) -> None:
        for delta in deltas:
            self.flush()
            self.deltas.append(delta)

    def flush(self) -> list[ModelDelta]:
        if self._kind is not None:
            slot = _TEXT if self._kind is ModelTextDelta else _THOUGHT
            self.deltas.append(self._kind(slot, "".join(self._texts)))
            self._kind = None
            self._texts.clear()
        return self.deltas


class ChatFold:
    """Fold one answer of *model*."""

    def __init__(self, provider: str, model: str) -> None:
        self.over = False
        self._provider, self._model = provider, model
        self._calls, self._thinking = CallFold(_CALLS), Thinking(_THOUGHT)
        self._started = self._spoken = self._refused = self._worded = False
        self._reason: str | None = None

    def take(self, events: Sequence[bytes]) -> list[ModelDelta]:
        batch = _Batch()
        for data in events:
            if data.startswith(b"[") and data.strip(b"[] ") == b"DONE":
                batch.add(self._done())
            elif data.startswith(b"[{"):  # Gemini's endpoint sends errors as lists
                batch.add(iter((self._fail(in_stream(self._provider, msgspec.json.decode(data))),)))
            elif chunk := _CHUNK.decode(data):
                self._fold(chunk, data, batch)
            if self.over:
                break
        return batch.flush()

    def end(self) -> list[ModelDelta]:
        if self.over:
            return []
        if self._reason is not None:
            return list(self._finish())
        return [self._fail(failed("network", f"`{self._provider}` ended its stream before the end of the answer"))]

    def _fold(self, chunk: _Chunk, data: bytes, batch: _Batch) -> None:
        choice = (chunk.choices[0] if chunk.choices else None) or _NO_CHOICE
        if chunk.error or choice.error or choice.finish_reason in _BROKEN or not chunk.choices:
            batch.add(self._odd(chunk, choice, data))
            if self.over:
                return
        if not self._started:
            batch.add(self._start(chunk))
        # A whole message in place of deltas is shown once; after deltas it only repeats them.
        delta = choice.delta or (None if self._spoken else choice.message)
        if delta is not None:
            self._say(delta, batch)
        if choice.finish_reason:
            self._reason = choice.finish_reason
        if chunk.usage != NULL:
            batch.add(_usage(chunk.usage))

    def _say(self, delta: _ChatDelta, batch: _Batch) -> None:
        if delta.reasoning_content is not None or delta.reasoning is not None or delta.reasoning_details:
            self._think(delta, batch)
        if text := delta.content:
            self._spoken = True
            words = text if isinstance(text, str) else _content_text(text)
            self._worded = self._worded or bool(words.strip())
            batch.say(ModelTextDelta, words)
        if delta.tool_calls:
            self._spoken = True
            for call in delta.tool_calls:
                if call is not None:
                    batch.add(self._calls.take(call))
        if delta.refusal and isinstance(delta.refusal, str):
            self._refused = True
            batch.add(iter((Refusal(delta.refusal),)))

    def _think(self, delta: _ChatDelta, batch: _Batch) -> None:
        if delta.reasoning_content is not None or delta.reasoning is not None:
            thought = _content_text(delta.reasoning_content or delta.reasoning or "")
            self._thinking.say("reasoning" if delta.reasoning_content is None else "reasoning_content", thought)
            if thought:
                self._spoken = True
                batch.say(ModelReasoningDelta, thought)
        self._thinking.detail(delta.reasoning_details)

    def _odd(self, chunk: _Chunk, choice: _Choice, data: bytes) -> Iterator[ModelDelta]:
        """Fail when the chunk holds an error, in any of its shapes."""
        if error := chunk.error or choice.error:
            yield self._fail(in_stream(self._provider, {"error": error}))
        elif choice.finish_reason in _BROKEN:
            kind = "error" if choice.finish_reason in ("error", "abort") else "overloaded"
            yield self._fail(failed(kind, f"`{self._provider}` gave its answer up: {choice.finish_reason}"))
        elif chunk.choices is None and chunk.usage == NULL:
            body = msgspec.json.decode(data, type=dict[str, Any])
            if "error" in (body.get("object"), body.get("type")) or body.get("message") or body.get("detail"):
                yield self._fail(in_stream(self._provider, body))

    def _start(self, chunk: _Chunk) -> Iterator[ModelDelta]:
        self._started = True
        self._calls.answer = str(chunk.id or "")
        yield Started(str(chunk.id or ""), str(chunk.model or self._model))

    def _done(self) -> Iterator[ModelDelta]:
        if self._started:
            yield from self._finish()
        else:
            yield self._fail(failed("network", f"`{self._provider}` ended its stream without an answer"))

    def _finish(self) -> Iterator[ModelDelta]:
        self.over = True
        reason = self._neutral()
        if reason != "length":  # the last call was cut there
            yield from self._calls.end()
            if reason != "refused":
                yield from native_item(_TEXT if self._worded else None, self._thinking, self._calls.whole())
        yield Finished(reason, self._reason or "")

    def _neutral(self) -> FinishReason:
        if self._refused or self._reason == "content_filter":
            return "refused"
        if self._reason in _LENGTH:
            return "length"
        return "tools" if self._calls else "done"

    def _fail(self, failure: CallFailed) -> CallFailed:
        self.over = True
        return failure


def _content_text(text: object) -> str:
    """Return the text of content that came as a string, or as a list of parts."""
    if isinstance(text, str):
        return text
    parts = cast("list[Any]", text) if isinstance(text, list) else [text]
    texts = [cast("dict[str, Any]", part).get("text") for part in parts if isinstance(part, dict)]
    return "".join(each for each in texts if isinstance(each, str))


def _usage(raw: msgspec.Raw) -> Iterator[ModelDelta]:
    """Report the usage; the prompt's total is split into tokens read from a cache, written to it, and uncached."""
    usage = decoded(raw)
    plain, output = counted(usage, "prompt_tokens"), counted(usage, "completion_tokens")
    read, written = (counted(usage, "prompt_tokens_details", each) for each in ("cached_tokens", "cache_write_tokens"))
    counts = Usage(
        input=None if plain is None else max(0, plain - (read or 0) - (written or 0)),
        output=output,
        reasoning=counted(usage, "completion_tokens_details", "reasoning_tokens"),
        cache_read=read,
        cache_write_short=written,
        cache_write_long=None,
    )
    if counts != UNKNOWN_USAGE:
        yield UsageReport(counts)
