"""The prompt cache as this process uses it: the marks of each request, and the gate for bursts."""

import hashlib
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cache, lru_cache
from typing import NamedTuple, TypeGuard

import msgspec

from agent_core.clock import Clock
from agent_core.context import lifetimes
from agent_core.context.history import PromptHistory
from agent_core.context.lifetimes import CachePrices, SharedUse
from agent_core.domain.agents import Agent
from agent_core.providers import models
from agent_core.providers.base import CacheMarks, CacheWriter, Provider, Request
from agent_core.runtime.window.burst import BurstGate, Lead

_PREFIXES = 1024
"""Prefixes, and uses of prefixes, that are remembered; the least recently used one is dropped."""
_MINIMUM = 1024
"""Tokens of the smallest prefix that most models keep."""
_KEY_LENGTH = 32


class _Prefix(NamedTuple):
    """What sessions of an agent share: a key that names it, and an estimate of its tokens."""

    key: str
    tokens: int


class PromptCache:
    """Marks requests, and holds those of a cold prefix until one of them has written it."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.gate = clock, BurstGate(clock)
        self._prefixes: OrderedDict[tuple[str, str], _Prefix] = OrderedDict()
        self._uses: OrderedDict[tuple[str, str], SharedUse] = OrderedDict()

    def marks(self, agent: Agent, model: str, history: PromptHistory) -> CacheMarks | None:
        """Return how a request to *model*, `provider:name`, uses the cache; None where caching is switched off.

        *history* is the session's. After a compaction the window's first entry, its summary, counts as sent before.
        """
        if not agent.prompt_caching:
            return None
        now, prices, prefix = self._clock.now(), prices_of(agent.listed(model)), self._prefix(agent)
        used = (model, prefix.key)
        use = self._uses.pop(used, None)
        self._uses[used] = use = use.at(now) if use else SharedUse(now, now)
        if len(self._uses) > _PREFIXES:
            self._uses.popitem(last=False)
        is_long = lifetimes.is_long(prices, history, model=model, now=now)
        return CacheMarks(
            key=prefix.key,
            previous=history.previous or (1 if history.rewritten == "compaction" else 0),
            shared="long" if is_long or use.is_long(prices) else "short",
            rest="long" if is_long else "short",
        )

    def passing(
        self, agent: Agent, model: str, provider: Provider, request: Request, history: PromptHistory
    ) -> AbstractAsyncContextManager[Lead | None]:
        """Return the context in which *request* may be sent to *model*, see `BurstGate.passing`.

        It waits for nothing unless the provider bills what this request writes and the shared prefix is large enough
        to be kept.
        """
        marks = request.cache
        if marks is None or not _is_writer(provider):
            return nullcontext()
        life = provider.cache_life(request.model, marks.shared)
        if life is None or self._prefix(agent).tokens < (models.find(agent.listed(model)).cacheable or _MINIMUM):
            return nullcontext()
        last = history.last
        is_same = last is not None and (last.model, last.snapshot) == (model, agent.snapshot.hash)
        return self.gate.passing(f"{model} {marks.key}", life, last.time if last and is_same else None)

    def _prefix(self, agent: Agent) -> _Prefix:
        snapshot = agent.snapshot
        entry = self._prefixes.pop((agent.id, snapshot.hash), None)
        if entry is None:
            tools = [(tool.name, tool.description, tool.parameters) for tool in snapshot.tools]
            shared = msgspec.json.encode([tools, snapshot.shared], order="deterministic")
            digest = hashlib.sha256(agent.id.encode() + b"\n" + shared).hexdigest()
            entry = _Prefix(digest[:_KEY_LENGTH], len(shared) // 4)
        self._prefixes[agent.id, snapshot.hash] = entry
        if len(self._prefixes) > _PREFIXES:
            self._prefixes.popitem(last=False)
        return entry


def _is_writer(provider: Provider) -> TypeGuard[CacheWriter]:
    """Return whether *provider* is billed for what it writes."""
    return _writes(type(provider))


@cache
def _writes(kind: type[Provider]) -> bool:
    """Return whether providers of this *kind* are `CacheWriter`s: a look at a protocol's members takes long."""
    return issubclass(kind, CacheWriter)


@lru_cache(maxsize=256)
def prices_of(model: str) -> CachePrices:
    """Return what the cache of *model*, `provider:name`, costs; the usual prices where its own are not known."""
    price = models.find(model).price
    if price is None or price.read is None or price.write_short is None or price.write_long is None:
        return lifetimes.USUAL
    read, short, long = (float(each / price.input) for each in (price.read, price.write_short, price.write_long))
    return CachePrices(read, short, long)
