"""Cache notes: what the prompt cache loses by a change since the session's last model call, in a sentence. Pure."""

from collections.abc import Sequence
from typing import Any

from agent_core.domain.agents import Agent
from agent_core.domain.caching import CacheChange, Caching, PromptCall, changes
from agent_core.domain.controls import read, sent
from agent_core.domain.messages import UNKNOWN_USAGE
from agent_core.domain.step_controls import as_prompted
from agent_core.loop.strategy import Ask

_LOSSES = {
    "all": "nothing of the prompt is read from the cache, all of it is {}",
    "snapshot": "tools, system text and messages are {} from the first difference on",
    "messages": "the messages are {}, tools and system are read",
}


def cache_note(move: Ask, chosen: dict[str, Any], last: PromptCall | None, agent: Agent) -> str | None:
    """Return what the cache loses with *move*, whose controls are recorded as *chosen*, after the call *last*.

    None when there was none before it, nothing changed that its vendor caches prompts under, the model has no cache
    that is billed, or nothing is marked for it.
    """
    caching = agent.able(move.controls.model or "").caching
    if last is None or caching is None or not agent.prompt_caching:
        return None
    model = str(chosen.get("model") or "")
    if last.model == model and last.snapshot == move.snapshot and last.controls == chosen:
        return None
    now = PromptCall(time=0, model=model, snapshot=move.snapshot, entries=0, controls=chosen, usage=UNKNOWN_USAGE)
    before = as_prompted(sent(read(last.controls), agent.able(last.model)), agent).tool_choice
    differences = changes(last, now, (before, (move.sends or move.controls).tool_choice), caching)
    return sentence(differences, caching) if differences else None


def sentence(changes: Sequence[CacheChange], caching: Caching) -> str:
    """Return *changes* as a sentence, the worst first, and what their vendor's cache loses."""
    again = "written again" if caching.exact else "processed again"
    return f"{' and '.join(map(_named, changes))}: {_LOSSES[changes[0].loses].format(again)}."


def _named(change: CacheChange) -> str:
    if change.name == "snapshot":
        return "the frozen prompt changed"
    return f"`{change.name}` changed from {change.before} to {change.now}"
