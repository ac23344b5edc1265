"""Refusals: messages that a limit refuses, counted, logged and remembered for some seconds."""

from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import structlog

from agent_core.clock import Clock
from agent_core.counters import Counters
from agent_core.errors import RateLimited
from agent_core.messages import Actor
from agent_core.quotas import Origin

REMEMBERED = 5_000
"""Milliseconds for which a refusal is repeated without counting again: a raised limit works that much later."""
LOGGED_EVERY = 60_000
MAX_REFUSALS = 10_000
_log = structlog.get_logger("parley.limits")
What = Literal["message", "session"]
Key = tuple[What, str, str, str, Origin]


class Refusals:
    """Which actors a quota has just refused: while they go on sending, nothing is counted for them in the database."""

    def __init__(self, clock: Clock, counters: Counters) -> None:
        self._clock, self._counters = clock, counters
        self._refused: OrderedDict[Key, tuple[int, RateLimited]] = OrderedDict()
        self._logged: dict[str, int] = {}

    def of(self, what: What, agent: str, actor: Actor, origin: Origin) -> RateLimited | None:
        """Return the refusal that *actor* got from *agent* just before, with the time that is left of it."""
        if not self._refused:
            return None
        at, error = self._refused.get(_key(what, agent, actor, origin), (0, None))
        gone = self._clock.now() - at
        if error is None or gone >= min(REMEMBERED, error.retry_after * 1000):
            return None
        return RateLimited(str(error), max(1, error.retry_after - gone // 1000), limit=error.limit)

    @contextmanager
    def noted(self, what: What, agent: str, actor: Actor, origin: Origin) -> Generator[None]:
        """Note a refusal of what *actor* sends to *agent* in this block."""
        try:
            yield
        except RateLimited as error:
            self._note(what, agent, actor, origin, error)
            raise

    def _note(self, what: What, agent: str, actor: Actor, origin: Origin, error: RateLimited) -> None:
        now = self._clock.now()
        self._counters.limited[error.limit] += 1
        if now - self._logged.get(error.limit, -LOGGED_EVERY) >= LOGGED_EVERY:
            self._logged[error.limit] = now
            remedy = "raise it in the agent's `limits`" if error.is_quota else "add processes, or raise the bound"
            _log.warning("limit.reached", limit=error.limit, agent=agent, remedy=f"{remedy} if this is no abuse")
        if not error.is_quota or self.of(what, agent, actor, origin) is not None:
            return
        self._refused[_key(what, agent, actor, origin)] = (now, error)
        if len(self._refused) > MAX_REFUSALS:
            self._refused.popitem(last=False)


def _key(what: What, agent: str, actor: Actor, origin: Origin) -> Key:
    return what, agent, actor.kind, actor.id, origin
