"""The Responses stream: events in, neutral deltas out.

State is kept by output index and content or summary index, never by item id: gateways give an item another id in
each event. What deltas left out is taken from `.done` events and from the end of the response.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Any

import msgspec

from agent_core.agents import SEARCH_TOOLS
from agent_core.providers.base import (
    CallFailed,
    Finished,
    FinishReason,
    ModelCitation,
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
    decoded,
)
from agent_core.providers.citing import citation
from agent_core.providers.failing import failed, in_stream, said_in
from agent_core.providers.openai import items
from agent_core.providers.openai.events import EVENT, WHOLE, Event, Response, usage_of
from agent_core.providers.openai.items import Place, Slots

_Kind = type[ModelTextDelta | ModelReasoningDelta]
_TEXTS: dict[str, tuple[str, _Kind]] = {
    "response.output_text": ("content", ModelTextDelta),
    "response.reasoning_text": ("content", ModelReasoningDelta),
    "response.reasoning_summary_text": ("summary", ModelReasoningDelta),
}
_DELTAS: dict[str | None, tuple[str, _Kind]] = {f"{event}.delta": target for event, target in _TEXTS.items()}
_DONES = {f"{event}.done": target for event, target in _TEXTS.items()}
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_POLICIES = ("bio_policy", "misalignment_policy_violation", "image_content_policy_violation")
"""Error codes that say that the model may not answer this, rather than that it could not."""


@dataclass(slots=True)
class _Text:
    """A text as it grows; *fresh* is what came with this read."""

    kind: _Kind
    slot: int
    pieces: list[str] = field(default_factory=list[str])
    fresh: list[str] = field(default_factory=list[str])

    def flush(self) -> ModelDelta:
        text = self.fresh[0] if len(self.fresh) == 1 else "".join(self.fresh)
        self.pieces.append(text)
        self.fresh.clear()
        return self.kind(self.slot, text)

    def rest(self, final: str | None) -> list[ModelDelta]:
        """Return what *final*, the whole text, adds to the text so far."""
        text = "".join(self.pieces)
        if not final or len(final) <= len(text) or not final.startswith(text):
            return []
        self.fresh.append(final[len(text) :])
        return [self.flush()]


@dataclass(slots=True)
class _FunctionCall:
    """A call as it grows; *arguments* is its raw text once that is final. A *search* is one for tools."""

    slot: int
    id: str
    name: str
    custom: bool
    search: bool = False
    pieces: list[str] = field(default_factory=list[str])
    arguments: str | None = None


@dataclass(slots=True)
class _Item:
    """One output item; *pieces* are its native form once it is *done*, needed unless it is *plain*.

    *annotations* are those that came in events of their own.
    """

    index: int
    texts: dict[Place, _Text] = field(default_factory=dict[Place, _Text])
    annotations: list[tuple[Place, msgspec.Raw]] = field(default_factory=list[tuple[Place, msgspec.Raw]])
    call: _FunctionCall | None = None
    reasoning: bool = False
    done: bool = False
    plain: bool = True
    pieces: tuple[str | int, ...] = ()

    def slots(self) -> Slots:
        return {place: (text.slot, "".join(text.pieces)) for place, text in self.texts.items()}

    def cited(self, final: Iterable[tuple[Place, msgspec.Raw]] = ()) -> Iterator[ModelCitation]:
        """Return the sources of its texts: of its *final* annotations, or of those that came before."""
        for place, annotation in tuple(final) or self.annotations:
            text = self.texts.get(place)
            if text is not None and (cited := citation(annotation)) is not None:
                yield ModelCitation(text.slot, cited)


class ResponsesFold:
    """Fold one response of *model*."""

    def __init__(self, provider: str, model: str) -> None:
        self.over = False
        self._provider, self._model = provider, model
        self._id = ""
        self._started = self._refused = False
        self._slots = count()
        self._items: list[_Item] = []
        self._at: dict[int, _Item] = {}

    def take(self, events: Sequence[bytes]) -> list[ModelDelta]:
        out: list[ModelDelta] = []
        growing: _Text | None = None
        for data in events:
            if self.over or data == b"[DONE]":
                break
            event = EVENT.decode(data)
            text = self._growing(event)
            if growing is not None and text is not growing:
                out.append(growing.flush())
            growing = text
            if text is None:
                out += self._rare(event, data)
            else:
                text.fresh.append(event.delta)
        if growing is not None:
            out.append(growing.flush())
        if out and not self._started and not isinstance(out[0], CallFailed):
            out.insert(0, self._start(None))
        return out

    def end(self) -> list[ModelDelta]:
        if self.over:
            return []
        self.over = True
        return [failed("network", f"`{self._provider}` ended its stream before the end of the response")]

    def _growing(self, event: Event) -> _Text | None:
        """Return the text that *event* adds to; None when it is something else or adds nothing."""
        target = _DELTAS.get(event.type)
        if target is None or not event.delta or not isinstance(event.delta, str):
            return None
        return self._text(event, target)

    def _text(self, event: Event, target: tuple[str, _Kind]) -> _Text | None:
        part, kind = target
        number = event.summary_index if part == "summary" else event.content_index
        item = self._item(event.output_index)
        return None if item.done else self._text_at(item, (part, number or 0), kind)

    def _text_at(self, item: _Item, place: Place, kind: _Kind) -> _Text:
        text = item.texts.get(place)
        if text is None:
            text = item.texts[place] = _Text(kind, next(self._slots))
        return text

    def _item(self, index: int | None) -> _Item:
        item = self._at.get(index or 0)
        return item or self._new(index or 0)

    def _new(self, index: int) -> _Item:
        item = self._at[index] = _Item(index)
        self._items.append(item)
        return item

    def _rare(self, event: Event, data: bytes) -> list[ModelDelta]:
        match event.type:
            case "response.created":
                return [] if self._started else [self._start(WHOLE.decode(data).response)]
            case "response.output_item.added":
                return self._added(event.output_index or 0, WHOLE.decode(data).item)
            case "response.output_item.done":
                return list(self._done(event.output_index or 0, WHOLE.decode(data).item))
            case "response.function_call_arguments.delta":
                return self._arguments(event)
            case "response.function_call_arguments.done" | "response.custom_tool_call_input.done":
                if call := self._item(event.output_index).call:
                    whole = WHOLE.decode(data)
                    call.arguments = whole.input if call.custom else whole.arguments
                return []
            case "response.output_text.annotation.added":
                place = ("content", event.content_index or 0)
                self._item(event.output_index).annotations.append((place, WHOLE.decode(data).annotation))
                return []
            case "response.refusal.delta" | "response.refusal.done":
                again = event.type == "response.refusal.delta"
                return self._refuse(event.delta or WHOLE.decode(data).refusal, again=again)
            case "error" | None:
                return self._error(event, data)
            case kind if kind in _DONES:
                text = self._text(event, _DONES[kind])
                return text.rest(WHOLE.decode(data).text) if text else []
            case kind if kind in _ENDS:
                return list(self._end(kind, WHOLE.decode(data).response or Response()))
            case _:
                return []

    def _start(self, response: Response | None) -> Started:
        self._started = True
        self._id = (response and response.id) or ""
        return Started(self._id, (response and response.model) or self._model)

    def _added(self, index: int, raw: msgspec.Raw) -> list[ModelDelta]:
        """Begin an item; what it holds already is not final."""
        item = self._at.get(index)
        if item is None or item.done:
            item = self._new(index)
        data = items.read(raw)
        item.reasoning = data.type == "reasoning"
        is_named = data.call_id and (data.name or data.type == items.SEARCH)
        return self._called(item, data) if is_named and items.is_call(data) else []

    def _called(self, item: _Item, data: items.Item) -> list[ModelDelta]:
        """Begin the call of *item*, once; an id that the server left out is made up."""
        if item.call is not None:
            return []
        made_up = f"call_{self._id.removeprefix('resp_')}_{len(self._items)}"
        call = _FunctionCall(
            next(self._slots), data.call_id or data.id or made_up, data.name or "", data.type == "custom_tool_call"
        )
        if data.type == items.SEARCH:
            call.name, call.search = SEARCH_TOOLS, True
        item.call = call
        return [ToolStart(call.slot, f"{items.SEARCHED}{call.id}" if call.search else call.id, call.name)]

    def _arguments(self, event: Event) -> list[ModelDelta]:
        item = self._item(event.output_index)
        if item.call is None or item.done or not event.delta or not isinstance(event.delta, str):
            return []
        item.call.pieces.append(event.delta)
        return [ToolArgsDelta(item.call.slot, event.delta)]

    def _refuse(self, text: object, *, again: bool = False) -> list[ModelDelta]:
        """Report a refusal; its whole text only when it did not come in deltas."""
        if self._refused and not again:
            return []
        self._refused = True
        return [Refusal(text if isinstance(text, str) else "")]

    def _done(self, index: int, raw: msgspec.Raw) -> Iterator[ModelDelta]:
        """Close an item with its final form: emit what is missing, and keep the native form for the end."""
        item = self._item(index)
        data = items.read(raw)
        if item.done or data.type is None:
            return
        item.done, item.reasoning, item.plain = True, data.type == "reasoning", items.is_plain(data, raw)
        for place, final in items.texts(data, raw):
            kind = ModelTextDelta if data.type == "message" else ModelReasoningDelta
            yield from self._text_at(item, place, kind).rest(final)
        yield from item.cited(items.annotations(data, raw))
        for refusal in items.refusals(data, raw):
            yield from self._refuse(refusal)
        if items.is_call(data):
            yield from self._called(item, data)
            assert item.call is not None
            final = data.input if item.call.custom else data.arguments
            yield self._ended(item, item.call, final, whole=data.status != "incomplete")
        if item.call is None or (not item.call.custom and item.call.id == data.call_id):
            item.pieces = items.pieces(data, raw, item.slots())

    def _ended(self, item: _Item, call: _FunctionCall, final: object, *, whole: bool) -> ToolEnd:
        """End *call*; a custom one becomes a function's, so that its result can be sent like any other."""
        raw = items.raw_of(final) or call.arguments or "".join(call.pieces)
        if call.custom:
            raw = msgspec.json.encode({"input": raw}).decode()
        item.pieces = (
            items.search_call(call.id, raw) if call.search else items.function_call(call.id, call.name, raw),
        )
        return ToolEnd(call.slot, raw, items.arguments(raw) if whole else None)

    def _error(self, event: Event, data: bytes) -> list[ModelDelta]:
        """Fail for an `error` event, flat or nested; an event without a type is one when it has an `error`."""
        body = msgspec.json.decode(data, type=dict[str, Any])
        error: Any = body.get("error")
        return list(self._failed(error or body)) if error or event.type == "error" else []

    def _end(self, kind: str, response: Response) -> Iterator[ModelDelta]:
        if not self._started and kind != "response.failed":
            yield self._start(response)
        ending = kind.removeprefix("response.")
        if response.status in ("failed", "cancelled", "incomplete"):
            ending = response.status
        yield from self._filled(response)
        if usage := decoded(response.usage):
            yield UsageReport(usage_of(usage))
        if ending in ("failed", "cancelled"):
            yield from self._failed(response.error)
            return
        yield from self._rest(whole=ending == "completed")
        yield from self._native()
        self.over = True
        why = response.incomplete_details.reason if response.incomplete_details else None
        yield Finished(self._reason(ending, why), why or ending)

    def _filled(self, response: Response) -> Iterator[ModelDelta]:
        """Take from the last event the items that had no `output_item.done`."""
        has_items = bool(self._items)
        for index, raw in enumerate(response.output or ()):
            if not has_items or (index in self._at and not self._at[index].done):
                yield from self._done(index, raw)

    def _rest(self, *, whole: bool) -> Iterator[ModelDelta]:
        """Close the items that nothing closed: a text is kept as said, a call only of a *whole* response."""
        for item in self._items:
            if item.done:
                continue
            if item.call is not None and whole:
                yield self._ended(item, item.call, None, whole=True)
            else:
                yield from item.cited()
                texts = [text for text in item.texts.values() if text.kind is ModelTextDelta]
                item.pieces = items.native_text((text.slot, "".join(text.pieces)) for text in texts)

    def _native(self) -> Iterator[NativeItem]:
        """Return the native items in the order of the response.

        Reasoning is refused when the item it led to does not follow: it goes with that item, and with its call. A
        response of plain items needs no native form: the neutral one says the same.
        """
        if all(item.plain for item in self._items):
            return
        waiting: list[_Item] = []
        for item in sorted(self._items, key=attrgetter("index")):
            if item.reasoning:
                waiting.append(item)
            elif item.pieces:
                call = item.call.slot if item.call else None
                thought = [each for each in waiting if each.pieces] if item.done or item.call else []
                yield from (NativeItem(each.pieces, call) for each in (*thought, item))
                waiting.clear()

    def _reason(self, ending: str, why: str | None) -> FinishReason:
        if self._refused or why == "content_filter":
            return "refused"
        if ending == "incomplete":
            return "length"
        return "tools" if any(item.call is not None for item in self._items) else "done"

    def _failed(self, error: object) -> Iterator[ModelDelta]:
        self.over = True
        _, code, text = said_in(error)
        if code in _POLICIES:
            yield from self._refuse(text)
            yield Finished("refused", code)
        else:
            yield in_stream(self._provider, error)
