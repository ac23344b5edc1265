"""A request as its prompt caches and seals see it: one position after the other, in canonical JSON."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from agent_core.providers.base import find

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


TAIL = 3
"""Tokens after the last block that are never cached; in recorded traffic there are 2 to 4."""
USUAL_MINIMUM = 1024
"""The fewest tokens that a cache keeps, of models for which no other number is known."""
FIVE_MINUTES, TEN_MINUTES, HALF_HOUR, HOUR, HALF_DAY, DAY = 300, 600, 1800, 3600, 43_200, 86_400
_NEW_GPT = (5, 6)
_LOOK_BACK, _BOUNDARIES, _GRANULE = 20, 80, 128
"""Positions that Anthropic walks from a mark; boundaries that OpenAI looks up, and what its older models read in."""
_ENTRIES = 50_000
_EXPLICIT, _BESIDE_IMPLICIT = 4, 3
Breakpoint = Literal["explicit", "implicit"]
Count = Callable[[Position], int]
"""Returns the tokens of a position: estimated, or as they were recorded."""


def bills_writes(name: str) -> bool:
    """Return whether OpenAI's model *name* has breakpoints and bills cache writes: GPT 5.6 and later."""
    match = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    return bool(match) and (int(match[1]), int(match[2] or 0)) >= _NEW_GPT


@dataclass(frozen=True, slots=True)
class Bill:
    """Input tokens of one request by what they cost."""

    plain: int = 0
    read: int = 0
    write_short: int = 0
    write_long: int = 0

    @property
    def total(self) -> int:
        return self.plain + self.read + self.write_short + self.write_long


@dataclass(frozen=True, slots=True)
class RequestPrefix:
    """A prefix of a request: its key, its tokens, and the lifetime of a mark at its end.

    *breakpoint* is OpenAI's: written by the caller, or where the API may place one by itself.
    """

    key: bytes
    tokens: int
    seconds: int | None = None
    breakpoint: Breakpoint | None = None


@dataclass(frozen=True, slots=True)
class Priced:
    """A request's *bill*, and what it writes: only once its answer has begun can others read that.

    *start* is when it was sent, in ms; *steps* are all its prefixes, *written* those kept, with lifetimes in seconds.
    """

    bill: Bill
    start: int
    written: tuple[tuple[RequestPrefix, int], ...]
    steps: Sequence[RequestPrefix]


@dataclass(slots=True)
class _Entry:
    seconds: int
    ends: int


class Caches:
    """The prompt caches of all models of one workspace. Times are milliseconds.

    *tail* tokens after the last block stay uncached; *minimum* is the least that Anthropic's keep, None: each its own.
    """

    def __init__(self, *, tail: int = TAIL, minimum: int | None = None) -> None:
        self._tail, self._minimum = tail, minimum
        self._entries: dict[bytes, _Entry] = {}

    def price(
        self,
        prompt: ModelPrompt,
        now: int,
        *,
        positions: Sequence[Position] | None = None,
        count: Count = lambda position: position.tokens,
    ) -> Priced:
        """Return what *prompt* costs when it is sent at *now*, renewing what it reads.

        *positions* are its own, if they are known already; *count* says how many tokens each has.
        """
        located = positions_of(prompt) if positions is None else positions
        if prompt.wire == "messages":
            return self._anthropic(prompt.body, located, now, count)
        steps = _openai_steps(prompt, located, count)
        if bills_writes(prompt.model):
            return self._openai(prompt.body, steps, now)
        return self._older(prompt, steps, now)

    def write(self, priced: Priced) -> None:
        """Keep what a request writes, as its answer begins."""
        for step, seconds in priced.written:
            self._entries[step.key] = _Entry(seconds, priced.start + seconds * 1000)
        if len(self._entries) > _ENTRIES:
            self._entries = {key: entry for key, entry in self._entries.items() if entry.ends > priced.start}

    def _anthropic(self, body: Json, positions: Sequence[Position], now: int, count: Count) -> Priced:
        steps = _anthropic_steps(body, positions, count)
        total = (steps[-1].tokens if steps else 0) + self._tail
        least = self._minimum or find(f"anthropic:{body.get('model')}").cacheable or USUAL_MINIMUM
        marks = [n for n, step in enumerate(steps) if step.seconds and step.tokens >= least]
        hit = self._looked_up(steps, marks, now)
        read = steps[hit].tokens if hit is not None else 0
        long = max(read, max((steps[n].tokens for n in marks if steps[n].seconds == HOUR), default=0))
        end = max(long, steps[marks[-1]].tokens if marks else 0)
        written = [(steps[n], steps[n].seconds or FIVE_MINUTES) for n in marks if steps[n].tokens > read]
        for n in {*marks, *((hit,) if hit is not None else ())}:
            self._renew(steps[n].key, now)
        return Priced(Bill(total - end, read, end - long, long - read), now, tuple(written), steps)

    def _looked_up(self, steps: Sequence[RequestPrefix], marks: Sequence[int], now: int) -> int | None:
        """Return the longest live prefix that can be found from *marks*, the last first."""
        for mark in reversed(marks):
            for n in range(mark, max(-1, mark - _LOOK_BACK), -1):
                if self._live(steps[n].key, now):
                    return n
        return None

    def _openai(self, body: Json, steps: Sequence[RequestPrefix], now: int) -> Priced:
        """Models from 5.6 on: exact boundaries, explicit and implicit, whose writes are billed."""
        options = cast("Json", body.get("prompt_cache_options") or {})
        seconds = HALF_DAY if options.get("ttl") == "12h" else HALF_HOUR
        total = (steps[-1].tokens if steps else 0) + self._tail
        explicit = [n for n, step in enumerate(steps) if step.breakpoint == "explicit"]
        by_itself = options.get("mode") != "explicit"
        implicit = [n for n, step in enumerate(steps) if step.breakpoint == "implicit"] if by_itself else []
        looked_up = sorted({*explicit, *implicit})[-_BOUNDARIES:]
        read = max((steps[n].tokens for n in looked_up if self._live(steps[n].key, now)), default=0)
        marked = explicit[-_BESIDE_IMPLICIT:] + implicit[-1:] if by_itself else explicit[-_EXPLICIT:]
        large = [steps[n] for n in sorted(marked) if steps[n].tokens >= USUAL_MINIMUM]
        hits = [steps[n] for n in looked_up if steps[n].tokens == read]
        for step in (*hits, *large):
            self._renew(step.key, now)
        wrote = max(0, max((step.tokens for step in large), default=0) - read)
        short, long = (0, wrote) if seconds == HALF_DAY else (wrote, 0)
        written = tuple((step, seconds) for step in large if step.tokens > read)
        return Priced(Bill(total - read - wrote, read, short, long), now, written, steps)

    def _older(self, prompt: ModelPrompt, steps: Sequence[RequestPrefix], now: int) -> Priced:
        """Older models and compatible servers: the longest common prefix, rounded down, free to write."""
        seconds = DAY if prompt.body.get("prompt_cache_retention") == "24h" else TEN_MINUTES
        total = (steps[-1].tokens if steps else 0) + self._tail
        common = max((step.tokens for step in steps if self._live(step.key, now)), default=0)
        read = common // _GRANULE * _GRANULE if common >= USUAL_MINIMUM else 0
        return Priced(Bill(total - read, read), now, tuple((step, seconds) for step in steps), steps)

    def _live(self, key: bytes, now: int) -> bool:
        entry = self._entries.get(key)
        return entry is not None and now < entry.ends

    def _renew(self, key: bytes, now: int) -> None:
        if self._live(key, now):
            entry = self._entries[key]
            entry.ends = now + entry.seconds * 1000


