"""What a prompt cache would have read and written, by the vendors' rules.

Anthropic: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
OpenAI: https://developers.openai.com/api/docs/guides/prompt-caching
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from agent_core.clock import Clock
from agent_core.providers.models import find
from agent_core.testing.models.asked import ModelCall
from agent_core.testing.models.prefix import THINKING, Json, Position, canonical, dicts, runs
from agent_core.testing.models.score import Bill

TAIL = 3
"""Tokens after the last block that are never cached; in recorded traffic there are 2 to 4."""
LOOK_BACK = 20
"""Positions that Anthropic walks back from a breakpoint, itself included."""
BOUNDARIES = 80
"""Boundaries that OpenAI looks up."""
STEP = 128
"""Tokens to which older OpenAI models round what they read."""
OPENAI_MINIMUM = USUAL_MINIMUM = 1024
_SHORT, _LONG, _HALF_HOUR, _HALF_DAY, _TEN_MINUTES, _DAY = 300, 3600, 1800, 43_200, 600, 86_400
_ENTRIES = 50_000
_NEW_GPT = (5, 6)

Billing = tuple[Bill, Callable[[], None]]


@dataclass(slots=True)
class _Entry:
    tokens: int
    seconds: int
    ends: int


@dataclass(frozen=True, slots=True)
class _Step:
    """A prefix of the request: its key, its tokens, and the time to live of a mark at its end."""

    key: bytes
    tokens: int
    mark: int | None = None


class Caches:
    """The prompt caches of all models; *minimum* is the least tokens that Anthropic's keep, None: each its own."""

    def __init__(self, clock: Clock, minimum: int | None) -> None:
        self._clock, self._minimum = clock, minimum
        self._entries: dict[bytes, _Entry] = {}

    def bill(self, asked: ModelCall, positions: Sequence[Position]) -> Billing:
        """Return what *asked* costs, and what to call when its answer begins: only then can others read its writes."""
        if asked.wire == "messages":
            return self._anthropic(asked.body, positions)
        if _writes(asked.model):
            return self._openai(asked)
        return self._older(asked)

    def _anthropic(self, body: Json, positions: Sequence[Position]) -> Billing:
        steps = list(_anthropic_steps(body, positions))
        total = steps[-1].tokens + TAIL if steps else TAIL
        least = self._minimum or find(f"anthropic:{body.get('model')}").cacheable or USUAL_MINIMUM
        marks = [n for n, step in enumerate(steps) if step.mark and step.tokens >= least]
        hit = self._looked_up(steps, marks)
        read = steps[hit].tokens if hit is not None else 0
        last_long = max((steps[n].tokens for n in marks if steps[n].mark == _LONG), default=0)
        long = max(read, last_long)
        end = max(long, steps[marks[-1]].tokens if marks else 0)
        written = [steps[n] for n in marks if steps[n].tokens > read]
        for n in marks:
            self._renew(steps[n].key)
        if hit is not None:
            self._renew(steps[hit].key)
        return Bill(total - end, read, end - long, long - read), self._writer(written)

    def _looked_up(self, steps: Sequence[_Step], marks: Sequence[int]) -> int | None:
        """Return the longest live prefix that can be found from *marks*, the last first."""
        for mark in reversed(marks):
            for n in range(mark, max(-1, mark - LOOK_BACK), -1):
                if self._live(steps[n].key):
                    return n
        return None

    def _openai(self, asked: ModelCall) -> Billing:
        """Models from 5.6 on: exact boundaries, explicit and implicit, whose writes are billed."""
        body = asked.body
        options = cast("Json", body.get("prompt_cache_options") or {})
        seconds = _HALF_DAY if options.get("ttl") == "12h" else _HALF_HOUR
        steps = list(_openai_steps(asked))
        total = steps[-1].tokens + TAIL
        ends = [n for n, step in enumerate(steps) if step.mark is not None]
        explicit = [n for n in ends if steps[n].mark == 1]
        implicit = [n for n in ends if steps[n].mark == 0] if options.get("mode") != "explicit" else []
        looked_up = sorted({*explicit, *implicit})[-BOUNDARIES:]
        read = max((steps[n].tokens for n in looked_up if self._live(steps[n].key)), default=0)
        kept = explicit[-3:] + implicit[-1:] if options.get("mode") != "explicit" else explicit[-4:]
        large = [steps[n] for n in kept if steps[n].tokens >= OPENAI_MINIMUM]
        for step in large:
            self._renew(step.key)
        for n in looked_up:
            if steps[n].tokens == read:
                self._renew(steps[n].key)
        wrote = max(0, max((step.tokens for step in large), default=0) - read)
        new = [_Step(step.key, step.tokens, seconds) for step in large if step.tokens > read]
        short, long = (0, wrote) if seconds == _HALF_DAY else (wrote, 0)
        return Bill(total - read - wrote, read, short, long), self._writer(new)

    def _older(self, asked: ModelCall) -> Billing:
        """Older models and compatible servers: the longest common prefix, rounded down, free to write."""
        seconds = _DAY if asked.body.get("prompt_cache_retention") == "24h" else _TEN_MINUTES
        steps = list(_openai_steps(asked))
        total = steps[-1].tokens + TAIL
        common = max((step.tokens for step in steps if self._live(step.key)), default=0)
        read = common // STEP * STEP if common >= OPENAI_MINIMUM else 0
        new = [_Step(step.key, step.tokens, seconds) for step in steps]
        return Bill(total - read, read), self._writer(new)

    def _live(self, key: bytes) -> bool:
        entry = self._entries.get(key)
        return entry is not None and self._clock.now() < entry.ends

    def _renew(self, key: bytes) -> None:
        if self._live(key):
            entry = self._entries[key]
            entry.ends = self._clock.now() + entry.seconds * 1000

    def _writer(self, steps: Sequence[_Step]) -> Callable[[], None]:
        start = self._clock.now()

        def write() -> None:
            for step in steps:
                seconds = step.mark or _SHORT
                self._entries[step.key] = _Entry(step.tokens, seconds, start + seconds * 1000)
            if len(self._entries) > _ENTRIES:
                now = self._clock.now()
                self._entries = {key: entry for key, entry in self._entries.items() if entry.ends > now}

        return write


