"""The prompt cache as this process uses it: the marks of each request, and the misses of each answer."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from agent_core import events as e
from agent_core.agents import Agent, Snapshot, as_prompted
from agent_core.context.history import PromptHistory
from agent_core.context.misses import missed, shortfall
from agent_core.context.window import Window
from agent_core.controls import read, sent
from agent_core.events import Fact, FactBody
from agent_core.loop.moves import Ask
from agent_core.providers.base import CacheMarks

_KEYS = 1024
_KEY_LENGTH = 32
_log = structlog.get_logger("parley.cache")


class PromptCache:
    """Marks requests."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], str] = {}

    def marks(self, agent: Agent, history: PromptHistory) -> CacheMarks | None:
        """Return how a request of a session with *history* uses the cache; None where caching is switched off.

        After a compaction the window's first entry, its summary, counts as sent before.
        """
        if not agent.prompt_caching:
            return None
        previous = history.previous or (1 if history.rewritten == "compaction" else 0)
        return CacheMarks(key=self._key(agent), previous=previous)

    def _key(self, agent: Agent) -> str:
        """Return the key that names *agent* and what its sessions share, the same in each process."""
        snapshot = agent.snapshot
        key = self._keys.get((agent.id, snapshot.hash))
        if key is None:
            if len(self._keys) >= _KEYS:
                self._keys.clear()
            tools = [(tool.name, tool.description, tool.parameters) for tool in snapshot.tools]
            shared = msgspec.json.encode([tools, snapshot.shared], order="deterministic")
            key = hashlib.sha256(agent.id.encode() + b"\n" + shared).hexdigest()[:_KEY_LENGTH]
            self._keys[agent.id, snapshot.hash] = key
        return key


async def with_miss(
    facts: Sequence[FactBody],
    move: Ask,
    window: Window,
    agent: Agent,
    snapshot: Callable[[str], Awaitable[Snapshot]],
) -> Sequence[FactBody]:
    """Return *facts*, the outcome of *move*, with `cache.missed` after the step if its call read less than it should.

    *window* is what the call was sent. *snapshot* reads a frozen prefix by its hash; it is asked only after a miss.
    """
    index = next((index for index, fact in enumerate(facts) if isinstance(fact, e.StepCompleted)), None)
    caching = agent.able(move.controls.model or "").caching
    if index is None or caching is None or not agent.prompt_caching:
        return facts
    history = window.history
    step, before = facts[index], history.last
    assert isinstance(step, e.StepCompleted)
    messages = [entry.message for entry in window.entries] if caching.strips else []
    short = shortfall(history, step.usage, caching, agent.snapshot, messages)
    if short is None or before is None:
        return facts
    messages = [entry.message for entry in window.entries]
    old = agent.snapshot if before.snapshot == move.snapshot else await snapshot(before.snapshot)
    choices = (
        as_prompted(sent(read(before.controls), agent.able(before.model)), agent).tool_choice,
        (move.sends or move.controls).tool_choice,
    )
    miss = missed(step.n, short, history, choices, (old, agent.snapshot), caching, messages)
    if miss is None:
        return facts
    fact = miss.fact
    _log.warning(
        "cache.missed", step=fact.n, expected=fact.expected, read=fact.read, cause=fact.cause, changed=miss.changed
    )
    return [*facts[: index + 1], fact, *facts[index + 1 :]]


def log_cache_notes(run: str, facts: Sequence[Fact]) -> None:
    """Log what the cache loses with a step of *run* that has just started."""
    for fact in facts:
        if isinstance(fact.body, e.StepStarted) and fact.body.cache_note:
            _log.info("cache.changed", run=run, step=fact.body.n, note=fact.body.cache_note)