def _anthropic_steps(body: Json, positions: Sequence[Position], count: Count) -> list[RequestPrefix]:
    """Return the prefixes of a request; what a tier's key depends on is mixed in where the tier begins."""
    digest = hashlib.sha256(_json(["anthropic", body.get("model")]))
    automatic = _seconds(body)
    groups = list(runs(positions))
    last = max((n for n, run in enumerate(groups) if run[-1].type not in THINKING), default=-1)
    steps: list[RequestPrefix] = []
    total, tier = 0, "tools"
    for n, run in enumerate(groups):
        if run[0].tier != tier:
            tier = run[0].tier
            digest.update(_json([tier, *(_material(body) if tier == "messages" else (body.get("speed"),))]))
        for position in run:
            digest.update(position.data or b"")
            total += count(position)
        mark = next((ttl for position in reversed(run) if (ttl := _seconds(position.block))), None)
        own = mark or (automatic if n == last else None)
        steps.append(RequestPrefix(digest.digest(), total, own))
    return steps


def _openai_steps(prompt: ModelPrompt, positions: Sequence[Position], count: Count) -> list[RequestPrefix]:
    """Return the prefixes of a request; each part may have a breakpoint, and an item's end an implicit one."""
    body = prompt.body
    text, reasoning = cast("Json", body.get("text") or {}), cast("Json", body.get("reasoning") or {})
    material = [prompt.model, body.get("prompt_cache_key"), body.get("parallel_tool_calls"), body.get("service_tier")]
    material += [text, body.get("response_format"), reasoning.get("effort") or body.get("reasoning_effort")]
    material += [body.get("verbosity"), body.get("context_management")]
    digest = hashlib.sha256(_json(["openai", *material]))
    steps: list[RequestPrefix] = []
    total, opening = 0, True
    for n, position in enumerate(positions):
        digest.update(position.data or b"")
        total += count(position)
        opening &= position.tier != "messages"
        mark = _breakpoint(position, positions[n + 1] if n + 1 < len(positions) else None, opening=opening)
        steps.append(RequestPrefix(digest.digest(), total, breakpoint=mark))
    return steps


def _breakpoint(position: Position, follower: Position | None, *, opening: bool) -> Breakpoint | None:
    """Return the breakpoint at *position*.

    An implicit one may follow a user message, the last of a group of outputs, and the last developer message of those
    that open a request.
    """
    if position.block.get("prompt_cache_breakpoint"):
        return "explicit"
    item = position.item
    if item is None or not position.ends:
        return None
    if item.get("role") == "user":
        return "implicit"
    after = follower.item if follower is not None else None
    if _is_output(item):
        return None if after is not None and _is_output(after) else "implicit"
    return "implicit" if opening and (follower is None or follower.tier == "messages") else None


def _is_output(item: Json) -> bool:
    return item.get("type") == "function_call_output" or item.get("role") == "tool"


def _material(body: Json) -> tuple[object, ...]:
    """Return what else the messages' keys depend on."""
    image = any(block.get("type") == "image" for m in dicts(body.get("messages")) for block in dicts(m.get("content")))
    return body.get("speed"), body.get("tool_choice"), *_thinking(body), image


def _thinking(body: Json) -> tuple[object, ...]:
    thinking = cast("Json", body.get("thinking") or {})
    output = cast("Json", body.get("output_config") or {})
    return {key: value for key, value in thinking.items() if key != "display"}, output.get("effort")


def _seconds(block: Json) -> int | None:
    mark = block.get("cache_control")
    if not isinstance(mark, dict):
        return None
    return HOUR if cast("Json", mark).get("ttl") == "1h" else FIVE_MINUTES


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
