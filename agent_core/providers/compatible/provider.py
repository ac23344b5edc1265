"""OpenAI-compatible: Chat Completions, as Ollama, vLLM, gateways and OpenAI itself speak it."""

from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agent_core.agents import Snapshot
from agent_core.controls import Abilities, Controls, Effort, NamedTool
from agent_core.net.exchange import trusted
from agent_core.providers import models
from agent_core.providers.base import CallFailed, Encode, ModelDelta, Request
from agent_core.providers.caching import of_openai
from agent_core.providers.client import Sdk, SdkClient
from agent_core.providers.compatible.encode import Wants, encode
from agent_core.providers.compatible.fold import ChatFold
from agent_core.providers.extras import NO_EXTRAS, NO_KEY, Extras
from agent_core.providers.failing import refuses_thinking
from agent_core.providers.marking import OptionalFields
from agent_core.providers.models import Vision
from agent_core.providers.openai.cache import BREAKPOINT, cache_fields, has_breakpoints, is_openai
from agent_core.providers.wording import ANSWER, Starts, blind, joined
from agent_core.schemas import is_closed

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

    def make() -> Sdk:
        from openai import AsyncOpenAI, DefaultAioHttpClient, Omit  # noqa: PLC0415 - slow to import, so in a thread

        http, key, query = DefaultAioHttpClient(verify=trusted()), api_key or NO_KEY, extras.query or None
        client = AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=http, default_query=query)
        return Sdk(extras.cleared(client), http, extras.sent(Omit(), keyless=api_key is None and bool(extras.headers)))

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
    sees = models.sees(listed, vision)
    if not official:
        return Abilities(narrows=False, structured="none", listed_as=listed, vision=sees)
    entry = models.find(listed)
    structured, caching = "any" if models.holds(entry) else "none", of_openai(entry) if marked else None
    return Abilities(structured=structured, caching=caching, listed_as=listed, vision=sees)


@lru_cache(maxsize=256)
def _encoder(reader: str, wants: Wants) -> Encode:
    return partial(encode, reader, wants)


class CompatibleProvider:
    """Asks the models of one server; *official* when that is OpenAI's own.

    *wants* is what it asks of answers. A refusal that says so adds to it, for that model: gateways have no known host.
    """

    def __init__(
        self, client: SdkClient, name: str = NAME, *, official: bool, wants: Wants, vision: Vision | None = None
    ) -> None:
        self._client, self.name, self._official, self._vision = client, name, official, vision
        self._wants, self._learned = wants, dict[str, Wants]()
        self._fields = OptionalFields(name)
        self._starts = Starts(_head)

    def accepts(self, model: str) -> bool:
        return bool(model.strip())

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

    def _takes(self, model: str) -> bool:
        """Return whether *model* gets what OpenAI documents of its cache."""
        return self._official and self._fields.taken(model)

    async def prepare(self) -> None:
        await self._client.prepare()

    async def close(self) -> None:
        await self._client.close()

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
    entry = models.find(f"{OPENAI}:{model}") if official else models.UNKNOWN
    settings: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if controls.max_output_tokens is not None:
        # OpenAI's reasoning models refuse the older name; other servers may not know the newer one.
        settings["max_completion_tokens" if official else "max_tokens"] = controls.max_output_tokens
    level = None
    if controls.effort is not None and (entry.efforts or entry is models.UNKNOWN):
        # Of OpenAI's wires Responses alone has `max`.
        wanted = "xhigh" if official and controls.effort == "max" else controls.effort
        level = settings["reasoning_effort"] = models.effort(entry, wanted, EFFORTS)
    if controls.temperature is not None and models.tempered(entry, level):
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
