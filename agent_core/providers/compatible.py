"""Servers of Chat Completions: what they take, and the fold of a stream into an answer."""

import hashlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec

from agent_core.agents import Snapshot
from agent_core.controls import Abilities, Controls, Effort, NamedTool
from agent_core.messages import (
    UNKNOWN_USAGE,
    File,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from agent_core.providers import base
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
    ModelDelta,
    ModelReasoningDelta,
    ModelTextDelta,
    NativeItem,
    Readable,
    Refusal,
    Request,
    Started,
    Starts,
    ToolArgsDelta,
    ToolEnd,
    ToolStart,
    UsageReport,
    Vision,
    arguments,
    blind,
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
from agent_core.providers.failing import failed, in_stream, refuses_thinking
from agent_core.providers.openai_items import (
    BREAKPOINT,
    OpenAISide,
    cache_fields,
    has_breakpoints,
    is_openai,
    raw_of,
    sdk_of,
)
from agent_core.schemas import is_closed

LENGTH = 9
"""Mistral takes exactly nine letters and digits, and no server wants anything else of an id."""
_SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def call_id(text: str) -> str:
    """Return the id for *text*, which is unique in its conversation: nine letters and digits, always the same ones."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    signs: list[str] = []
    for _ in range(LENGTH):
        number, place = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[place])
    return "".join(signs)


_PLACEHOLDER = "{}"
"""What some servers send with the name, before the arguments."""
_NONE = msgspec.Raw(b"null")
_SHORT = 4096
"""Characters of arguments that may be read at each delta to see whether they are whole."""


class Function(msgspec.Struct):
    """What a delta says of the function; *arguments* is text, of some servers an object."""

    name: str | None = None
    arguments: Any = None


class CallDelta(msgspec.Struct):
    """More of a call; *extra_content* is what Gemini's endpoint wants back with it."""

    index: Any = None
    id: Any = None
    function: Function | None = None
    extra_content: msgspec.Raw = _NONE


class FoldedCall(NamedTuple):
    """A whole call; *extra* is the JSON that came with it."""

    slot: int
    id: str
    name: str
    raw: str
    extra: str


@dataclass(slots=True)
class _PartialCall:
    """A call as it grows; *index* and *id* are the server's own, *call_id* is the id in our deltas.

    *extra* is the JSON that the server added. *size* and *depth* are the characters of its arguments and their open
    braces, those within texts too.
    """

    slot: int
    index: int | None
    id: str
    call_id: str
    name: str = ""
    extra: str = ""
    started: bool = False
    pieces: list[str] = field(default_factory=list[str])
    size: int = 0
    depth: int = 0

    @property
    def raw(self) -> str:
        return "".join(self.pieces)

    @property
    def whole(self) -> bool:
        """Return whether the arguments are complete; long ones are parsed only when their braces balance."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return (self.depth == 0 or self.size < _SHORT) and arguments(self.raw) is not None

    def add(self, more: str) -> None:
        self.pieces.append(more)
        self.size += len(more)
        self.depth += more.count("{") - more.count("}")

    def begins_again(self, more: str) -> bool:
        """Return whether *more* begins new arguments after complete ones; cheap checks come before parsing."""
        return more.lstrip().startswith("{") and self.whole


class CallFold:
    """Collects the calls of one answer; their slots begin at *first*, and *answer* is the answer's own id."""

    def __init__(self, first: int) -> None:
        self.answer = ""
        self._first = first
        self._calls: list[_PartialCall] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, delta: CallDelta) -> Iterator[ModelDelta]:
        """Fold one delta in."""
        function = delta.function or Function()
        index = delta.index if isinstance(delta.index, int) else None
        id_ = str(delta.id) if delta.id else ""
        name, more = function.name or "", raw_of(function.arguments)
        call = self._place(index, id_)
        if call is None or _is_another(call, id_, name, more):
            if not (id_ or name or more.strip()):
                return
            # Servers that start a second call with its arguments alone send the name once.
            call = self._new(index, id_, name or (call.name if call else ""))
        call.id, call.name = call.id or id_, call.name or name
        if delta.extra_content != _NONE:
            call.extra = bytes(delta.extra_content).decode()
        yield from _grow(call, more)

    def end(self) -> Iterator[ModelDelta]:
        """Close all calls, in their order."""
        for call in self._calls:
            if not call.started:
                yield from _start(call)
            yield ToolEnd(call.slot, call.raw, arguments(call.raw))

    def whole(self) -> list[FoldedCall]:
        """Return the calls as they ended."""
        return [FoldedCall(call.slot, call.call_id, call.name, call.raw, call.extra) for call in self._calls]

    def _place(self, index: int | None, id_: str) -> _PartialCall | None:
        """Return the call that a delta with *index* and *id_* would continue."""
        newest = self._calls[::-1]
        if index is not None:
            entry = next((call for call in newest if call.index == index), None)
            return entry or next((call for call in newest[:1] if call.index is None and not id_), None)
        return next((call for call in newest if id_ and call.id == id_), None) or next(iter(newest), None)

    def _new(self, index: int | None, id_: str, name: str) -> _PartialCall:
        slot = self._first + len(self._calls)
        taken = any(call.call_id == id_ for call in self._calls)
        made_up = call_id(f"{self.answer}/{slot}")
        call = _PartialCall(slot, index, id_, id_ if id_ and not taken else made_up, name)
        self._calls.append(call)
        return call


