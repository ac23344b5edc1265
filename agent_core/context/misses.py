"""Cache misses: whether a model call read less from the prompt cache than it should have, and why. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agent_core.agents import Snapshot, ToolSpec
from agent_core.context.estimates import tokens_of_prefix
from agent_core.context.history import PromptHistory
from agent_core.controls import Caching, PromptCall, changes
from agent_core.events import CacheMissed, MissCause
from agent_core.messages import File, Message, Part, ToolResult, Usage

FEW = 16
"""Tokens that a call may read less than expected: vendors leave two to four at the end of a prompt uncached."""
SHARE = 0.02
BEST_EFFORT = 0.5
"""The part of the expected tokens that counts as read where a cache gives no promise, or the count is an estimate."""
STEP = 128
"""Tokens to which a cache with free writes rounds down."""
_BEGINNING = 64
"""Characters of an answer's JSON within which Anthropic names the type of its first block."""
_TEXTS = ("contract", "persona", "instructions", "skills", "memory", "profile")


class CacheMiss(msgspec.Struct, frozen=True):
    """The fact of a miss, and *changed*: names of what differs in the prompt, for the operator; empty if nothing."""

    fact: CacheMissed
    changed: str = ""


def shortfall(
    history: PromptHistory, usage: Usage, caching: Caching, snapshot: Snapshot, messages: Sequence[Message] = ()
) -> tuple[int, int] | None:
    """Return how many tokens a call with *usage* was expected to read, and how many it read; None if that is no miss.

    It is expected to read what the call before it, `history.last`, read and wrote. After a compaction, or where the API
    has left earlier thinking out of *messages*, the window's, it is the *snapshot* alone, whose tokens are an estimate.
    Unknown figures are no miss.
    """
    if history.last is None or usage.cache_read is None:
        return None
    cached = _cached(history.last, caching)
    if cached is None:
        return None
    is_rewritten = history.rewritten == "compaction" or _is_stripped(history.last, caching, messages)
    is_exact = caching.exact and not is_rewritten
    expected = min(cached, _roughly(snapshot)) if is_rewritten else cached
    enough = expected * (1 - SHARE) - FEW if is_exact else expected * BEST_EFFORT
    if expected < caching.least or usage.cache_read >= enough:
        return None
    return expected, usage.cache_read


def missed(
    n: int,
    short: tuple[int, int],
    history: PromptHistory,
    sent: tuple[Any, Any],
    snapshots: tuple[Snapshot, Snapshot],
    caching: Caching,
    messages: Sequence[Message] = (),
) -> CacheMiss | None:
    """Return why step *n*, `history.newest_call`, read less than it was expected to (*short*, see `shortfall`).

    *snapshots* are those of the call before it and of this one; *sent* the tool choices that the API got; *messages*
    the window's. A snapshot that was frozen again after a compaction loses its part on purpose: that is no miss.
    """
    cause, changed = _cause(history, sent, snapshots, caching, messages)
    if history.rewritten == "compaction" and cause in ("tools", "system"):
        return None
    return CacheMiss(CacheMissed(n=n, expected=short[0], read=short[1], cause=cause), changed)


def _cause(
    history: PromptHistory,
    sent: tuple[Any, Any],
    snapshots: tuple[Snapshot, Snapshot],
    caching: Caching,
    messages: Sequence[Message],
) -> tuple[MissCause, str]:
    """Return the cause and which part changed; what has expired was lost whatever else changed."""
    before, now = history.last, history.newest_call
    assert before is not None
    assert now is not None
    if now.time - before.time > _life(before.usage, caching):
        return "expired", ""
    for change in changes(before, now, sent, caching)[:1]:
        match change.name:
            case "model":
                return "model", f"{change.before} -> {change.now}"
            case "snapshot":
                return differing(*snapshots)
            case name:
                return "prefix", name
    if history.rewritten in ("snapshot", "answer"):
        return "prefix", "reasoning" if history.rewritten == "snapshot" else "a paused answer"
    if history.rewritten is None and (added := _added(before, now, caching, messages)):
        return "prefix", added
    if before.controls.get("tool_choice") != now.controls.get("tool_choice"):
        return "unknown", "tool_choice"  # it may have been sent after all, see `Ask.sends`
    return "evicted", ""


def _added(before: PromptCall, now: PromptCall, caching: Caching, messages: Sequence[Message]) -> str:
    """Return what was added since the call *before* that an API caches no messages without; empty for nothing."""
    if caching.vendor != "anthropic":
        return ""
    if any(_has_image(message.parts) for message in messages[before.entries : now.entries]):
        return "an image"
    return "thinking" if _thinks(before, caching, messages) != _thinks(now, caching, messages) else ""


def _has_image(parts: Sequence[Part]) -> bool:
    return any(
        part.mime.startswith("image/") if isinstance(part, File) else _has_image(part.parts)
        for part in parts
        if isinstance(part, File | ToolResult)
    )


def _is_stripped(before: PromptCall, caching: Caching, messages: Sequence[Message]) -> bool:
    """Return whether the API has left out thinking that the call *before* was sent, or answered with."""
    if not caching.strips or not caching.thinking(before.controls):
        return False
    return any(message.role == "user" for message in messages[before.entries :])


def _thinks(call: PromptCall, caching: Caching, messages: Sequence[Message]) -> bool:
    """Return whether *call* asked for thinking in tokens: in a tool loop only if the loop's first answer begins so."""
    first = None
    for message in reversed(messages[: call.entries]):
        if message.role == "user":
            break
        if message.role == "assistant":
            first = message
    own = first.native.pieces if first and first.native and first.native.model == call.model else ()
    # Also thinking that was redacted or has no text, which is no part of the answer.
    has_begun = first is None or 'thinking"' in str(own[:1])[:_BEGINNING]
    return has_begun and caching.thinking(call.controls) > 0


def differing(before: Snapshot, now: Snapshot) -> tuple[MissCause, str]:
    """Return which part of the snapshot changed, tools first, and the names of what is new, gone or other in it."""
    old, new = ({tool.name: _seen(tool) for tool in each.tools} for each in (before, now))
    if old != new:
        signs = {name: "+" if name not in old else "-" if name not in new else "~" for name in sorted({*old, *new})}
        return "tools", " ".join(f"{sign}{name}" for name, sign in signs.items() if old.get(name) != new.get(name))
    names = [name for name in _TEXTS if getattr(before, name) != getattr(now, name)]
    return ("system", " ".join(names)) if names else ("evicted", "")


def _seen(tool: ToolSpec) -> tuple[str, object]:
    """Return what a model sees of *tool* beside its name."""
    return tool.description, tool.parameters


def _roughly(snapshot: Snapshot) -> int:
    """Estimate the tokens of *snapshot*, rather too few."""
    return round(tokens_of_prefix(snapshot) * 0.7)


def _cached(before: PromptCall, caching: Caching) -> int | None:
    """Return the tokens of the call *before* that the cache keeps, None if that is not known."""
    usage = before.usage
    if not caching.exact:
        return None if before.prompt is None else before.prompt // STEP * STEP
    if usage.cache_read is None or usage.cache_write_short is None:
        return None
    return usage.cache_read + usage.cache_write_short + (usage.cache_write_long or 0)


def _life(usage: Usage, caching: Caching) -> int:
    """Return the milliseconds for which the newest part of a prompt is kept: what was written last tells."""
    is_long = bool(usage.cache_write_long) and not usage.cache_write_short
    return 1000 * (caching.long_s if is_long else caching.short_s)
