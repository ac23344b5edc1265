"""OpenAI's models: requests of the Responses API, and the fold of a stream into an answer."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count, repeat
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core.agents import SEARCH_TOOLS, Snapshot, ToolSpec
from agent_core.controls import Abilities, Controls, NamedTool
from agent_core.messages import File, Message, Part, Text, ToolCall, ToolResult, Usage
from agent_core.providers import base
from agent_core.providers import openai_items as items
from agent_core.providers.base import (
    ANSWER,
    NO_EXTRAS,
    NULL,
    CallFailed,
    Encode,
    Extras,
    Files,
    Finished,
    FinishReason,
    ModelCitation,
    ModelDelta,
    ModelReasoningDelta,
    ModelTextDelta,
    NativeItem,
    Readable,
    Refusal,
    Request,
    RequestEntry,
    RewrittenEntry,
    Started,
    Starts,
    ToolArgsDelta,
    ToolEnd,
    ToolStart,
    UsageReport,
    Vision,
    arguments,
    blind,
    citation,
    counted,
    decoded,
    joined,
    json_of,
    note,
    of_openai,
    plain_name,
    readable,
    verbatim,
)
from agent_core.providers.client import SdkClient
from agent_core.providers.failing import failed, in_stream, refuses_summaries, said_in
from agent_core.providers.openai_items import (
    BREAKPOINT,
    SEARCH,
    SEARCH_OUTPUT,
    SEARCHED,
    OpenAISide,
    Place,
    Slots,
    cache_fields,
    function,
    function_call,
    has_breakpoints,
    is_openai,
    raw_of,
    read,
    sdk_of,
    search_output,
)
from agent_core.schemas import is_closed


class Event(msgspec.Struct, gc=False):
    """The fields of the frequent events; `delta` is not a text in some that we do not read."""

    type: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Any = None


class _Why(msgspec.Struct):
    reason: str | None = None


class Response(msgspec.Struct):
    """A response as its first and last events describe it."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: _Why | None = None
    usage: msgspec.Raw = NULL
    output: list[msgspec.Raw] | None = None


class Whole(msgspec.Struct):
    """The fields of the other events that we read."""

    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: msgspec.Raw = msgspec.Raw()
    annotation: msgspec.Raw = msgspec.Raw()
    response: Response | None = None


EVENT = msgspec.json.Decoder(Event)
WHOLE = msgspec.json.Decoder(Whole)


def usage_of(usage: Any) -> Usage:
    """Return *usage* with the cached tokens taken out of the total."""
    details = "input_tokens_details"
    written = [counted(usage, details, "cache_write_tokens_details", f"ttl_{life}_tokens") for life in ("30m", "12h")]
    if written == [None, None]:
        written = [counted(usage, details, "cache_write_tokens"), None]
    counts, total = (counted(usage, details, "cached_tokens"), *written), counted(usage, "input_tokens")
    plain = None if total is None else max(0, total - sum(n or 0 for n in counts))
    thought = counted(usage, "output_tokens_details", "reasoning_tokens")
    return Usage(plain, counted(usage, "output_tokens"), thought, *counts)


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
        return ToolEnd(call.slot, raw, arguments(raw) if whole else None)

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


_NAME_LENGTH = 64
_EMPTY = "(no output)"
Json = Mapping[str, Any]


def encode(reader: str, message: Message, files: Files) -> bytes:
    """Return *message* for *reader*, `provider:model`: its own answers verbatim, those of others as text and calls."""
    match message.role:
        case "user":
            items: Sequence[Json] = _user(message, files)
        case "tool":
            items = _results(reader, message, files)
        case "assistant":
            if message.native is not None and message.native.model == reader:
                return verbatim(message, message.native.pieces).encode()
            return ",".join(_assistant(message)).encode()
    return b",".join(map(msgspec.json.encode, items))


