"""Anthropic's models: requests of the Messages API, their caching, and the fold of a stream into an answer."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, cast, get_args

import msgspec

from agent_core.agents import Snapshot, ToolSpec
from agent_core.controls import Abilities, Controls, Effort, NamedTool, is_forced, thinking_budget
from agent_core.ids import new_id
from agent_core.messages import (
    UNKNOWN_USAGE,
    File,
    Message,
    Native,
    NativePiece,
    Part,
    ToolCall,
    ToolResult,
    Usage,
)
from agent_core.net.exchange import trusted
from agent_core.providers import base
from agent_core.providers.base import (
    BUDGETS,
    NO_EXTRAS,
    NO_KEY,
    NULL,
    CacheMarks,
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
    Spare,
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
    named,
    note,
    of_anthropic,
    plain_name,
    raw_text,
    readable,
    verbatim,
)
from agent_core.providers.client import Sdk, SdkClient, SdkProvider
from agent_core.providers.failing import failed, in_stream

_PLAIN = {"text": frozenset({"type", "text"}), "tool_use": frozenset({"type", "id", "name", "input"})}
_LIST = msgspec.json.Decoder(list[msgspec.Raw] | None)


class ContentBlock:
    """One content block: its members as JSON text in the order they came, and what grows in it.

    Its text is a stretch of the text in *slot*, from the code point *start* on.
    """

    __slots__ = ("citations", "kind", "members", "slot", "start", "texts")

    def __init__(self, slot: int, members: dict[str, str]) -> None:
        self.slot, self.start, self.members = slot, 0, members
        self.kind = self.word("type")
        self.texts: list[str] = []
        self.citations: list[str] = []

    def word(self, name: str) -> str:
        """Return the member *name* as text; nothing when it is none."""
        value: object = msgspec.json.decode(self.members.get(name, '""'))
        return value if isinstance(value, str) else ""

    @property
    def raw(self) -> str:
        """Return the arguments as they came: in deltas, or whole at the start."""
        return "".join(self.texts) or self.members.get("input", "")

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def end(self) -> int:
        """Return where its text ends in that of its slot, in code points."""
        return self.start + len(self.text)

    @property
    def cited(self) -> Iterator[ModelCitation]:
        """Return its citations, each for all of its text; those that came with its start come first."""
        try:
            stored = _LIST.decode(self.members.get("citations", "null")) or ()
        except msgspec.DecodeError:
            stored = ()
        citations = (
            citation(each, self.start, self.end) for each in (*stored, *(raw.encode() for raw in self.citations))
        )
        return (ModelCitation(self.slot, each) for each in citations if each is not None)

    @property
    def is_plain(self) -> bool:
        """Return whether the neutral form is complete: plain text or a call, with nothing else in the block.

        Text that continues the block before it is not: the API is sent the blocks that it wrote.
        """
        is_whole = not self.start and not self.citations
        return is_whole and _PLAIN.get(self.kind, frozenset()) >= self.members.keys()

    def native(self, length: int) -> tuple[NativePiece, ...]:
        """Return the block as it must be sent back; nothing when the API would not take it.

        It takes neither blank text nor thinking without its signature. *length* is that of the text in its slot.
        """
        members: dict[str, NativePiece] = {**self.members}
        text = self.text
        match self.kind:
            case "text" if len(text) == length:
                members["text"] = self.slot if text.strip() else ""
            case "text":
                members["text"] = (self.slot, self.start, self.end) if text.strip() else ""
            case "thinking":
                members["thinking"] = self.slot if text.strip() else json_of(text)
                members["signature"] = json_of(self.word("signature")) if self.word("signature") else ""
            case _ if text or self.kind == "tool_use":
                members["input"] = self.raw if arguments(self.raw) else "{}"
            case _:
                pass
        if self.citations:
            members["citations"] = f"[{','.join(self.citations)}]"
        if "" in members.values():
            return ()
        pieces: list[NativePiece] = []
        for name, value in members.items():
            pieces += [f"{',' if pieces else '{'}{json_of(name)}:", value]
        return (*pieces, "}") if pieces else ()


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


_NAME_LENGTH = 128
"""The longest name of a tool that the API takes; it has letters, digits, `_` and `-` alone."""
Block = dict[str, Any]
MARK: Block = {"cache_control": {"type": "ephemeral"}}
"""It keeps what is before it for five minutes after its last use."""
_INSERTED = b"," + msgspec.json.encode(MARK)[1:-1]
_ENDS = len(b"}]}")


@lru_cache(maxsize=256)
def encoder_of(model: str) -> Encode:
    """Return how a message becomes request JSON for *model*, `anthropic:name`; the same function for the same model."""
    loads = base.find(f"anthropic:{named(model)}").tool_search

    def encode(message: Message, files: Files) -> bytes:
        native = message.native if message.native and message.native.model == model else None
        match message.role:
            case "assistant":
                if native and native.pieces:
                    return b'{"role":"assistant","content":[%s]}' % verbatim(message, native.pieces).encode()
                return _message(_answer(message))
            case "tool":
                return _message(_results(message.parts, native, files, loads=loads), "user")
            case "user":
                return _message(_blocks(message.parts, files), "user")

    return encode


def wires(entries: Sequence[RequestEntry], marks: CacheMarks | None) -> list[bytes]:
    """Return the request JSON of *entries*, with cache marks where the request before ended and at the newest block.

    Each mark is in the last block of a user's message or of results. An answer is passed over: it may end in thinking
    or in what a server's tool found, which take no mark; the mark before it and the next request's cover it.
    """
    wires = [entry.wire for entry in entries]
    if marks is not None:
        for place in {_marked(entries, marks.previous), _marked(entries, len(entries))} - {None}:
            assert place is not None
            wire = wires[place]
            wires[place] = b"".join((wire[:-_ENDS], _INSERTED, wire[-_ENDS:]))
    return wires


def _marked(entries: Sequence[RequestEntry], end: int) -> int | None:
    """Return the last of the first *end* entries that takes a mark, None if none does."""
    places = range(min(end, len(entries)) - 1, -1, -1)
    return next((place for place in places if entries[place].message.role != "assistant" and entries[place].wire), None)


def _message(blocks: Sequence[Block], role: str = "assistant") -> bytes:
    return msgspec.json.encode({"role": role, "content": blocks}) if blocks else b""


def _answer(message: Message) -> list[Block]:
    """Return an answer of another model, or one from before a new prefix: text and calls, without the thinking."""
    blocks: list[Block] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            blocks.append(
                {
                    "type": "tool_use",
                    "id": part.call,
                    "name": plain_name(part.name, _NAME_LENGTH),
                    "input": part.arguments,
                }
            )
        elif isinstance(part, File):  # the API refuses documents in an answer
            blocks.append(_text_block(note(part, "an answer holds text alone")))
        else:
            blocks += _blocks((part,), {})
    return blocks


def unloaded(entries: Sequence[RequestEntry]) -> Sequence[RequestEntry]:
    """Return *entries* with what searches found as text: for a server that was found to know no references."""
    return [RewrittenEntry(each.message, _as_text(each)) if each.message.role == "tool" else each for each in entries]


def _as_text(entry: RequestEntry) -> bytes:
    results = [part for part in entry.message.parts if isinstance(part, ToolResult)]
    if not entry.wire or not any(result.loaded for result in results):
        return entry.wire
    message: dict[str, Any] = msgspec.json.decode(entry.wire)
    for block, result in zip(message["content"], results, strict=True):
        if result.loaded:
            block["content"] = _blocks(result.parts, {})
    return msgspec.json.encode(message)


def _results(parts: Sequence[Part], native: Native | None, files: Files, *, loads: bool) -> list[Block]:
    """Return the results of all calls of one answer, under the ids by which that answer is replayed."""
    results = [part for part in parts if isinstance(part, ToolResult)]
    calls = native.calls if native else [result.call for result in results]
    return [_result(call, result, files, loads=loads) for call, result in zip(calls, results, strict=True)]


def _result(call: str, result: ToolResult, files: Files, *, loads: bool) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call}
    if result.loaded and loads:
        return block | {"content": [{"type": "tool_reference", "tool_name": tool.name} for tool in result.loaded]}
    content = _blocks(result.parts, files)
    if result.outcome != "done":
        block["is_error"] = True
        # An error without content is refused; a success may be empty.
        content = content or [_text_block(f"The call ended as {result.outcome}, without a word.")]
    if content:
        block["content"] = content
    return block


def _blocks(parts: Sequence[Part], files: Files) -> list[Block]:
    return [_block(content) for content in readable(parts, files)]


def _block(content: Readable | str) -> Block:
    match content:
        case str(text):
            return _text_block(text)
        case Readable("image", mime, image):
            return {"type": "image", "source": _source(mime, image)}
        case Readable(_, mime, document, name):
            return {"type": "document", "source": _source(mime, document), "title": name}


def _source(mime: str, data: bytes) -> Block:
    return {"type": "base64", "media_type": mime, "data": data}  # msgspec writes bytes as base64


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}


NAME = "anthropic"
PATH = "/v1/messages"
DEFAULT_ROOM = 32_000
"""Tokens of an answer where the model's own limit is unknown."""
_EFFORTS = get_args(Effort)


