"""The Messages stream as a fold: Anthropic's events in, neutral deltas out."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from agent_core.ids import new_id
from agent_core.messages import UNKNOWN_USAGE, Usage
from agent_core.providers.anthropic.blocks import ContentBlock, arguments, json_of, raw_text
from agent_core.providers.base import (
    NULL,
    Finished,
    FinishReason,
    ModelDelta,
    ModelReasoningDelta,
    ModelTextDelta,
    NativeItem,
    Refusal,
    Started,
    ToolArgsDelta,
    ToolEnd,
    ToolStart,
    UsageReport,
    counted,
    decoded,
)
from agent_core.providers.failing import failed, in_stream

_NOTHING = msgspec.Raw(b"")
_WINDOW_FULL = "model_context_window_exceeded"
_REASONS: dict[str, FinishReason] = {
    "end_turn": "done",
    "stop_sequence": "done",
    "tool_use": "tools",
    "max_tokens": "length",
    _WINDOW_FULL: "length",
    "pause_turn": "continue",
    "compaction": "continue",
    "refusal": "refused",
}
_THINKING = ("thinking", "redacted_thinking")


class _Change(msgspec.Struct):
    """What is new in a block, or, without a type, in the message."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: msgspec.Raw = _NOTHING
    content: msgspec.Raw = _NOTHING
    encrypted_content: msgspec.Raw = _NOTHING
    stop_reason: str | None = None
    stop_details: "_StopDetails | None" = None


