"""OpenAI: the Responses API, asked without storing anything there; every request carries the whole window."""

from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core.agents import SEARCH_TOOLS, Snapshot, ToolSpec
from agent_core.controls import Abilities, Controls, NamedTool
from agent_core.net.exchange import trusted
from agent_core.providers import models
from agent_core.providers.base import CallFailed, Encode, ModelDelta, Request
from agent_core.providers.caching import of_openai
from agent_core.providers.client import Sdk, SdkClient
from agent_core.providers.extras import NO_EXTRAS, NO_KEY, Extras
from agent_core.providers.failing import refuses_summaries
from agent_core.providers.marking import OptionalFields
from agent_core.providers.models import Vision
from agent_core.providers.openai.cache import BREAKPOINT, cache_fields, has_breakpoints, is_openai
from agent_core.providers.openai.encode import encode, unloaded
from agent_core.providers.openai.fold import ResponsesFold
from agent_core.providers.openai.items import function
from agent_core.providers.wording import ANSWER, Starts, blind, joined
from agent_core.schemas import is_closed

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

    def make() -> Sdk:
        from openai import AsyncOpenAI, DefaultAioHttpClient, Omit  # noqa: PLC0415 - slow to import, so in a thread

        http, key, query = DefaultAioHttpClient(verify=trusted()), api_key or NO_KEY, extras.query or None
        client = AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=http, default_query=query)
        return Sdk(extras.cleared(client), http, extras.sent(Omit(), keyless=api_key is None))

    official = is_openai(base_url) if official is None else official
    client = SdkClient(name, make, idle=idle, secrets=extras.secrets)
    return OpenAIProvider(client, name, official=official, vision=vision)


class OpenAIProvider:
    """Asks OpenAI's models, for summaries of their thinking too, until one refuses: some organizations get none.

    *official* when no other server does, so that it takes what it documents of its cache.
    """

    def __init__(
        self, client: SdkClient, name: str = NAME, *, official: bool = True, vision: Vision | None = None
    ) -> None:
        self._client, self.name, self._official, self._vision = client, name, official, vision
        self._encoders: dict[str, Encode] = {}
        self._unsummarized = set[str]()
        self._fields = OptionalFields(name)
        self._starts = Starts(_head)

    def accepts(self, model: str) -> bool:
        return bool(model.strip())

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

    def _takes(self, model: str) -> bool:
        """Return whether *model* gets what OpenAI documents of its cache."""
        return self._official and self._fields.taken(model)

    async def prepare(self) -> None:
        await self._client.prepare()

    async def close(self) -> None:
        await self._client.close()

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
    entry = models.find(listed := f"{NAME}:{model}")
    structured = "any" if models.holds(entry) else "none"
    return Abilities(
        structured=structured,
        caching=of_openai(entry) if official and marked else None,
        listed_as=listed,
        searches=entry.tool_search and official and searches,
        vision=models.sees(listed, vision),
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
    entry = models.find(f"{NAME}:{model}")
    settings: dict[str, Any] = {"model": model, "stream": True, "store": False}
    if tools:
        settings["tool_choice"] = _choice(controls)
    if controls.max_output_tokens is not None:
        settings["max_output_tokens"] = max(MIN_OUTPUT_TOKENS, controls.max_output_tokens)
    level = None
    if controls.effort is not None and (entry.efforts or entry is models.UNKNOWN):
        level = models.effort(entry, controls.effort, EFFORTS)
    thinking = {"effort": level} if level else {}
    if entry.efforts:
        settings["include"] = ["reasoning.encrypted_content"]
        thinking |= {"summary": "auto"} if summary and level != "none" else {}
    if thinking:
        settings["reasoning"] = thinking
    if controls.temperature is not None and models.tempered(entry, level):
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