def anthropic(
    *,
    api_key: str | None,
    base_url: str | None = None,
    idle: float = 600.0,
    name: str = NAME,
    extras: Extras = NO_EXTRAS,
    vision: Vision | None = None,
) -> "AnthropicProvider":
    """Return the provider *name*; *idle* is the seconds without a byte after which an answer counts as broken.

    Without *api_key* no header has one, but *extras* may. *vision* says which models see pictures; None: the table says
    it.
    """

    def make() -> Sdk:
        from anthropic import AsyncAnthropic, DefaultAioHttpClient, Omit  # noqa: PLC0415 - slow, so in a thread

        http, key, query = DefaultAioHttpClient(verify=trusted()), api_key or NO_KEY, extras.query or None
        client = AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, http_client=http, default_query=query)
        return Sdk(extras.cleared(client), http, extras.sent(Omit(), keyless=api_key is None))

    return AnthropicProvider(SdkClient(name, make, idle=idle, secrets=extras.secrets), name, vision=vision)


class AnthropicProvider(SdkProvider):
    """Claude, or another model that speaks Messages at the base URL; without cache marks while one refuses them."""

    def __init__(self, client: SdkClient, name: str = NAME, *, vision: Vision | None = None) -> None:
        super().__init__(client, name, vision)
        self._starts = Starts(prefix_of)

    def able(self, model: str) -> Abilities:
        """Return what the API enforces without losing the cache, see `able`."""
        marked, searches = self._fields.taken(model), self._fields.taken(model, "search")
        return able(model, marked=marked, searches=searches, vision=self._vision)

    def encoder(self, model: str) -> Encode:
        """Return how a message becomes Messages JSON for *model*."""
        encode = encoder_of(f"{self.name}:{model}")
        return encode if self.able(model).vision else blind(encode)

    def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Ask for one answer and yield it as it comes."""
        marks = request.cache if self._fields.taken(request.model) else None
        head = (request.session, request.snapshot.hash)
        loads = request.snapshot.searches and self._fields.taken_by(head, request.model, "search")
        loads = loads and self.able(request.model).searches
        body, spares = partial(self._body, request, loads=loads), list[Spare]()
        if marks:
            spares.append(self._fields.without(request.model, partial(body, None)))
        if loads:
            spares.append(self._fields.without(request.model, partial(self._body, request, None), "search", head))
        return self._client.stream(PATH, body(marks), AnthropicFold(), spares=spares)

    def _body(self, request: Request, marks: CacheMarks | None, *, loads: bool = False) -> bytes:
        """Return the request; *loads*: with the tools beside the prompt, for a search to load."""
        start = self._starts.of(request.snapshot, marks is not None, loads)
        if request.snapshot.searches and not loads:
            request = replace(request, messages=unloaded(request.messages))
        return body_of(request, start, marks)


@lru_cache(maxsize=256)
def able(model: str, *, marked: bool = True, searches: bool = True, vision: Vision | None = None) -> Abilities:
    """Return what the API enforces without losing the cache: any change of the choice bills all messages again.

    A model that does not think meanwhile can be forced to call a tool; that is worth its price. It is asked for a dozen
    times in a run, and only the model table decides it.
    """
    entry = base.find(listed := f"{NAME}:{model}")
    return Abilities(
        withholds=False,
        narrows=False,
        forces=entry.thinking in ("none", "budget"),
        structured="closed" if base.holds(entry) else "none",
        caching=of_anthropic(entry) if marked else None,
        listed_as=listed,
        searches=entry.tool_search and searches,
        vision=base.sees(listed, vision),
    )


def prefix_of(
    snapshot: Snapshot,
    marked: bool = False,  # noqa: FBT001, FBT002 - parts of a key, see `Starts`
    loads: bool = False,  # noqa: FBT001, FBT002
) -> bytes:
    """Return system and tools as members of the body, with cache marks if they are to be *marked*.

    The first mark ends what sessions share: its text, or the tools, which the cache has before the texts. The second
    one ends the session's own text, if it has one. When it *loads*, the tools beside the prompt are there too: the API
    leaves them out of what the model reads, and of the cache, until a result refers to them, and takes no mark on them.
    """
    tools = [_tool(spec) for spec in snapshot.tools]
    mark = MARK if marked else {}
    texts = [{"type": "text", "text": text, **mark} for text in (snapshot.shared, snapshot.own) if text.strip()]
    if tools and not snapshot.shared.strip():
        tools[-1] |= mark
    if loads:
        tools += [_tool(spec) | {"defer_loading": True} for spec in snapshot.routed]
    members = {"system": texts, "tools": tools}
    return msgspec.json.encode({name: each for name, each in members.items() if each})[1:-1]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def body_of(request: Request, prefix: bytes, marks: CacheMarks | None = None) -> bytes:
    """Return the request body: this step's settings, the frozen *prefix*, and the messages, with *marks*.

    No temperature: the version of the API that the SDK speaks refuses it from every model.
    """
    entry, controls = base.find(f"{NAME}:{request.model}"), request.controls
    room = controls.max_output_tokens or entry.max_output or DEFAULT_ROOM
    room = min(room, entry.max_output or room)
    settings: dict[str, Any] = {"model": request.model, "max_tokens": room, "stream": True}
    if thinking := _thinking(request, entry, room):
        settings["thinking"] = thinking
    if output := _output(controls, entry):
        settings["output_config"] = output
    if request.snapshot.tools and (choice := _choice(controls)):
        settings["tool_choice"] = choice
    head = msgspec.json.encode(settings)[:-1] + b"," + (prefix + b"," if prefix else b"")
    return joined(head + b'"messages":[', wires(request.messages, marks), b"]}")


def _choice(controls: Controls) -> dict[str, Any] | None:
    match controls.tool_choice:
        case "none":
            return {"type": "none"}
        case "required":
            return {"type": "any"}
        case NamedTool(name):
            return {"type": "tool", "name": name}
        case _:
            return None


def _output(controls: Controls, model: base.Model) -> dict[str, Any]:
    output: dict[str, Any] = {}
    if controls.effort and model.efforts:
        output["effort"] = base.effort(model, controls.effort, _EFFORTS)
    if controls.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": controls.output_schema}
    return output


def _thinking(request: Request, model: base.Model, room: int) -> dict[str, Any] | None:
    """Return how *request* asks for thinking; None leaves it to the model."""
    wanted = request.controls.effort
    match model.thinking:
        case "adaptive" if wanted == "none":
            return {"type": "disabled"}
        case "between_tools" if wanted == "none":
            return {"type": "between_tools"}
        case "adaptive" | "between_tools" | "always":
            return {"type": "adaptive", "display": "summarized"}
        # A forced call and thinking exclude each other.
        case "budget" if wanted and wanted != "none" and not is_forced(request.controls.tool_choice):
            budget = thinking_budget(wanted, room, BUDGETS)
            if budget and _may_begin_to_think(request.messages):
                return {"type": "enabled", "budget_tokens": budget}
        case _:
            return None
    return None


def _may_begin_to_think(messages: Sequence[RequestEntry]) -> bool:
    """Return whether no tool loop is open, or its first answer begins with thinking.

    With a budget the API answers 400 to a loop that does not: thinking was dropped, or another model began it.
    """
    first = b""
    for entry in reversed(messages):
        if entry.message.role == "user":
            break
        if entry.message.role == "assistant" and entry.wire:
            first = entry.wire
    return not first or b'thinking"' in first[:64]
