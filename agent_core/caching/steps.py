"""The prefixes of a request: each with the key that a cache keeps it under, and the mark at its end."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from agent_core.caching.positions import THINKING, Count, Json, ModelPrompt, Position, Tier, dicts, runs
from agent_core.caching.rules import FIVE_MINUTES, HOUR, Rules

Breakpoint = Literal["explicit", "implicit"]


@dataclass(frozen=True, slots=True)
class RequestPrefix:
    """A prefix of a request: its key, its tokens, how many positions it has, and the lifetime of a mark at its end.

    *breakpoint* is OpenAI's: written by the caller, or where the API may place one by itself.
    """

    key: bytes
    tokens: int
    tier: Tier
    positions: int
    seconds: int | None = None
    breakpoint: Breakpoint | None = None


def anthropic_steps(body: Json, positions: Sequence[Position], count: Count, rules: Rules) -> list[RequestPrefix]:
    """Return the prefixes of a request; what a tier's key depends on is mixed in where the tier begins."""
    first = _thinking(body) if rules.tools_by_effort else ()
    digest = hashlib.sha256(_json(["anthropic", body.get("model"), *first]))
    automatic = _seconds(body)
    groups = list(runs(positions))
    last = max((n for n, run in enumerate(groups) if run[-1].type not in THINKING), default=-1)
    steps: list[RequestPrefix] = []
    total, tier, count_so_far = 0, "tools", 0
    for n, run in enumerate(groups):
        if run[0].tier != tier:
            tier = run[0].tier
            digest.update(_json([tier, *(_material(body) if tier == "messages" else (body.get("speed"),))]))
        for position in run:
            digest.update(position.data or b"")
            total += count(position)
        count_so_far += len(run)
        mark = next((ttl for position in reversed(run) if (ttl := _seconds(position.block))), None)
        own = mark or (automatic if n == last else None)
        steps.append(RequestPrefix(digest.digest(), total, run[0].tier, count_so_far, own))
    return steps


def openai_steps(prompt: ModelPrompt, positions: Sequence[Position], count: Count) -> list[RequestPrefix]:
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
        steps.append(RequestPrefix(digest.digest(), total, position.tier, n + 1, breakpoint=mark))
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
