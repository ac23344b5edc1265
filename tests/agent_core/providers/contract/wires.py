"""The three wires, as their vendors' SDKs are pointed at the local model server."""

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from agent_core.agent.snapshot import freeze
from agent_core.agent.window import WindowEntry
from agent_core.agents import Controls, ToolSpec
from agent_core.messages import Message, Text
from agent_core.providers.anthropic import anthropic
from agent_core.providers.base import ModelDelta, Provider, Request
from agent_core.providers.compatible import compatible
from agent_core.providers.openai import openai
from agent_core.testing.models import ModelCall

KEY = "sk-test-0123456789abcdef"
INSTRUCTIONS = "Be brief."
TOOL = ToolSpec(
    name="look",
    description="Look something up.",
    parameters={"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
)
LIST = ToolSpec(name="list_all", description="List everything.", parameters={"type": "object", "properties": {}})


class ConnectedProvider(Provider, Protocol):
    """A provider that holds connections."""

    async def prepare(self) -> None: ...

    async def close(self) -> None: ...


_MARK = re.compile(rb',"(cache_control|prompt_cache_breakpoint)":\{[^{}]*\}')


def unmarked(body: bytes) -> bytes:
    """Return a request without its cache marks, which are no part of what a cache knows it by."""
    return _MARK.sub(b"", body)


@dataclass(frozen=True)
class Wire:
    """One of the wires: its provider, a model of it with a known price (if any), and where its requests keep things.

    *vision* are the models that see pictures, all when None.
    """

    name: str
    model: str
    other: str
    history: str
    vision: tuple[str, ...] | None = None

    @property
    def full(self) -> str:
        return f"{self.name}:{self.model}"

    @property
    def full_other(self) -> str:
        """Return another model of the same provider."""
        return f"{self.name}:{self.other}"

    def provider(self, url: str, *, key: str = KEY, idle: float = 20.0) -> ConnectedProvider:
        match self.name:
            case "anthropic":
                return anthropic(api_key=key, base_url=url, idle=idle, vision=self.vision)
            case "openai":
                return openai(api_key=key, base_url=f"{url}/v1", idle=idle, official=True, vision=self.vision)
            case _:
                return compatible(api_key=key, base_url=f"{url}/v1", idle=idle, vision=self.vision)

    def request(
        self, provider: Provider, *messages: Message, tools: Sequence[ToolSpec] = (TOOL, LIST), **controls: Any
    ) -> Request:
        """Return a request of *messages*; a plain question when there are none."""
        encode = provider.encoder(self.model)
        snapshot = freeze(model=self.full, instructions=INSTRUCTIONS, tools=tools)
        wanted = messages or (Message("user", (Text("Go"),)),)
        return Request(
            model=self.model,
            snapshot=snapshot,
            messages=[WindowEntry(seq, message, encode) for seq, message in enumerate(wanted)],
            controls=Controls(**{"model": self.full, "tool_choice": "auto" if tools else "none", **controls}),
            session="session_1",
        )

    def sent(self, asked: ModelCall) -> list[bytes]:
        """Return the messages of a request as they were sent, byte for byte, without cache marks."""
        whole = msgspec.json.decode(unmarked(asked.raw), type=dict[str, msgspec.Raw])
        return [bytes(each) for each in msgspec.json.decode(whole[self.history], type=list[msgspec.Raw])]


MESSAGES = Wire("anthropic", "claude-sonnet-5-5", "claude-opus-5-5", "messages")
RESPONSES = Wire("openai", "gpt-6.1-sol", "gpt-6-sol", "input")
CHAT = Wire("openai-compatible", "llama-4", "llama-4-small", "messages")
WIRES = (MESSAGES, RESPONSES, CHAT)


async def collect(stream: AsyncGenerator[Sequence[ModelDelta]]) -> list[ModelDelta]:
    """Return all deltas of a stream, in order."""
    return [delta async for batch in stream for delta in batch]