def _is_another(call: _PartialCall, id_: str, name: str, more: str) -> bool:
    """Return whether a delta begins a new call rather than continuing *call*."""
    if name and call.name and name != call.name:
        return True
    if id_ and call.id and id_ != call.id:
        # Some servers make a new id for each delta; a new call has a name, or follows complete arguments.
        return bool(name) or call.whole
    if not call.begins_again(more) or (id_ and more == call.raw):
        return False
    return bool(id_ or name) or call.raw.strip() != _PLACEHOLDER


def _grow(call: _PartialCall, more: str) -> Iterator[ModelDelta]:
    """Add *more* arguments, unless they repeat complete ones; those after a placeholder replace it."""
    if not call.started and call.name:
        yield from _start(call)
    if not more or (call.begins_again(more) and more == call.raw):
        return
    if call.pieces == [_PLACEHOLDER] and more.startswith('{"'):
        call.pieces.clear()
    call.add(more)
    if call.started:
        yield ToolArgsDelta(call.slot, more)


def _start(call: _PartialCall) -> Iterator[ModelDelta]:
    """Announce *call*, with what came before its name."""
    call.started = True
    yield ToolStart(call.slot, call.call_id, call.name)
    if call.pieces:
        yield ToolArgsDelta(call.slot, call.raw)


NAME_LENGTH = 64
"""The longest name of a tool that servers take."""
_GROWING = ("text", "summary")
Json = dict[str, Any]


class _Detail:
    """One of `reasoning_details` as it grows: what grows are texts, the newest value of any other field counts."""

    def __init__(self, first: Json) -> None:
        self._fields: Json = {}
        self._texts: dict[str, list[str]] = {}
        self.add(first)

    def add(self, more: Json) -> None:
        for key, value in more.items():
            if key in _GROWING and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif value is not None or key not in self._fields:
                self._fields[key] = value

    def is_continued_by(self, more: Json) -> bool:
        """Return whether *more* is the next piece; data that is encrypted comes whole, and a signature ends a text."""
        same = all(self._fields.get(key) == more.get(key, self._fields.get(key)) for key in ("type", "index", "id"))
        return same and "data" not in more and not (self._fields.get("signature") and more.get("text"))

    def pieces(self, text: str, slot: int | None) -> tuple[str | int, ...]:
        """Return the detail as JSON; *slot* is where *text* is kept already."""
        texts = {key: "".join(value) for key, value in self._texts.items()}
        if slot is None or texts.get("text") != text:
            return (json_of(self._fields | texts),)
        del texts["text"]
        others = json_of(self._fields | texts)
        return (f'{others[:-1]}{"," if self._fields or texts else ""}"text":', slot, "}")


class Thinking:
    """The thinking of one answer under the names that its server uses; *slot* is that of its text as shown."""

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self._field = ""
        self._texts: list[str] = []
        self._details: list[_Detail] = []

    def say(self, field: str, text: str) -> None:
        """Add *text* that came as *field*; the first name of an answer is the one that counts."""
        self._field = self._field or field
        self._texts.append(text)

    def detail(self, parts: object) -> None:
        """Add the `reasoning_details` of one delta: a piece of a text has type and place of what it continues."""
        for part in cast("list[Any]", parts) if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            more = cast("Json", part)
            if self._details and self._details[-1].is_continued_by(more):
                self._details[-1].add(more)
            else:
                self._details.append(_Detail(more))

    def member(self) -> tuple[str | int, ...]:
        """Return what goes back, as a member of the message: an empty thought too, if the server sent one."""
        text = "".join(self._texts)
        slot = self._slot if text.strip() else None
        if self._details:
            listed = [each.pieces(text, slot) for each in self._details]
            inner = [piece for n, each in enumerate(listed) for piece in ((",", *each) if n else each)]
            return (',"reasoning_details":[', *inner, "]")
        if not self._field:
            return ()
        return (f',"{self._field}":', json_of(text) if slot is None else slot)