def unloaded(entries: Sequence[RequestEntry]) -> Sequence[RequestEntry]:
    """Return *entries* with searches as calls of a function, and what they found as text.

    For a server that was found to know no search: it refuses the items of one in the conversation too.
    """
    return [
        RewrittenEntry(each.message, _without_searches(each)) if b'"tool_search_' in each.wire else each
        for each in entries
    ]


def _without_searches(entry: RequestEntry) -> bytes:
    raws = msgspec.json.decode(b"[%s]" % entry.wire, type=list[msgspec.Raw])
    results = [part for part in entry.message.parts if isinstance(part, ToolResult)]
    if entry.message.role == "tool":  # notes after the outputs are in these now
        return b",".join(_plain_output(raw, result) for raw, result in zip(raws, results, strict=False))
    return b",".join(map(_plain_call, raws)) if entry.message.role == "assistant" else entry.wire


def _plain_output(raw: msgspec.Raw, result: ToolResult) -> bytes:
    if (item := read(raw)).type != SEARCH_OUTPUT:
        return bytes(raw)
    output = {"type": "function_call_output", "call_id": item.call_id, "output": _output(result, {})}
    return msgspec.json.encode(output)


def _plain_call(raw: msgspec.Raw) -> bytes:
    item = read(raw)
    if item.type != SEARCH or item.execution != "client":
        return bytes(raw)
    return function_call(item.call_id or "", SEARCH_TOOLS, raw_of(item.arguments)).encode()


def _user(message: Message, files: Files) -> list[Json]:
    content = list(_contents(message.parts, files))
    return [{"type": "message", "role": "user", "content": content}] if content else []


