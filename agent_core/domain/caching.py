"""Prompt caches: how a vendor keeps prompts, and what a change between two model calls loses of them. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agent_core.domain.messages import Usage

LostPart = Literal["all", "snapshot", "messages"]
"""What is not read any more: the whole prompt, what follows the first change in the snapshot, or the messages."""


class PromptCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call: when it was asked, in ms, of which *model* (`provider:name`), with what.

    *entries* is how many messages the window had, *controls* are those of its step, as recorded. *usage* is unknown
    until the call was answered.
    """

    time: int
    model: str
    snapshot: str
    entries: int
    controls: dict[str, object]
    usage: Usage

    @property
    def prompt(self) -> int | None:
        """Return the tokens of the whole prompt, None if the provider did not count its uncached part."""
        cached = (self.usage.cache_read, self.usage.cache_write_short, self.usage.cache_write_long)
        return None if self.usage.input is None else self.usage.input + sum(count or 0 for count in cached)


class Caching(msgspec.Struct, frozen=True, kw_only=True):
    """How the prompt cache of one model works.

    *least* is the fewest tokens that it keeps, *short_s* and *long_s* the seconds since the last use for which it keeps
    what was written as short and as long. *exact*: writes are billed, so that it is known to the token what the next
    call reads; else the cache is free to write and kept as well as it goes.

    *strips*: the API leaves thinking out from before a new user message. *budgets* are the tokens of thinking by effort
    where they are asked for, and are part of the messages then; *room* those of an answer without `max_output_tokens`.
    """

    vendor: Literal["anthropic", "openai"]
    least: int
    short_s: int
    long_s: int
    exact: bool = True
    strips: bool = False
    budgets: Mapping[str, int] = {}
    room: int = 0

    def thinking(self, controls: Mapping[str, object]) -> int:
        """Return the tokens of thinking that a call with *controls*, as recorded, asks for; 0 where it asks for none.

        A forced choice of a tool, and a tool loop that began without thinking, may still leave it out.
        """
        room = controls.get("max_output_tokens")
        room = min(room, self.room or room) if isinstance(room, int) else self.room
        return thinking_budget(str(controls.get("effort")), room, self.budgets)


class CacheChange(msgspec.Struct, frozen=True):
    """A control or a part of the prompt that differs between two calls: its *name*, from what to what, and the loss."""

    name: str
    before: str
    now: str
    loses: LostPart


def thinking_budget(effort: str, room: int, budgets: Mapping[str, int]) -> int:
    """Return the tokens of thinking for *effort* in an answer of at most *room*; 0 when too few are left for any."""
    budget = min(budgets.get(effort, 0), room // 2)
    return budget if budgets and budget >= min(budgets.values()) else 0


def changes(before: PromptCall, now: PromptCall, sent: tuple[Any, Any], caching: Caching) -> list[CacheChange]:
    """Return what differs between two calls and is part of what their prompts are cached under, the worst loss first.

    *sent* are the tool choices that the API got. The vendors differ: to Anthropic effort, thinking and its budget, the
    form of the answer and the tool choice are part of the messages; to OpenAI effort and the form are part of the whole
    prompt, and the tool choice is part of none. Of a call *before* whose controls the log does not name the snapshot
    alone is compared.
    """
    if not before.model:
        return [CacheChange("snapshot", before.snapshot, now.snapshot, "snapshot")] * (before.snapshot != now.snapshot)
    is_openai = caching.vendor == "openai"
    lost: LostPart = "all" if is_openai else "messages"
    changes: list[CacheChange] = []
    if before.model != now.model:
        changes.append(CacheChange("model", before.model, now.model, "all"))
    if before.snapshot != now.snapshot:
        changes.append(CacheChange("snapshot", before.snapshot, now.snapshot, "snapshot"))
    for name in ("effort", "output_schema"):
        old, new = before.controls.get(name), now.controls.get(name)
        if old != new:
            changes.append(CacheChange(name, _as_text(old), _as_text(new), lost))
    old, new = (call.controls.get("max_output_tokens") for call in (before, now))
    if old != new and caching.thinking(before.controls) != caching.thinking(now.controls):
        changes.append(CacheChange("max_output_tokens", _as_text(old), _as_text(new), "messages"))
    if sent[0] != sent[1] and not is_openai:
        changes.append(CacheChange("tool_choice", _as_text(sent[0]), _as_text(sent[1]), "messages"))
    order: tuple[LostPart, ...] = ("all", "snapshot", "messages")
    return sorted(changes, key=lambda change: order.index(change.loses))


def _as_text(value: object) -> str:
    """Return *value* of a control for a sentence; a schema is not repeated."""
    match value:
        case None:
            return "unset"
        case str():
            return value
        case dict():
            return "another schema"
        case _:
            return str(getattr(value, "tool", value))