def native_item(text: int | None, thinking: Thinking, calls: Sequence[FoldedCall]) -> Iterator[NativeItem]:
    """Yield what is kept of an answer besides its parts; *text* is its slot, None for one that is blank.

    It is the whole message where the server added something, only the ids of its calls where it did not, and nothing
    for plain text.
    """
    thought = thinking.member()
    first = calls[0].slot if calls else None
    if not thought and not any(call.extra for call in calls):
        if calls:
            yield NativeItem((), first)
        return
    pieces: list[str | int] = ['{"role":"assistant","content":', "null" if text is None else text, *thought]
    if calls:
        pieces.append(f',"tool_calls":[{",".join(map(_call, calls))}]')
    yield NativeItem((*pieces, "}"), first)


def _call(call: FoldedCall) -> str:
    """Return *call* as it goes back; arguments that are no JSON object would break the server's own template."""
    raw = call.raw if call.raw.lstrip().startswith("{") and arguments(call.raw) is not None else "{}"
    function = {"name": plain_name(call.name, NAME_LENGTH), "arguments": raw}
    extra = f',"extra_content":{call.extra}' if call.extra else ""
    return f'{{"id":{json_of(call.id)},"type":"function","function":{json_of(function)}{extra}}}'


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


EMPTY = "(no output)"
UNSIGNED = "skip_thought_signature_validator"
"""What Gemini's endpoint takes in place of the signature of a call that it did not write."""
EncodeJson = Mapping[str, Any]


class Wants(NamedTuple):
    """What a server asks of the answers that it gets back.

    *thinking*: its `own`, as it wrote it; `always` some, so that answers of others have an empty one; or `never` any.
    *signature*: one on the first call of an answer, so that those of others have a stand-in.
    """

    thinking: Literal["own", "always", "never"] = "own"
    signature: bool = False


def encode(reader: str, wants: Wants, message: Message, files: Files) -> bytes:
    """Return *message* for *reader*, `provider:model`: its own answers verbatim, those of others as text and calls."""
    native = message.native if message.native and message.native.model == reader else None
    match message.role:
        case "user":
            messages = _user(message, files)
        case "assistant":
            if native and native.pieces and wants.thinking != "never":
                return verbatim(message, native.pieces).encode()
            messages = _assistant(message, native.calls if native else (), wants)
        case "tool":
            messages = _results(message, native.calls if native else (), files)
    return b",".join(map(msgspec.json.encode, messages))


def _user(message: Message, files: Files) -> Iterator[EncodeJson]:
    if contents := list(_contents(message.parts, files)):
        yield {"role": "user", "content": _content(contents)}


def _assistant(message: Message, ids: Sequence[str], wants: Wants) -> Iterator[EncodeJson]:
    """Return an answer from its parts; *ids* are the server's own of its calls, if they are known."""
    texts = [text for part in message.parts if (text := _text_of(part)).strip()]
    made = [part for part in message.parts if isinstance(part, ToolCall)]
    calls = [_encode_call(part, id_) for part, id_ in zip(made, _ids(ids, made), strict=True)]
    if not texts and not calls:
        return
    body: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) or None}
    if wants.thinking == "always":
        body["reasoning_content"] = ""
    if calls:
        if wants.signature:
            calls[0] = {**calls[0], "extra_content": {"google": {"thought_signature": UNSIGNED}}}
        body["tool_calls"] = calls
    yield body


def _ids(own: Sequence[str], parts: Sequence[ToolCall | ToolResult]) -> Sequence[str]:
    """Return the ids of calls for their server: its *own*, else some that every server takes."""
    return own or [call_id(part.call) for part in parts]