class _StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class _MessageStart(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: msgspec.Raw = NULL
    content: list[dict[str, msgspec.Raw]] | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str | None = None
    index: int | None = None
    delta: _Change | None = None
    content_block: dict[str, msgspec.Raw] | None = None
    message: _MessageStart | None = None
    usage: msgspec.Raw = NULL


_EVENT = msgspec.json.Decoder(_Event)


class AnthropicFold:
    """One answer as it comes in; blocks are known by the wire's own index as long as they are open."""

    def __init__(self) -> None:
        self.over = False
        self._blocks: list[ContentBlock] = []
        self._open: dict[int | None, ContentBlock] = {}
        self._growing: ContentBlock | None = None
        self._fresh: list[str] = []
        self._usage: dict[str, Any] = {}
        self._stop_reason = ""
        self._refusal = ""
        self._is_begun = False

    def take(self, events: Sequence[bytes]) -> list[ModelDelta]:
        """Fold in the data of whole events; text of one block that came together is one delta."""
        out: list[ModelDelta] = []
        for data in events:
            event = _EVENT.decode(data)
            if event.type == "content_block_delta":
                self._grow(event, out)
                continue
            self._emit_text(out)
            self._note(event, data, out)
            if self.over:
                return out
        self._emit_text(out)
        return out

    def end(self) -> list[ModelDelta]:
        """Return the failure for a stream without its last event."""
        return [] if self.over else [failed("network", "`anthropic` broke off its answer before `message_stop`")]

    def _grow(self, event: _Event, out: list[ModelDelta]) -> None:
        block, change = self._open.get(event.index), event.delta
        if block is None or change is None:
            return
        match change.type:
            case "text_delta" if block.kind == "text":
                self._add_text(block, change.text, out)
            case "thinking_delta" if block.kind == "thinking":
                self._add_text(block, change.thinking, out)
            case "input_json_delta" if change.partial_json and block.kind not in ("text", "thinking"):
                block.texts.append(change.partial_json)
                if block.kind == "tool_use":
                    self._emit_text(out)
                    out.append(ToolArgsDelta(block.slot, change.partial_json))
            case "signature_delta" if change.signature:
                block.members["signature"] = json_of(change.signature)
            case "citations_delta" if change.citation != _NOTHING:
                block.citations.append(raw_text(change.citation))
            case "compaction_delta":
                fields = {"content": change.content, "encrypted_content": change.encrypted_content}
                block.members |= {name: raw_text(raw) for name, raw in fields.items() if raw != _NOTHING}
            case _:
                return

    def _add_text(self, block: ContentBlock, text: str | None, out: list[ModelDelta]) -> None:
        if block is not self._growing:
            self._emit_text(out)
            self._growing = block
        if text:
            self._fresh.append(text)

    def _emit_text(self, out: list[ModelDelta]) -> None:
        """Emit the text that came since the last delta."""
        if self._growing is None or not self._fresh:
            return
        text, block = "".join(self._fresh), self._growing
        self._fresh.clear()
        block.texts.append(text)
        out.append(ModelTextDelta(block.slot, text) if block.kind == "text" else ModelReasoningDelta(block.slot, text))

    def _note(self, event: _Event, data: bytes, out: list[ModelDelta]) -> None:
        match event.type:
            case "message_start" if event.message and not self._is_begun:
                self._start(event.message, out)
            case "content_block_start" if event.content_block:
                self._begin(event.index, event.content_block, out)
            case "content_block_stop":
                self._close(event.index, out)
            case "message_delta":
                if change := event.delta:
                    self._stop_reason = change.stop_reason or self._stop_reason
                    if details := change.stop_details:
                        self._refusal = details.explanation or details.category or self._refusal
                self._count(decoded(event.usage), out)
            case "message_stop":
                self._finish(out)
            case "error":
                self.over = True
                out.append(in_stream("anthropic", msgspec.json.decode(data)))
            case _:
                return

    def _start(self, message: _MessageStart, out: list[ModelDelta]) -> None:
        """Fold the first event in; it may hold whole blocks, the remaining ones of a paused answer."""
        self._is_begun, self._stop_reason = True, message.stop_reason or ""
        out.append(Started(message.id or "", message.model or ""))
        self._count(decoded(message.usage), out, begins=True)
        for block in message.content or ():
            self._begin(None, block, out)
        self._close(None, out)

    def _begin(self, index: int | None, members: dict[str, msgspec.Raw], out: list[ModelDelta]) -> None:
        self._close(index, out)  # for servers that number every block alike
        block = ContentBlock(len(self._blocks), {name: raw_text(raw) for name, raw in members.items()})
        before = self._blocks[-1] if self._blocks else block
        if block.kind == before.kind == "text" and block is not before and before not in self._open.values():
            block.slot, block.start = before.slot, before.end  # it may be the rest of a sentence
        self._blocks.append(block)
        self._open[index] = block
        if block.kind in ("text", "thinking"):
            self._add_text(block, block.word(block.kind), out)
        elif block.kind == "tool_use":
            call = block.word("id") or new_id("toolu")
            block.members["id"] = json_of(call)
            out.append(ToolStart(block.slot, call, block.word("name")))

    def _close(self, index: int | None, out: list[ModelDelta]) -> None:
        block = self._open.pop(index, None)
        if block is not None and block.kind == "tool_use":
            out.append(ToolEnd(block.slot, block.raw, arguments(block.raw)))
        elif block is not None and block.kind == "text":
            self._emit_text(out)
            if block.texts:
                out += block.cited

    def _count(self, usage: object, out: list[ModelDelta], *, begins: bool = False) -> None:
        """Merge *usage*: counts are totals, absent ones stay; the output of an answer that only *begins* is none."""
        if isinstance(usage, dict):
            totals = cast("dict[str, Any]", usage)
            absent = {"output_tokens"} if begins else set[str]()
            self._usage |= {name: count for name, count in totals.items() if count is not None and name not in absent}
            out.append(UsageReport(_neutral(self._usage)))

    def _finish(self, out: list[ModelDelta]) -> None:
        for index in list(self._open):
            self._close(index, out)
        self.over = True
        reason = _REASONS.get(self._stop_reason, "done")
        if self._stop_reason == _WINDOW_FULL and not self._has_text:
            out.append(failed("context_overflow", f"`anthropic` broke off its answer with {_WINDOW_FULL}"))
            return
        lengths = {block.slot: block.end for block in self._blocks}
        if reason == "refused":
            out.append(Refusal(self._refusal))
        else:
            if reason == "continue" and (cut := self._paragraph()):
                out.append(cut)
                lengths[cut.slot] += len(cut.text)
            out += self._natives(lengths, whole=reason == "continue")
        out.append(Finished(reason, self._stop_reason))

    @property
    def _has_text(self) -> bool:
        """Return whether the answer holds text for people: it was paid for, so it is kept."""
        return any(block.kind == "text" and block.text.strip() for block in self._blocks)

    def _paragraph(self) -> ModelTextDelta | None:
        """Return the end of the last paragraph of a paused answer; None if its text may go on in the next answer.

        Texts of two answers are joined as they come, but these have the use of a tool of the server between them.
        """
        last = next((block for block in reversed(self._blocks) if block.kind == "text"), None)
        if last is None or last is self._blocks[-1] or last.text.endswith("\n"):
            return None
        return ModelTextDelta(last.slot, "\n\n") if self._has_text else None

    def _natives(self, lengths: dict[int, int], *, whole: bool) -> Iterator[NativeItem]:
        """Return the blocks as they must be sent back.

        An answer must not end with thinking. So thinking goes with what follows it, a call too, which may be dropped
        when the answer was cut; only an answer that is to be continued goes back *whole*. Thinking is bound to all that
        precedes it: after a block that is not sent back it is left out, and after a call it goes with that call.
        One of plain text and plain calls needs no native form: the neutral one says the same. *lengths* are those of
        the texts by their slots.
        """
        if not whole and all(block.is_plain for block in self._blocks):
            return
        held: list[NativeItem] = []
        bound, is_changed = None, False
        for block in self._blocks:
            pieces, thinks = block.native(lengths[block.slot]), block.kind in _THINKING
            is_changed = is_changed or not pieces
            if not pieces or (thinks and is_changed):
                continue
            call = block.slot if block.kind == "tool_use" else None
            held.append(NativeItem(pieces, bound if thinks else call))
            bound = call if bound is None else bound
            if whole or not thinks:
                yield from (each if each.call is not None else NativeItem(each.pieces, call) for each in held)
                held = []


def _neutral(usage: dict[str, Any]) -> Usage:
    """Return *usage* in our terms; a cache write without a time to live counts as a short one."""
    written, long = (
        counted(usage, "cache_creation_input_tokens"),
        counted(usage, "cache_creation", "ephemeral_1h_input_tokens"),
    )
    if long is None and written is not None:
        long = 0
    split = counted(usage, "cache_creation", "ephemeral_5m_input_tokens")
    short = split if written is None else max(0, written - (long or 0))
    return msgspec.structs.replace(
        UNKNOWN_USAGE,
        input=counted(usage, "input_tokens"),
        output=counted(usage, "output_tokens"),
        reasoning=counted(usage, "output_tokens_details", "thinking_tokens"),
        cache_read=counted(usage, "cache_read_input_tokens"),
        cache_write_short=short,
        cache_write_long=long,
    )
