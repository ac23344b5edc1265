"""A request as its prompt caches and seals see it: one position after the other, in canonical JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

Json = dict[str, Any]
Tier = Literal["tools", "system", "messages"]
CacheWire = Literal["messages", "responses", "chat"]
MARKS = ("cache_control", "prompt_cache_breakpoint")
THINKING = ("thinking", "redacted_thinking")
_SYSTEM = ("developer", "system")


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """A request to a model over a *wire*; *body* is its JSON."""

    wire: CacheWire
    model: str
    body: Json


@dataclass(frozen=True, slots=True)
class Position:
    """A tool, a block, or a part of an item; *data* is its canonical JSON without cache marks, None for blank text.

    *item* is the item that it is a part of, on OpenAI's wires, and *ends* whether it is the last part.
    """

    tier: Tier
    path: str
    role: str
    block: Json
    data: bytes | None
    item: Json | None = None
    ends: bool = False

    @property
    def type(self) -> str:
        return str(self.block.get("type"))

    @property
    def tokens(self) -> int:
        return tokens(self.data or b"")


def tokens(text: str | bytes) -> int:
    """Count about as models do: a token is four bytes, and nothing is less than one."""
    return max(1, len(text if isinstance(text, bytes) else text.encode()) // 4)


def positions_of(prompt: ModelPrompt) -> list[Position]:
    """Return the positions of a request of any wire."""
    return of_messages(prompt.body) if prompt.wire == "messages" else of_items(prompt)


def of_messages(body: Json) -> list[Position]:
    """Return the positions of an Anthropic request: tools, system, messages."""
    positions = [
        _position("tools", f"tools.{n}", "tool", tool)
        for n, tool in enumerate(dicts(body.get("tools")))
        if not tool.get("defer_loading")
    ]
    positions += [
        _position("system", f"system.{n}", "system", each) for n, each in enumerate(blocks(body.get("system")))
    ]
    for n, message in enumerate(dicts(body.get("messages"))):
        role = str(message.get("role"))
        for m, block in enumerate(blocks(message.get("content"))):
            positions.append(_position("messages", f"messages.{n}.content.{m}", role, block))
    return positions


def of_items(prompt: ModelPrompt) -> list[Position]:
    """Return the positions of a request to OpenAI, or to a compatible server: tools, instructions, parts of items."""
    body = prompt.body
    positions = [_position("tools", f"tools.{n}", "tool", tool) for n, tool in enumerate(dicts(body.get("tools")))]
    if instructions := str(body.get("instructions") or ""):
        positions.append(Position("system", "instructions", "system", {}, instructions.encode()))
    member = "messages" if prompt.wire == "chat" else "input"
    value = body.get(member)
    items: list[Json] = [{"role": "user", "content": value}] if isinstance(value, str) else dicts(value)
    for n, item in enumerate(items):
        positions += _of_item(f"{member}.{n}", item)
    return positions


def _of_item(path: str, item: Json) -> list[Position]:
    """Return an item part by part, since a breakpoint may stand on each part; what is around them is in the first."""
    role = str(item.get("role") or "")
    tier: Tier = "system" if role in _SYSTEM else "messages"
    name = "output" if isinstance(item.get("output"), list) else "content"
    parts = dicts(item.get(name))
    if not parts:
        return [Position(tier, path, role, item, canonical(role, item) or b"", item, ends=True)]
    head = canonical(role, {key: value for key, value in item.items() if key != name}) or b""
    last = len(parts) - 1
    return [
        Position(
            tier,
            f"{path}.{name}.{n}",
            role,
            part,
            (b"" if n else head) + msgspec.json.encode(_bare(part), order="sorted"),
            item,
            ends=n == last,
        )
        for n, part in enumerate(parts)
    ]


def blocks(content: object) -> list[Json]:
    """Return content blocks; a string is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else dicts(content)


def dicts(values: object) -> list[Json]:
    """Return the JSON objects in *values*."""
    items = cast("Sequence[Any]", values) if isinstance(values, list) else ()
    return [cast("Json", value) for value in items if isinstance(value, dict)]


def canonical(role: str, block: Json) -> bytes | None:
    """Return *block* as it counts: no cache marks, no nulls, keys in order; None for blank text."""
    if block.get("type") == "text" and not str(block.get("text", "")).strip():
        return None
    return role.encode() + b":" + msgspec.json.encode(_bare(block), order="sorted")


def runs(positions: Iterable[Position]) -> Iterator[list[Position]]:
    """Give positions as Anthropic counts them: neighbouring tool calls are one, and so are neighbouring results."""
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