def _text_of(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case File():
            return note(part, "it is not repeated here")
        case _:
            return ""


def _encode_call(part: ToolCall, id_: str) -> EncodeJson:
    arguments = msgspec.json.encode(part.arguments).decode()
    function = {"name": plain_name(part.name, NAME_LENGTH), "arguments": arguments}
    return {"id": id_, "type": "function", "function": function}


def _results(message: Message, ids: Sequence[str], files: Files) -> Iterator[EncodeJson]:
    """Return a message per result; results are text only here, so other parts follow as a user's message."""
    pictures: list[EncodeJson] = []
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    for result, id_ in zip(results, _ids(ids, results), strict=True):
        yield {"role": "tool", "tool_call_id": id_, "content": _output(result, files, pictures)}
    if pictures:
        yield {"role": "user", "content": [_text_block("[Files that the tools returned]"), *pictures]}


def _output(result: ToolResult, files: Files, pictures: list[EncodeJson]) -> str:
    """Return the text of *result* and add its other parts to *pictures*."""
    texts = [] if result.outcome == "done" else [f"[This call did not succeed: {result.outcome}]"]
    for part in result.parts:
        for content in _contents((part,), files):
            if content["type"] == "text":
                texts.append(content["text"])
            elif isinstance(part, File):
                texts.append(note(part, "it follows the results"))
                pictures.append(content)
    return "\n\n".join(texts) or EMPTY


def _content(contents: Sequence[EncodeJson]) -> str | Sequence[EncodeJson]:
    """Return text as a plain string: not every server takes a list."""
    if all(content["type"] == "text" for content in contents):
        return "\n\n".join(content["text"] for content in contents)
    return contents


def _contents(parts: Sequence[Part], files: Files) -> Iterator[EncodeJson]:
    return map(_content_block, readable(parts, files, pdfs=False))


def _content_block(content: Readable | str) -> EncodeJson:
    match content:
        case str(text):
            return _text_block(text)
        case Readable("image") as image:
            return {"type": "image_url", "image_url": {"url": image.url}}
        case document:
            return {"type": "file", "file": {"filename": document.name, "file_data": document.url}}


def _text_block(text: str) -> EncodeJson:
    return {"type": "text", "text": text}


NAME = "openai-compatible"
OPENAI = "openai"
"""The vendor's name in the model table."""
OPENAI_URL = "https://api.openai.com/v1"
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def compatible(
    *,
    api_key: str | None,
    base_url: str | None,
    idle: float = 600.0,
    name: str = NAME,
    extras: Extras = NO_EXTRAS,
    official: bool | None = None,
    vision: Vision | None = None,
) -> "CompatibleProvider":
    """Return the provider *name* for the server at *base_url*, OpenAI's own when None.

    *idle* is the seconds without a byte after which an answer counts as cut: local models read a long prompt in
    silence, for minutes. *official* is whether that is OpenAI itself, as its host says unless it is given. *vision*
    says which of its models see pictures; None: the table says it.
    """
    url = base_url or OPENAI_URL
    make = sdk_of(api_key, url, extras, keyless=api_key is None and bool(extras.headers))
    official = is_openai(url) if official is None else official
    client = SdkClient(name, make, idle=idle, secrets=extras.secrets)
    return CompatibleProvider(client, name, official=official, wants=wants_of(url), vision=vision)


def wants_of(url: str) -> Wants:
    """Return what the server at *url* is known to ask of answers; other servers may be found to ask it later."""
    host = urlsplit(url).hostname or ""
    return Wants(
        "always" if _is_in_domain(host, "deepseek.com") else "own", signature=_is_in_domain(host, "googleapis.com")
    )


def _is_in_domain(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


@lru_cache(maxsize=256)
def _able(model: str, *, official: bool, marked: bool, vision: Vision | None) -> Abilities:
    listed = f"{OPENAI if official else NAME}:{model}"
    sees = base.sees(listed, vision)
    if not official:
        return Abilities(narrows=False, structured="none", listed_as=listed, vision=sees)
    entry = base.find(listed)
    structured, caching = "any" if base.holds(entry) else "none", of_openai(entry) if marked else None
    return Abilities(structured=structured, caching=caching, listed_as=listed, vision=sees)


@lru_cache(maxsize=256)
def _encoder(reader: str, wants: Wants) -> Encode:
    return partial(encode, reader, wants)


class CompatibleProvider(OpenAISide):
    """Asks the models of one server; *official* when that is OpenAI's own.

    *wants* is what it asks of answers. A refusal that says so adds to it, for that model: gateways have no known host.
    """

    def __init__(
        self, client: SdkClient, name: str = NAME, *, official: bool, wants: Wants, vision: Vision | None = None
    ) -> None:
        super().__init__(client, name, vision, official=official)
        self._wants, self._learned = wants, dict[str, Wants]()
        self._starts = Starts(_head)

    def able(self, model: str) -> Abilities:
        """Return what every server enforces, and for OpenAI's own what it adds, with its models' prices and cache."""
        return _able(model, official=self._official, marked=self._fields.taken(model), vision=self._vision)

    def encoder(self, model: str) -> Encode:
        """Return how a message becomes request JSON; another function once *model* was found to want more."""
        made = _encoder(f"{self.name}:{model}", self._learned.get(model, self._wants))
        return made if self.able(model).vision else blind(made)

    def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        fold, learn = ChatFold(self.name, request.model), partial(self._learn, request.model)
        plain = partial(self._body, request, plain=True)
        spares = [self._fields.without(request.model, plain)] if self._takes(request.model) else []
        return self._client.stream("/chat/completions", self._body(request), fold, learn, spares)

    def _learn(self, model: str, failure: CallFailed) -> None:
        """Note what the server of *model* asks of answers, as its refusal says."""
        if failure.kind != "stale_reasoning":
            return
        wants, text = self._learned.get(model, self._wants), failure.message.lower()
        if refuses_thinking(text):
            wants = wants._replace(thinking="never")
        elif "reasoning_content" in text:
            wants = wants._replace(thinking="always")
        self._learned[model] = wants._replace(signature=wants.signature or "thought_signature" in text)

    def _body(self, request: Request, *, plain: bool = False) -> bytes:
        """Return the request; a *plain* one says nothing of the cache."""
        takes = not plain and self._takes(request.model)
        marked = takes and request.cache is not None and has_breakpoints(request.model)
        head = self._starts.of(request.snapshot, marked)
        settings = _settings(request.model, request.controls, official=self._official)
        if request.snapshot.tools and (choice := _choice(request.controls)):
            settings["tool_choice"] = choice
        if takes:
            settings |= cache_fields(request)
        wires = (entry.wire for entry in request.messages)
        return joined(head, wires, b"]," + msgspec.json.encode(settings)[1:])


def _head(snapshot: Snapshot, marked: bool) -> bytes:  # noqa: FBT001 - it is part of a key, see `Starts`
    """Return a request up to its first message: the tools, and the instructions as the system's message.

    When *marked*, each text is a part of it that ends in a cache breakpoint.
    """
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in snapshot.tools
    ]
    texts = [text for text in (snapshot.shared, snapshot.own) if text.strip()]
    parts = [{"type": "text", "text": text, **BREAKPOINT} for text in texts]
    content = parts if marked else "\n\n".join(texts)  # some servers take one such message, and no list
    first = msgspec.json.encode({"role": "system", "content": content}) if content else b""
    listed = b'"tools":' + msgspec.json.encode(tools) + b"," if tools else b""
    return b"".join((b"{", listed, b'"messages":[', first))


def _settings(model: str, controls: Controls, *, official: bool) -> dict[str, Any]:
    """Return the body after the prefix, without unset options: small servers refuse fields that they do not know."""
    entry = base.find(f"{OPENAI}:{model}") if official else base.UNKNOWN
    settings: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if controls.max_output_tokens is not None:
        # OpenAI's reasoning models refuse the older name; other servers may not know the newer one.
        settings["max_completion_tokens" if official else "max_tokens"] = controls.max_output_tokens
    level = None
    if controls.effort is not None and (entry.efforts or entry is base.UNKNOWN):
        # Of OpenAI's wires Responses alone has `max`.
        wanted = "xhigh" if official and controls.effort == "max" else controls.effort
        level = settings["reasoning_effort"] = base.effort(entry, wanted, EFFORTS)
    if controls.temperature is not None and base.tempered(entry, level):
        settings["temperature"] = controls.temperature
    if (schema := controls.output_schema) is not None:
        form = {"name": ANSWER, "schema": schema, "strict": is_closed(schema, whole=True)}
        settings["response_format"] = {"type": "json_schema", "json_schema": form}
    return settings


def _choice(controls: Controls) -> str | dict[str, Any] | None:
    """Return which tools may be called, or must; None where any may, which is every server's default."""
    match controls.tool_choice or "auto":
        case NamedTool(name):
            return {"type": "function", "function": {"name": name}}
        case "auto" | "required" as mode if controls.active_tools is not None:
            tools = [{"type": "function", "function": {"name": name}} for name in controls.active_tools]
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
        case "auto":
            return None
        case choice:
            return choice
