"""What the providers of OpenAI's two wires share: the SDK, the key of the cache, and items of the Responses API."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agent_core.messages import LoadedTool
from agent_core.net.exchange import trusted
from agent_core.providers.base import NO_KEY, Extras, Request, Vision, arguments, json_of, raw_text
from agent_core.providers.client import Sdk, SdkClient, SdkProvider

SHARDS = 8
"""Keys of an agent for older models: 120 requests a minute."""
BREAKPOINT: dict[str, Any] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
NO_CACHE: dict[str, Any] = {"prompt_cache_options": {"mode": "explicit"}}
"""With no breakpoint in the request, nothing is written and nothing read."""
_HOST = "api.openai.com"
_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?")
_FIRST = (5, 6)


def is_openai(url: str | None) -> bool:
    """Return whether *url* is OpenAI's own API, of any region; None is the SDK's default."""
    host = urlsplit(url).hostname if url else _HOST
    return host == _HOST or (host or "").endswith(f".{_HOST}")


def has_breakpoints(model: str) -> bool:
    """Return whether *model* takes explicit breakpoints."""
    match = _VERSION.match(model)
    return match is not None and (int(match[1]), int(match[2] or 0)) >= _FIRST


def cache_fields(request: Request) -> dict[str, Any]:
    """Return what the end of the body says of the cache: which requests share their prefix, or that none is wanted.

    A model with breakpoints has one key per agent and prefix. For an older one sessions are spread over `SHARDS` keys,
    each always under the same one. Without cache marks only a model that bills what it writes is asked not to.
    """
    newer = has_breakpoints(request.model)
    if request.cache is None:
        return NO_CACHE if newer else {}
    key = request.cache.key
    if not newer:
        key = f"{key}-{hashlib.sha256(request.session.encode()).digest()[0] % SHARDS}"
    return {"prompt_cache_key": key}


def sdk_of(api_key: str | None, url: str | None, extras: Extras, *, keyless: bool) -> Callable[[], Sdk]:
    """Return what makes the SDK's client for *url*; *keyless*: no header has a key."""

    def make() -> Sdk:
        from openai import AsyncOpenAI, DefaultAioHttpClient, Omit  # noqa: PLC0415 - slow to import, so in a thread

        http, key, query = DefaultAioHttpClient(verify=trusted()), api_key or NO_KEY, extras.query or None
        client = AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=http, default_query=query)
        return Sdk(extras.cleared(client), http, extras.sent(Omit(), keyless=keyless))

    return make


class OpenAISide(SdkProvider):
    """What the providers share that the OpenAI SDK serves; *official* when no other server does than OpenAI itself."""

    def __init__(self, client: SdkClient, name: str, vision: Vision | None, *, official: bool) -> None:
        super().__init__(client, name, vision)
        self._official = official

    def _takes(self, model: str) -> bool:
        """Return whether *model* gets what OpenAI documents of its cache."""
        return self._official and self._fields.taken(model)


CALLS = ("function_call", "custom_tool_call")
SEARCH, SEARCH_OUTPUT = "tool_search_call", "tool_search_output"
SEARCHED = "tool_search:"
"""What the id of a search for tools begins with here: what answers it is an item of another kind than a result."""
Place = tuple[str, int]
"""Where a text is in its item: `content` or `summary`, and its number there."""
Slots = Mapping[Place, tuple[int, str]]
"""The slot and the text of each place that was emitted."""


