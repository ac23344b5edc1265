"""A request as its prompt caches and seals see it: one position after the other, in canonical JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from agent_core.testing.models.score import tokens

Json = dict[str, Any]
Tier = Literal["tools", "system", "messages"]
MARKS = ("cache_control", "prompt_cache_breakpoint")
THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Position:
    """A tool, a block or an item; *data* is its canonical JSON without cache marks, None for blank text."""

    tier: Tier
    path: str
    role: str
    block: Json
    data: bytes | None

    @property
    def type(self) -> str:
        return str(self.block.get("type"))

    @property
    def tokens(self) -> int:
        return tokens(self.data or b"")


def of_messages(body: Json) -> list[Position]:
    """Return the positions of an Anthropic request: tools, system, messages."""
    found = [
        _position("tools", f"tools.{n}", "tool", tool)
        for n, tool in enumerate(dicts(body.get("tools")))
        if not tool.get("defer_loading")
    ]
    found += [_position("system", f"system.{n}", "system", each) for n, each in enumerate(blocks(body.get("system")))]
    for n, message in enumerate(dicts(body.get("messages"))):
        role = str(message.get("role"))
        for m, block in enumerate(blocks(message.get("content"))):
            found.append(_position("messages", f"messages.{n}.content.{m}", role, block))
    return found


def blocks(content: object) -> list[Json]:
    """Return content blocks; a string is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else dicts(content)


def dicts(values: object) -> list[Json]:
    """Return the JSON objects in *values*."""
    given = cast("Sequence[Any]", values) if isinstance(values, list) else ()
    return [cast("Json", value) for value in given if isinstance(value, dict)]


def canonical(role: str, block: Json) -> bytes | None:
    """Return *block* as it counts: no cache marks, no nulls, keys in order; None for blank text."""
    if block.get("type") == "text" and not str(block.get("text", "")).strip():
        return None
    return role.encode() + b":" + msgspec.json.encode(_bare(block), order="sorted")


def runs(positions: Iterable[Position]) -> Iterator[list[Position]]:
    """Give positions as the cache counts them: neighbouring tool calls are one, and so are neighbouring results."""
    run: list[Position] = []
    for position in positions:
        if run and not (position.type in ("tool_use", "tool_result") and position.type == run[-1].type):
            yield run
            run = []
        run.append(position)
    if run:
        yield run


def _position(tier: Tier, path: str, role: str, block: Json) -> Position:
    return Position(tier, path, role, block, canonical(role, block))


def _bare(block: Json) -> Json:
    bare = {key: value for key, value in block.items() if key not in MARKS and value is not None}
    if isinstance(inner := bare.get("content"), list):
        bare["content"] = [
            _bare(cast("Json", each)) if isinstance(each, dict) else each for each in cast("list[Any]", inner)
        ]
    return bare