def _assistant(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case ToolCall(call, name, arguments):
                raw = json_of(arguments)
                yield function_call(call, plain_name(name, _NAME_LENGTH), raw)
            case Text() | File():
                text = part.text if isinstance(part, Text) else note(part, "it is not repeated here")
                if text.strip():
                    yield msgspec.json.encode({"type": "message", "role": "assistant", "content": text}).decode()
            case _:
                continue


def _results(reader: str, message: Message, files: Files) -> list[Json]:
    """Return an output for each result, under the model's own call ids where it reads its own calls.

    A search of its own is answered with the tools that were loaded; any other with their definitions as text. Such an
    answer has no place for why a search did not succeed: a note after all outputs has it.
    """
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    own = message.native is not None and message.native.model == reader
    calls = message.native.calls if own and message.native else repeat(None)
    answered = [(call or result.call, result) for call, result in zip(calls, results, strict=own)]
    items = [_result(call, result, files) for call, result in answered]
    return [*items, *(_failed_search(result) for call, result in answered if _is_failed_search(call, result))]


def _is_failed_search(call: str, result: ToolResult) -> bool:
    return call.startswith(SEARCHED) and result.outcome != "done"


def _failed_search(result: ToolResult) -> Json:
    words = "\n".join(part.text for part in result.parts if isinstance(part, Text))
    text = f"[A search for tools did not succeed: {result.outcome}. It found nothing because of that.]\n{words}"
    return {"type": "message", "role": "developer", "content": [_text_block(text.rstrip())]}


def _result(call: str, result: ToolResult, files: Files) -> Json:
    if call.startswith(SEARCHED):
        return search_output(call.removeprefix(SEARCHED), result.loaded)
    return {"type": "function_call_output", "call_id": call, "output": _output(result, files)}


def _output(result: ToolResult, files: Files) -> str | list[Json]:
    contents = list(_contents(result.parts, files))
    if result.outcome != "done":
        contents.insert(0, _text_block(f"[This call did not succeed: {result.outcome}]"))
    if all(each["type"] == "input_text" for each in contents):
        return "\n\n".join(each["text"] for each in contents) or _EMPTY
    return contents


def _contents(parts: Sequence[Part], files: Files) -> Iterator[Json]:
    return map(_content_block, readable(parts, files))


def _content_block(content: Readable | str) -> Json:
    match content:
        case str(text):
            return _text_block(text)
        case Readable("image") as image:
            return {"type": "input_image", "detail": "auto", "image_url": image.url}
        case document:
            return {"type": "input_file", "filename": document.name, "file_data": document.url}


def _text_block(text: str) -> Json:
    return {"type": "input_text", "text": text}


NAME = "openai"
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
MIN_OUTPUT_TOKENS = 16
"""The smallest bound of an answer that Responses accepts."""


def openai(
    *,
    api_key: str | None,
    base_url: str | None = None,
    idle: float = 600.0,
    name: str = NAME,
    extras: Extras = NO_EXTRAS,
    official: bool | None = None,
    vision: Vision | None = None,
) -> "OpenAIProvider":
    """Return the provider *name*; *idle* is the seconds without a byte after which an answer counts as cut.

    Without *api_key* no header has one, but *extras* may. *official* is whether OpenAI itself answers at *base_url*, as
    its host says unless it is given.
    """
    make = sdk_of(api_key, base_url, extras, keyless=api_key is None)
    official = is_openai(base_url) if official is None else official
    client = SdkClient(name, make, idle=idle, secrets=extras.secrets)
    return OpenAIProvider(client, name, official=official, vision=vision)


class OpenAIProvider(OpenAISide):
    """Asks OpenAI's models, for summaries of their thinking too, until one refuses: some organizations get none.

    *official* when no other server does, so that it takes what it documents of its cache.
    """

    def __init__(
        self, client: SdkClient, name: str = NAME, *, official: bool = True, vision: Vision | None = None
    ) -> None:
        super().__init__(client, name, vision, official=official)
        self._encoders: dict[str, Encode] = {}
        self._unsummarized = set[str]()
        self._starts = Starts(_head)

    def able(self, model: str) -> Abilities:
        marked, searches = self._fields.taken(model), self._fields.taken(model, "search")
        return able(model, official=self._official, marked=marked, searches=searches, vision=self._vision)

    def encoder(self, model: str) -> Encode:
        made = self._encoders.setdefault(model, partial(encode, f"{self.name}:{model}"))
        return made if self.able(model).vision else blind(made)

    def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        fold, learn = ResponsesFold(self.name, request.model), partial(self._learn, request.model)
        at = (request.session, request.snapshot.hash)
        loads = request.snapshot.searches and self._fields.taken_by(at, request.model, "search")
        loads = loads and self.able(request.model).searches
        plain, bare = (partial(self._body, request, plain=True, loads=each) for each in (loads, False))
        spares = [self._fields.without(request.model, plain)] if self._takes(request.model) else []
        if loads:
            spares.append(self._fields.without(request.model, bare, "search", at))
        return self._client.stream("/responses", self._body(request, loads=loads), fold, learn, spares)

    def _learn(self, model: str, refusal: CallFailed) -> None:
        """Note that *model* refuses summaries of its thinking."""
        if refuses_summaries(refusal.message):
            self._unsummarized.add(model)

    def _body(self, request: Request, *, plain: bool = False, loads: bool = False) -> bytes:
        """Return the request; a *plain* one says nothing of the cache. *loads*: the search is one that loads tools."""
        takes = not plain and self._takes(request.model)
        marked = takes and request.cache is not None and has_breakpoints(request.model)
        head = self._starts.of(request.snapshot, marked, loads)
        summary = request.model not in self._unsummarized
        controls = _without_search(request.controls) if loads else request.controls
        settings = _settings(request.model, controls, tools=bool(request.snapshot.tools), summary=summary)
        rest = msgspec.json.encode(settings | cache_fields(request) if takes else settings)
        entries = unloaded(request.messages) if request.snapshot.searches and not loads else request.messages
        return joined(head, (entry.wire for entry in entries), b"]," + rest[1:])


@lru_cache(maxsize=256)
def able(model: str, *, official: bool, marked: bool, searches: bool = True, vision: Vision | None = None) -> Abilities:
    """Return what the API enforces, and where it is the *official* one how its cache works; asked for often."""
    entry = base.find(listed := f"{NAME}:{model}")
    structured = "any" if base.holds(entry) else "none"
    return Abilities(
        structured=structured,
        caching=of_openai(entry) if official and marked else None,
        listed_as=listed,
        searches=entry.tool_search and official and searches,
        vision=base.sees(listed, vision),
    )


def _head(snapshot: Snapshot, marked: bool, loads: bool) -> bytes:  # noqa: FBT001 - parts of a key, see `Starts`
    """Return a request up to its first item: the tools, and the system's texts as developer messages.

    Not as `instructions`, which cannot carry a cache breakpoint. When *marked*, each message ends in one; the end of
    the conversation gets one from the API itself. When it *loads*, the router's search is one whose results the API
    takes as tools, at the end of the conversation.
    """
    tools = [
        _search(tool) if loads and tool.name == SEARCH_TOOLS else function(tool.name, tool.description, tool.parameters)
        for tool in snapshot.tools
    ]
    mark = BREAKPOINT if marked else {}
    texts = [text for text in (snapshot.shared, snapshot.own) if text.strip()]
    parts = [{"type": "input_text", "text": text, **mark} for text in texts]
    items = [{"type": "message", "role": "developer", "content": [part]} for part in parts]
    first = b",".join(map(msgspec.json.encode, items))
    listed = b'"tools":' + msgspec.json.encode(tools) + b"," if tools else b""
    return b"".join((b"{", listed, b'"input":[', first))


def _search(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool.description,
        "parameters": tool.parameters,
    }


def _without_search(controls: Controls) -> Controls:
    """Return *controls* as they can be said where the search is no function, and what it loads is in no list.

    A choice among some tools, or of the search, is left to the core, which runs no other call.
    """
    if isinstance(controls.tool_choice, NamedTool) and controls.tool_choice.tool == SEARCH_TOOLS:
        return replace(controls, tool_choice="required", active_tools=None)
    searched = controls.active_tools is not None and SEARCH_TOOLS in controls.active_tools
    return replace(controls, active_tools=None) if searched else controls


def _settings(model: str, controls: Controls, *, tools: bool, summary: bool) -> dict[str, Any]:
    """Return the body after the prefix; a model that is not in the table gets all options that were set.

    One that is in it and thinks is asked to show a *summary*, and to send its thinking encrypted, for the next request.
    """
    entry = base.find(f"{NAME}:{model}")
    settings: dict[str, Any] = {"model": model, "stream": True, "store": False}
    if tools:
        settings["tool_choice"] = _choice(controls)
    if controls.max_output_tokens is not None:
        settings["max_output_tokens"] = max(MIN_OUTPUT_TOKENS, controls.max_output_tokens)
    level = None
    if controls.effort is not None and (entry.efforts or entry is base.UNKNOWN):
        level = base.effort(entry, controls.effort, EFFORTS)
    thinking = {"effort": level} if level else {}
    if entry.efforts:
        settings["include"] = ["reasoning.encrypted_content"]
        thinking |= {"summary": "auto"} if summary and level != "none" else {}
    if thinking:
        settings["reasoning"] = thinking
    if controls.temperature is not None and base.tempered(entry, level):
        settings["temperature"] = controls.temperature
    if (schema := controls.output_schema) is not None:
        strict = is_closed(schema, whole=True)
        settings["text"] = {"format": {"type": "json_schema", "name": ANSWER, "schema": schema, "strict": strict}}
    return settings


def _choice(controls: Controls) -> str | dict[str, Any]:
    """Return which tools may be called, or must; a choice among some leaves the list, and so the cache, as it is."""
    match controls.tool_choice or "auto":
        case NamedTool(name):
            return {"type": "function", "name": name}
        case "auto" | "required" as mode if controls.active_tools is not None:
            tools = [{"type": "function", "name": name} for name in controls.active_tools]
            return {"type": "allowed_tools", "mode": mode, "tools": tools}
        case choice:
            return choice