def _anthropic_steps(body: Json, positions: Sequence[Position]) -> list[_Step]:
    """Return the prefixes of a request; what a tier's key depends on is mixed in where the tier begins."""
    seen = hashlib.sha256(_json(["anthropic", body.get("model")]))
    automatic = _ttl(body)
    groups = list(runs(positions))
    last = max((n for n, run in enumerate(groups) if run[-1].type not in THINKING), default=-1)
    steps: list[_Step] = []
    total, tier = 0, "tools"
    for n, run in enumerate(groups):
        if run[0].tier != tier:
            tier = run[0].tier
            seen.update(_json([tier, *(_tier_material(body) if tier == "messages" else (body.get("speed"),))]))
        for position in run:
            seen.update(position.data or b"")
            total += position.tokens
        mark = next((ttl for position in reversed(run) if (ttl := _ttl(position.block))), None)
        steps.append(_Step(seen.digest(), total, mark or (automatic if n == last else None)))
    return steps


def _tier_material(body: Json) -> tuple[object, ...]:
    """Return what else the messages' keys depend on."""
    thinking = cast("Json", body.get("thinking") or {})
    output = cast("Json", body.get("output_config") or {})
    thinks = {key: value for key, value in thinking.items() if key != "display"}
    image = any(block.get("type") == "image" for m in dicts(body.get("messages")) for block in dicts(m.get("content")))
    return body.get("speed"), body.get("tool_choice"), thinks, output.get("effort"), image


def _ttl(block: Json) -> int | None:
    mark = block.get("cache_control")
    if not isinstance(mark, dict):
        return None
    return _LONG if cast("Json", mark).get("ttl") == "1h" else _SHORT


def _openai_steps(asked: ModelCall) -> list[_Step]:
    """Return the prefixes of a request; *mark* is 1 at an explicit breakpoint and 0 where an implicit one may be."""
    body = asked.body
    text, reasoning = cast("Json", body.get("text") or {}), cast("Json", body.get("reasoning") or {})
    material = [asked.model, body.get("prompt_cache_key"), body.get("parallel_tool_calls"), body.get("service_tier")]
    material += [text, body.get("response_format"), reasoning.get("effort") or body.get("reasoning_effort")]
    material += [body.get("verbosity"), body.get("context_management")]
    seen = hashlib.sha256(_json(["openai", *material]))
    head = [canonical("tool", tool) or b"" for tool in dicts(body.get("tools"))]
    head += [str(body.get("instructions") or "").encode()]
    items = _items(asked)
    steps: list[_Step] = []
    total = 0
    for data in head:
        seen.update(data)
        total += len(data) // 4
    steps.append(_Step(seen.digest(), total))
    for n, item in enumerate(items):
        data = canonical(str(item.get("role") or ""), _unmarked(item)) or b""
        seen.update(data)
        total += max(1, len(data) // 4)
        follower = items[n + 1] if n + 1 < len(items) else None
        steps.append(_Step(seen.digest(), total, 1 if _marked(item) else 0 if _eligible(item, follower, n) else None))
    return steps


def _items(asked: ModelCall) -> list[Json]:
    given = asked.body.get("messages" if asked.wire == "chat" else "input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else dicts(given)


def _eligible(item: Json, follower: Json | None, n: int) -> bool:
    """Return whether an implicit breakpoint may follow *item*.

    It may follow a user message, the last of a group of outputs, and the last developer message of the opening ones.
    """
    if item.get("role") == "user":
        return True
    output = item.get("type") == "function_call_output" or item.get("role") == "tool"
    if output:
        return follower is None or (follower.get("type"), follower.get("role")) != (item.get("type"), item.get("role"))
    opening = item.get("role") in ("developer", "system")
    return opening and n == 0 and (follower is None or follower.get("role") not in ("developer", "system"))


def _marked(item: Json) -> bool:
    return any(part.get("prompt_cache_breakpoint") for key in ("content", "output") for part in dicts(item.get(key)))


def _unmarked(item: Json) -> Json:
    parts = {key: [_without_breakpoint(part) for part in dicts(item.get(key))] for key in ("content", "output")}
    return item | {key: value for key, value in parts.items() if value}


def _without_breakpoint(part: Json) -> Json:
    return {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}


def _writes(model: str) -> bool:
    """Return whether *model* bills cache writes: GPT 5.6 and later."""
    found = re.match(r"gpt-(\d+)(?:\.(\d+))?", model)
    return bool(found) and (int(found[1]), int(found[2] or 0)) >= _NEW_GPT


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
