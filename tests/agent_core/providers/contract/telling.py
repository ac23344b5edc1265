"""What tests of whole conversations say again and again: scripts by what was asked, tools, and what must hold."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agent_core.agents import Controls, Snapshot
from agent_core.messages import Message, Text
from agent_core.providers.base import Encode, ModelDelta, Request
from agent_core.testing.models import ModelCall
from agent_core.testing.models.caching import of_messages
from agent_core.tools.base import Tool
from agent_core.tools.functions import tool
from tests.agent_core.providers.contract.wires import ConnectedProvider, collect, unmarked


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return f"{what} is fine"


@tool
async def list_all() -> list[str]:
    """List everything."""
    return ["a", "b"]


TOOLS: tuple[Tool, ...] = (look, list_all)


def by_text(**answers: Sequence[Sequence[Any]]) -> Callable[[ModelCall], Sequence[Any]]:
    """Return a script: the answers to a text, one per step of its run."""

    def pick(asked: ModelCall) -> Sequence[Any]:
        return answers[asked.text][asked.step]

    return pick


def extends(earlier: ModelCall, later: ModelCall, messages: Callable[[ModelCall], list[bytes]]) -> bool:
    """Return whether *later* is *earlier* followed by more messages, byte for byte."""
    before, after = messages(earlier), messages(later)
    return head_of(earlier) == head_of(later) and after[: len(before)] == before and len(after) > len(before)


def head_of(asked: ModelCall) -> Mapping[str, bytes]:
    """Return what stands before the messages: the system's text and the tools, as they were sent, but for marks."""
    whole = msgspec.json.decode(unmarked(asked.raw), type=dict[str, msgspec.Raw])
    return {name: bytes(whole[name]) for name in ("system", "instructions", "tools", "model") if name in whole}


def thoughts(asked: ModelCall) -> int:
    """Count the thinking that a request replays."""
    if asked.wire == "responses":
        return sum(item.get("type") == "reasoning" for item in asked.body["input"])
    contents = [message["content"] for message in asked.body["messages"] if isinstance(message["content"], list)]
    return sum(block["type"] in ("thinking", "redacted_thinking") for content in contents for block in content)


def marks_of(asked: ModelCall) -> list[tuple[str, str]]:
    """Return where a request to Anthropic is marked, and for how long, in the order of its cache."""
    marked = [(each.path, each.block.get("cache_control")) for each in of_messages(asked.body)]
    return [(path, mark.get("ttl", "5m")) for path, mark in marked if mark]


async def ask(
    provider: ConnectedProvider, model: str, snapshot: Snapshot, *, messages: int = 3, **fields: Any
) -> list[ModelDelta]:
    """Send a request of so many messages by a provider, and return the answer."""
    encode = provider.encoder(model)
    entries = [_Entry(Message("user", (Text(f"Message {n}"),)), encode) for n in range(messages)]
    made = Request(model=model, snapshot=snapshot, messages=entries, controls=Controls(), session="s", **fields)
    return await collect(provider.stream(made))


class _Entry:
    def __init__(self, message: Message, encode: Encode) -> None:
        self.message, self.wire = message, encode(message, {})
