"""OpenAI-compatible: Chat Completions, as Ollama, vLLM, gateways and OpenAI itself speak it."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agent_core.domain.agents import Snapshot
from agent_core.domain.controls import Abilities, Controls, Effort, NamedTool
from agent_core.domain.structured import is_closed
from agent_core.providers import models
from agent_core.providers.base import Encode, ModelDelta, Request
from agent_core.providers.client import Sdk, SdkClient
from agent_core.providers.compatible.encode import encode
from agent_core.providers.compatible.fold import ChatFold
from agent_core.providers.extras import NO_EXTRAS, NO_KEY, Extras
from agent_core.providers.wording import ANSWER, Starts

NAME = "openai-compatible"
OPENAI_URL = "https://api.openai.com/v1"
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def compatible(
    *,
    api_key: str | None,
    base_url: str | None,
    idle: float = 600.0,
    name: str = NAME,
    extras: Extras = NO_EXTRAS,
) -> "CompatibleProvider":
    """Return the provider *name* for the server at *base_url*, OpenAI's own when None.

    *idle* is the seconds without a byte after which an answer counts as cut: local models read a long prompt in
    silence, for minutes.
    """
    url = base_url or OPENAI_URL

    def make() -> Sdk:
        from openai import AsyncOpenAI, DefaultAioHttpClient, Omit  # noqa: PLC0415 - slow to import, so in a thread

        http, key, query = DefaultAioHttpClient(), api_key or NO_KEY, extras.query or None
        client = AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=http, default_query=query)
        return Sdk(client, http, extras.sent(Omit(), keyless=api_key is None and bool(extras.headers)))

    official = urlsplit(url).hostname == urlsplit(OPENAI_URL).hostname
    return CompatibleProvider(SdkClient(name, make, idle=idle, secrets=extras.secrets), name, official=official)


class CompatibleProvider:
    """Asks the models of one server; *official* when that is OpenAI's own."""

    def __init__(self, client: SdkClient, name: str = NAME, *, official: bool) -> None:
        self._client, self.name, self._official = client, name, official
        self._starts = Starts(_head)

    def accepts(self, model: str) -> bool:
        return bool(model.strip())

    def able(self, model: str) -> Abilities:
        """Return what every server enforces, and for OpenAI's own what it adds."""
        holds = self._official and models.holds(models.find(f"openai:{model}"))
        listed = f"{NAME}:{model}"
        return Abilities(narrows=self._official, structured="any" if holds else "none", listed_as=listed)

    def encoder(self, model: str) -> Encode:  # noqa: ARG002 - the wire is the same for every model
        return encode

    def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        return self._client.stream("/chat/completions", self._body(request), ChatFold(self.name, request.model))

    async def prepare(self) -> None:
        await self._client.prepare()

    async def close(self) -> None:
        await self._client.close()

    def _body(self, request: Request) -> bytes:
        head = self._starts.of(request.snapshot)
        messages = b",".join([wire for entry in request.messages if (wire := entry.wire)])
        comma = b"," if messages and not head.endswith(b"[") else b""
        settings = _settings(request.model, request.controls, official=self._official)
        if request.snapshot.tools and (choice := _choice(request.controls)):
            settings["tool_choice"] = choice
        return b"".join((head, comma, messages, b"],", msgspec.json.encode(settings)[1:]))


def _head(snapshot: Snapshot) -> bytes:
    """Return a request up to its first message: the tools, and the instructions as the system's message."""
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in snapshot.tools
    ]
    said = snapshot.shared
    first = msgspec.json.encode({"role": "system", "content": said}) if said.strip() else b""
    listed = b'"tools":' + msgspec.json.encode(tools) + b"," if tools else b""
    return b"".join((b"{", listed, b'"messages":[', first))


def _settings(model: str, controls: Controls, *, official: bool) -> dict[str, Any]:
    """Return the body after the prefix, without unset options: small servers refuse fields that they do not know."""
    known = models.find(f"openai:{model}") if official else models.UNKNOWN
    settings: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if controls.max_output_tokens is not None:
        # OpenAI's reasoning models refuse the older name; other servers may not know the newer one.
        settings["max_completion_tokens" if official else "max_tokens"] = controls.max_output_tokens
    level = None
    if controls.effort is not None and (known.efforts or known is models.UNKNOWN):
        # Of OpenAI's wires Responses alone has `max`.
        wanted = "xhigh" if official and controls.effort == "max" else controls.effort
        level = settings["reasoning_effort"] = models.effort(known, wanted, EFFORTS)
    if controls.temperature is not None and models.tempered(known, level):
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