class Item(msgspec.Struct):
    """The fields that we read of an item of any type."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    execution: str | None = None
    name: str | None = None
    status: str | None = None
    phase: str | None = None
    arguments: Any = None
    input: Any = None
    encrypted_content: Any = None


class _Content(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    annotations: list[msgspec.Raw] | None = None


class _Contents(msgspec.Struct):
    content: list[_Content] | None = None
    summary: list[_Content] | None = None


_ITEM = msgspec.json.Decoder(Item | None)
_CONTENTS = msgspec.json.Decoder(_Contents)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | None)


def read(raw: msgspec.Raw) -> Item:
    """Return *raw* decoded; an item without a type when it is missing or null."""
    return (_ITEM.decode(raw) if memoryview(raw).nbytes else None) or Item()


def is_plain(item: Item, raw: msgspec.Raw) -> bool:
    """Return whether the neutral form is complete: a call, or text without a phase or an annotation."""
    if item.type == "message":
        return not item.phase and b'"annotations":[{' not in bytes(raw)
    return item.type == "function_call"


def texts(item: Item, raw: msgspec.Raw) -> Iterator[tuple[Place, str]]:
    """Return the final texts of a message or of reasoning."""
    if item.type not in ("message", "reasoning"):
        return
    contents = _CONTENTS.decode(raw)
    for part, texts in (("summary", contents.summary), ("content", contents.content)):
        for number, each in enumerate(texts or ()):
            if each.type in ("output_text", "summary_text", "reasoning_text"):
                yield (part, number), each.text or ""


def annotations(item: Item, raw: msgspec.Raw) -> Iterator[tuple[Place, msgspec.Raw]]:
    """Return what the final texts of a message are annotated with."""
    if item.type == "message":
        for number, each in enumerate(_CONTENTS.decode(raw).content or ()):
            yield from ((("content", number), annotation) for annotation in each.annotations or ())


def refusals(item: Item, raw: msgspec.Raw) -> Iterator[str]:
    """Return the refusals in a message."""
    if item.type == "message":
        yield from (each.refusal or "" for each in _CONTENTS.decode(raw).content or () if each.type == "refusal")


def pieces(item: Item, raw: msgspec.Raw, slots: Slots) -> tuple[str | int, ...]:
    """Return the native form of an item, nothing for one that must not be sent again.

    That is a message of blank text, and reasoning without its content: a server that stores nothing does not find
    its id and refuses the request.
    """
    if item.type not in ("message", "reasoning"):
        return (raw_text(raw),)
    pieces: list[str | int] = []
    held = bool(item.encrypted_content)
    for name, value in _FIELDS.decode(raw).items():
        pieces.append(f"{',' if pieces else '{'}{json_of(name)}:")
        if name in ("content", "summary") and (contents := _LIST.decode(value)) is not None:
            listed = _listed(name, contents, slots, blank=item.type != "message")
            held = held or (name == "content" and bool(listed))
            pieces += ["[", *listed, "]"]
        else:
            pieces.append(raw_text(value))
    return (*pieces, "}") if held else ()


def native_text(texts: Iterable[tuple[int, str]]) -> tuple[str | int, ...]:
    """Return the native form of texts that came without their item."""
    pieces: list[str | int] = []
    for slot, text in texts:
        if text.strip():
            pieces += ["," if pieces else "", '{"role":"assistant","content":', slot, "}"]
    return tuple(pieces)


def function_call(call: str, name: str, raw: str) -> str:
    """Return the item of a call."""
    return json_of({"type": "function_call", "call_id": call, "name": name, "arguments": raw})


def search_call(call: str, raw: str) -> str:
    """Return the item of a search for tools."""
    fields = arguments(raw) or {}
    return json_of({"type": SEARCH, "call_id": call, "execution": "client", "status": "completed", "arguments": fields})


def search_output(call: str, loaded: Iterable[LoadedTool]) -> Mapping[str, Any]:
    """Return the item that answers a search with the tools that are *loaded*, none if it found none."""
    tools = [function(tool.name, tool.description, tool.parameters) | {"defer_loading": True} for tool in loaded]
    return {
        "type": SEARCH_OUTPUT,
        "call_id": call,
        "execution": "client",
        "status": "completed",
        "tools": tools,
    }


def function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a tool; without `strict` a server would make its schema strict where it can."""
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
        "strict": False,
    }


def is_call(item: Item) -> bool:
    """Return whether *item* is a call for us to answer; a search may be the server's own."""
    return item.type in CALLS or (item.type == SEARCH and item.execution == "client")


def raw_of(value: object) -> str:
    """Return arguments as text; some servers send them as an object."""
    return value if isinstance(value, str) else "" if value is None else json_of(value)


def _listed(part: str, contents: list[dict[str, msgspec.Raw]], slots: Slots, *, blank: bool) -> list[str | int]:
    """Return the contents of an item with commas between them, without *blank* texts unless they may stay."""
    pieces: list[str | int] = []
    for number, fields in enumerate(contents):
        text: Any = msgspec.json.decode(fields["text"]) if "text" in fields else None
        is_blank = isinstance(text, str) and not text.strip()
        if is_blank and not blank:
            continue
        slot, emitted = slots.get((part, number), (None, None))
        is_slot = slot is not None and emitted == text and not is_blank
        pieces.append(",{" if pieces else "{")
        for index, (name, value) in enumerate(fields.items()):
            pieces.append(f"{',' if index else ''}{json_of(name)}:")
            pieces.append(slot if is_slot and slot is not None and name == "text" else raw_text(value))
        pieces.append("}")
    return pieces
