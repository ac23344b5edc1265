"""The model table: limits, accepted options and prices of each model. The data is in models.toml, with its date."""

import base64
import re
import tomllib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import Any, Literal, NamedTuple, Protocol, cast

import msgspec
import structlog
from msgspec.structs import replace

from agent_core.agents import Snapshot
from agent_core.clock import Clock, SystemClock
from agent_core.controls import Abilities, Caching, Controls
from agent_core.messages import (
    MAX_TOKENS,
    Citation,
    FailureKind,
    File,
    Message,
    NativePiece,
    Part,
    Text,
    ToolResult,
    Usage,
    clean,
    is_text,
    is_whole,
    mime_of,
    native_text,
)

Thinking = Literal["none", "budget", "adaptive", "between_tools", "always"]
"""How thinking is requested from a model of Anthropic's."""
_MILLION = Decimal(1_000_000)
_NO_CACHE = {"cache_read": 0, "cache_write_short": 0, "cache_write_long": 0}
_DAY = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """USD per million tokens; None where the vendor bills nothing of the kind."""

    input: Decimal
    output: Decimal
    read: Decimal | None = None
    write_short: Decimal | None = None
    write_long: Decimal | None = None


class Above(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a prompt of more than *tokens* tokens."""

    tokens: int
    price: Price


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model; *context*, *max_output* and *cacheable* (the fewest that a cache keeps) are tokens, None if unknown.

    *efforts* are lowest first. *breakpoints*: whether its cache is written where a request marks it. *strips*: whether
    its API leaves thinking out from before a new user message.

    *temperature* is whether one is accepted, or the efforts with which it is, `unset` when none is asked for.
    *structured* is whether its API enforces a JSON Schema on an answer, *tool_search* whether it loads tools that a
    search of the client's found. *vision* is whether it sees pictures.
    """

    context: int | None = None
    max_output: int | None = None
    cacheable: int | None = None
    temperature: bool | tuple[str, ...] = True
    thinking: Thinking = "none"
    efforts: tuple[str, ...] = ()
    structured: bool = False
    tool_search: bool = False
    breakpoints: bool = False
    strips: bool = False
    vision: bool = True
    ends: date | None = None
    since: date | None = None
    price: Price | None = None
    above: Above | None = None


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All models by `provider:name`, as of a day; *defaults* are the names used when only a provider is chosen."""

    as_of: date
    defaults: Mapping[str, str]
    models: Mapping[str, Model]


UNKNOWN = Model()


@cache
def table() -> Table:
    """Return the table that Parley ships."""
    text = files("agent_core.providers").joinpath("models.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Table)


def find(name: str) -> Model:
    """Return what is known of *name*, `provider:model`; a dated id such as `…-20251101` is its model."""
    models = table().models
    return models.get(name) or models.get(_DAY.sub("", name), UNKNOWN)


Vision = bool | tuple[str, ...]
"""Whether the models of a server see pictures, or the names of those that do, `*` for any characters in them."""


def sees(listed: str, vision: Vision | None = None) -> bool:
    """Return whether the model *listed*, `provider:model`, sees pictures: as *vision* says, else as the table does."""
    match vision:
        case None:
            return find(listed).vision
        case bool():
            return vision
        case _:
            return any(fnmatchcase(listed.partition(":")[2], name) for name in vision)


def holds(model: Model) -> bool:
    """Return whether the API can enforce a schema on an answer; an unlisted model gets the schema, and may refuse."""
    return model.structured or model is UNKNOWN


def effort(model: Model, wanted: str, order: tuple[str, ...]) -> str:
    """Return the level of *model* nearest to *wanted*, preferably not above it; *order* has all levels."""
    if not model.efforts or wanted in model.efforts:
        return wanted
    below = [level for level in model.efforts if order.index(level) <= order.index(wanted)]
    return below[-1] if below else model.efforts[0]


def tempered(model: Model, level: str | None) -> bool:
    """Return whether *model* accepts a temperature with this *level* of effort; None: no effort is requested."""
    taken = model.temperature
    return taken if isinstance(taken, bool) else (level or "unset") in taken


def cost(name: str, usage: Usage) -> str | None:
    """Return what *usage* of *name* costs in USD, a decimal; None when a price, or its input or output, is unknown.

    A missing count of the cache is none: the input is what of the total was not counted apart, so that all of the
    prompt is in the bill. Azure, OpenRouter and OpenAI's older models do not count what they write to their caches.
    """
    model = find(name)
    if model.price is None or usage.input is None or usage.output is None:
        return None
    counts = [count or 0 for count in (usage.input, usage.cache_read, usage.cache_write_short, usage.cache_write_long)]
    price = model.above.price if model.above and sum(counts) > model.above.tokens else model.price
    total = usage.output * price.output
    for count, each in zip(counts, (price.input, price.read, price.write_short, price.write_long), strict=True):
        if count and each is None:
            return None
        total += count * (each or 0)
    return f"{(total / _MILLION).normalize():f}"


def uncached_cost(name: str, usage: Usage) -> str | None:
    """Return what *usage* of *name* would cost if its whole prompt were charged as input; None where `cost` is."""
    if cost(name, usage) is None:
        return None
    counts = (usage.input, usage.cache_read, usage.cache_write_short, usage.cache_write_long)
    return cost(name, replace(usage, input=sum(count or 0 for count in counts), **_NO_CACHE))


BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 49_152}
"""Thinking of Claude's 4.5 generation is asked for in tokens: at least 1,024, and at most half of the answer."""
_MIN_CACHEABLE = 1_024
"""Tokens that a vendor keeps at least where the table does not say."""


def of_anthropic(model: Model) -> Caching:
    """Return how Claude's cache works: five minutes or an hour."""
    return Caching(
        vendor="anthropic",
        least=model.cacheable or _MIN_CACHEABLE,
        short_s=300,
        long_s=3_600,
        strips=model.strips,
        budgets=BUDGETS if model.thinking == "budget" else {},
        room=model.max_output or 0,
    )


def of_openai(model: Model) -> Caching:
    """Return how OpenAI's cache works: half an hour or twelve where writes are billed, else five minutes at least."""
    least = model.cacheable or _MIN_CACHEABLE
    if model.price is not None and model.price.write_short is not None:
        return Caching(vendor="openai", least=least, short_s=1_800, long_s=43_200)
    return Caching(vendor="openai", least=least, short_s=300, long_s=300, exact=False)


NO_KEY = "none"
"""A placeholder key for servers that want none: the SDKs require one."""
_KEY_HEADERS = ("Authorization", "X-Api-Key")


class Extras(NamedTuple):
    """*headers* and a *query* that go with every request; either may hold a secret.

    *ambient*: what an SDK finds in the environment goes too. It is meant for one server, which is not a named one.
    """

    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    ambient: bool = True

    def cleared(self, client: Any) -> Any:
        """Return *client*, an SDK's, unless *ambient* without the headers that it found in the environment."""
        if not self.ambient:
            client._custom_headers = {}  # noqa: SLF001 - no option leaves them out, and a copy reads them again
            for name in ("organization", "project"):  # OpenAI's; of Anthropic's client one is a resource
                if name in vars(client):
                    setattr(client, name, None)
        return client

    def sent(self, omitted: Any, *, keyless: bool) -> dict[str, Any]:
        """Return the headers of a request, with *omitted* in the place of those that hold the key if *keyless*."""
        own = {name.lower() for name in self.headers}
        left_out = [name for name in _KEY_HEADERS if keyless and name.lower() not in own]
        return {**dict.fromkeys(left_out, omitted), **self.headers}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what no error may repeat."""
        return (*self.headers.values(), *self.query.values())


NO_EXTRAS = Extras()


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


def arguments(raw: str) -> dict[str, Any] | None:
    """Return the arguments in *raw*: empty for no text and `null`; None when it is not a JSON object."""
    try:
        value: object = msgspec.json.decode(raw) if raw.strip() else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if value is None:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def json_of(value: object) -> str:
    """Return *value* as JSON."""
    return msgspec.json.encode(value).decode()


def raw_text(raw: msgspec.Raw) -> str:
    """Return *raw* as it came."""
    return bytes(raw).decode()


def verbatim(message: Message, pieces: Iterable[NativePiece]) -> str:
    """Return the *pieces* of an answer, with the stretches of its texts that they name, as JSON."""
    return "".join(each if isinstance(each, str) else json_of(native_text(message.parts, each)) for each in pieces)


def neutral(message: Message, _files: Files) -> bytes:
    """Return *message* as neutral JSON: the encoder of providers that speak no wire of their own."""
    return msgspec.json.encode(message)


Lacks = Literal["all", "search"]
"""What a request was left without: cache marks, or these and what a search loads."""

Head = tuple[str, str]
"""A session, and the hash of the snapshot that its requests begin with."""

_MAX_HEADS = 10_000
REMEMBERED = 3_600_000
"""Milliseconds for which a model gets no fields after it refused them: by then its server may have been repaired."""
_log = structlog.get_logger("parley.providers")
_CACHE = r"(?<!\w)(?:cache_control|prompt_cache_(?:key|options|breakpoint))(?!\w)"
_SEARCH = r"(?<!\w)(?:defer_loading|tool_reference|tool_search)(?!\w)"
_NOUN = r"(?:field|param|parameter|argument|property|propertie|key|name|input|option|attribute|member)s?"
_STRANGE = r"(?:unknown|unsupported|unrecogni[sz]ed|unexpected)"
_REMEDIES: dict[Lacks, str] = {
    "all": "it gets no cache marks; `prompt_caching: false` on its agents asks for none",
    "search": "its agents get the router's own tools; `router: meta` on them asks for no search",
}
_IN_SCHEMA = re.compile(r"schema|context=|\b(?:properties|parameters)[.,/\[]")
"""What a refusal names that is about the parameters of a tool, which may have any names."""
_SAYINGS = re.compile(r"[;\n]|\.\s")
_MARKS = re.compile("[`'\"]")
_EXPECTED = re.compile(r", expected [^;\n]*")
"""The fields that a server does know, which some of them list."""


def _refusing(field: str) -> re.Pattern[str]:
    """Return how servers say that they do not know a *field*, a pattern."""
    return re.compile(
        rf"(?:{_STRANGE}|extra|extraneous|additional)[ _](?:\w+ ){{0,2}}{_NOUN}\b|extra_forbidden"
        rf"|{field}[^ ]* (?:(?:is|was|are) (?:currently )?)?(?:{_STRANGE}|not (?:supported|recogni[sz]ed))\b(?! value)"
        rf"|does(?: not|nt) support .*{field}"
    )


_FIELDS = {field: (re.compile(field), _refusing(field)) for field in (_CACHE, _SEARCH)}


def knows_no_cache(param: str, code: str | None, text: str | None) -> bool:
    """Return whether a refusal says that a field of the prompt cache is unknown, rather than wrongly used.

    *param* is the field that it names, if any. The field and the words of it must be in one sentence.
    """
    return _knows_none(_CACHE, _sentences(param, code, text))


def knows_no_search(param: str, code: str | None, text: str | None) -> bool:
    """Return whether a refusal says that a field of the search for tools is unknown; see `knows_no_cache`."""
    return _knows_none(_SEARCH, _sentences(param, code, text))


def _sentences(param: str, code: str | None, text: str | None) -> list[str]:
    """Return what a refusal says, without marks; empty where it is about the parameters of a tool."""
    whole = _EXPECTED.sub("", _MARKS.sub("", f"{param}: {code or ''} {text or ''}").lower())
    return [] if _IN_SCHEMA.search(whole) else _SAYINGS.split(whole)


def _knows_none(field: str, sentences: list[str]) -> bool:
    named, refuses = _FIELDS[field]
    return any(named.search(each) and refuses.search(each) for each in sentences)


class Spare(NamedTuple):
    """The same request without what was refused: its *body*, and what to call with the refusal once it is answered."""

    body: Callable[[], bytes]
    accepted: Callable[[CallFailed], None]
    lacks: Lacks

    def answers(self, refusal: CallFailed) -> bool:
        """Return whether it lacks what *refusal* is about."""
        return refusal.search_unknown if self.lacks == "search" else refusal.cache_unknown


class OptionalFields:
    """The fields that models of one provider were found to refuse; what is not known to be refused is sent."""

    def __init__(self, provider: str, clock: Clock | None = None) -> None:
        self._provider, self._clock = provider, clock or SystemClock()
        self._refusing = dict[tuple[str, Lacks], int]()
        self._without = dict[tuple[str, Lacks, Head], None]()

    def taken(self, model: str, what: Lacks = "all") -> bool:
        """Return whether *model* gets *what*."""
        since = self._refusing.get((model, what))
        return since is None or self._clock.now() - since >= REMEMBERED

    def taken_by(self, head: Head, model: str, what: Lacks) -> bool:
        """Return whether requests of *model* with *head* get *what*, which is in the prefix that they share.

        Once one went without, all do: what is remembered of the model ends, and a running session's prefix stays.
        """
        if (key := (model, what, head)) in self._without or not self.taken(model, what):
            self._decide(key)
            return False
        return True

    def _decide(self, key: tuple[str, Lacks, Head]) -> None:
        self._without.pop(key, None)
        self._without[key] = None
        if len(self._without) > _MAX_HEADS:
            del self._without[next(iter(self._without))]

    def without(self, model: str, body: Callable[[], bytes], lacks: Lacks = "all", head: Head | None = None) -> Spare:
        """Return what to ask *model* instead, once it says that it does not know what *body* *lacks*.

        With a *head* all later requests with it lack that too.
        """
        return Spare(body, partial(self._learn, model, lacks, head), lacks)

    def _learn(self, model: str, lacks: Lacks, head: Head | None, refusal: CallFailed) -> None:
        """Note that *model* answers a request that *lacks* what it gave *refusal* to."""
        if head is not None:
            self._decide((model, lacks, head))
        if self.taken(model, lacks):
            event = "search.refused" if lacks == "search" else "cache.refused"
            _log.warning(event, provider=self._provider, model=model, said=refusal.message, remedy=_REMEDIES[lacks])
        self._refusing[model, lacks] = self._clock.now()


_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"
UNSEEN = "a picture, and this model cannot see pictures"
"""Why a note stands for a picture."""
ANSWER = "answer"
"""The name of an output schema, which the APIs require."""
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_STARTS = 64


class Readable(NamedTuple):
    """A file that a model reads as it is; each wire has its own form for it."""

    kind: Literal["image", "pdf"]
    mime: str
    data: bytes
    name: str

    @property
    def url(self) -> str:
        """Return the bytes as a data URL."""
        return f"data:{self.mime};base64,{base64.b64encode(self.data).decode()}"


def readable(parts: Iterable[Part], files: Files, *, pdfs: bool = True) -> Iterator[Readable | str]:
    """Yield what a model is shown of *parts*: files and text, without blank text, which the APIs refuse.

    Without *pdfs* their text stands for them, where there is one.
    """
    for part in parts:
        if isinstance(part, Text) and part.text.strip():
            yield part.text
        elif isinstance(part, File):
            if part.text is not None and not (pdfs and is_whole(part)):
                yield _text(part, files.get(part.text))
            else:
                yield _file(part, files.get(part.file))


def _text(file: File, data: bytes | None) -> str:
    """Return the text that stands for *file*."""
    if data is None:
        return note(file, "it is no longer stored")
    return f"[File {file.name}]\n{data.decode(errors='replace')}"


def _file(file: File, data: bytes | None) -> Readable | str:
    """Return the bytes of *file*, its text, or a note that says why there is neither."""
    mime = mime_of(file)
    if data is None:
        return note(file, "it is no longer stored")
    if not data:
        return note(file, "it is empty")
    if mime in _IMAGES or mime == _PDF:
        return Readable("pdf" if mime == _PDF else "image", mime, data, file.name)
    if is_text(file):
        return _text(file, data)
    return note(file, "files of this type cannot be read")


@lru_cache(maxsize=256)
def blind(encode: Encode) -> Encode:
    """Return *encode* for a model that sees no pictures, the same for the same: the name and size stand for each."""

    def encode_blind(message: Message, files: Files) -> bytes:
        return encode(_without_pictures(message) if message.role != "assistant" else message, files)

    return encode_blind


def _without_pictures(message: Message) -> Message:
    parts = tuple(map(_unseen, message.parts))
    return message if parts == message.parts else replace(message, parts=parts)


def _unseen(part: Part) -> Part:
    match part:
        case File() if mime_of(part) in _IMAGES and part.text is None:
            return Text(note(part, UNSEEN))
        case ToolResult():
            return replace(part, parts=tuple(map(_unseen, part.parts)))
        case _:
            return part


def note(file: File, why: str) -> str:
    """Return the text that replaces *file* where it cannot be shown."""
    return f"[File {file.name} ({file.mime}, {file.size} bytes): {why}]"


def plain_name(name: str, limit: int) -> str:
    """Return *name* as the APIs take it, with up to *limit* characters: a model may have called a tool by any name."""
    return _OTHER.sub("_", name)[:limit] or "unnamed"


def joined(start: bytes, wires: Iterable[bytes], end: bytes) -> bytes:
    """Return *start*, the *wires* that are not empty with commas between them, and *end*.

    A conversation may be megabytes, so it is copied once; a comma comes first unless *start* opens the list.
    """
    pieces = [start]
    for wire in wires:
        if wire:
            pieces += (b",", wire)
    if start.endswith(b"[") and len(pieces) > 1:
        del pieces[1]
    pieces.append(end)
    return b"".join(pieces)


class RewrittenEntry(NamedTuple):
    """A message of the window with another request JSON than it was given, for a server that refused that."""

    message: Message
    wire: bytes


class Starts:
    """The starts of requests, made once per snapshot and its cache marks; the least recently used one is dropped."""

    def __init__(self, make: Callable[..., bytes]) -> None:
        self._make = make
        self._made: dict[tuple[object, ...], bytes] = {}

    def of(self, snapshot: Snapshot, *marks: object) -> bytes:
        """Return the start of a request with *snapshot* and *marks*, what else the maker takes."""
        key = (snapshot.hash, *marks)
        start = self._made.pop(key, None)
        self._made[key] = start = self._make(snapshot, *marks) if start is None else start
        if len(self._made) > _STARTS:
            del self._made[next(iter(self._made))]
        return start


MAX_CITATIONS = 200
"""Citations kept of one answer: a page of text with two sources in each line has about a hundred."""
_QUOTED, _NAME, _ADDRESS = 1_000, 300, 2_000
_WEB = ("https://", "http://")


class _WireCitation(msgspec.Struct):
    """The fields that we read of a citation of any type; a server may send any of them as null."""

    type: str | None = None
    cited_text: str | None = None
    title: str | None = None
    document_title: str | None = None
    filename: str | None = None
    url: str | None = None
    source: str | None = None
    document_index: int | None = None
    search_result_index: int | None = None
    index: int | None = None
    start_index: int | None = None
    end_index: int | None = None


def citation(raw: msgspec.Raw | bytes, start: int | None = None, end: int | None = None) -> Citation | None:
    """Return the citation *raw* as JSON, for the code points from *start* to *end* of its part.

    Without them those are taken that the vendor states. What is quoted is cut to 1,000 characters and a name to 300,
    and an address over 2,000 is left out, as are all ids: a vendor's id of a file means nothing elsewhere. Return None
    for what is no citation or names no source.
    """
    try:
        fields = msgspec.json.decode(raw, type=_WireCitation)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if start is None and _is_range(fields.start_index, fields.end_index):
        start, end = fields.start_index, fields.end_index
    address, name = _short(fields.url, _ADDRESS), _short(fields.source, _ADDRESS)
    if address is None and name is not None and name.startswith(_WEB):
        address, name = name, None
    index = next((n for n in (fields.document_index, fields.search_result_index, fields.index) if n is not None), None)
    neutral = Citation(
        start=start,
        end=end,
        text=_cut(fields.cited_text, _QUOTED),
        title=_cut(fields.title or fields.document_title or fields.filename, _NAME),
        url=address if address is not None and address.startswith(_WEB) else None,
        source=name,
        index=index if index is not None and index >= 0 else None,
    )
    return neutral if neutral.text or neutral.title or neutral.url or neutral.source else None


def within(citation: Citation, length: int) -> Citation:
    """Return *citation* without its stretch where that is not in a text of *length* code points."""
    if citation.end is None or citation.end <= length:
        return citation
    return msgspec.structs.replace(citation, start=None, end=None)


def _is_range(start: Any, end: Any) -> bool:
    return start is not None and end is not None and 0 <= start < end


def _cut(text: str | None, limit: int) -> str | None:
    return clean(text)[:limit] or None if text else None


def _short(text: str | None, limit: int) -> str | None:
    return clean(text) if text and len(text) <= limit else None
