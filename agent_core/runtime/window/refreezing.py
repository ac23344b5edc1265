"""Refreezing: when a session takes up the newest version of its agent, and what it takes up."""

from typing import NamedTuple

import structlog

from agent_core.agents import Agent
from agent_core.clock import Clock
from agent_core.errors import InvalidInput, NotFound
from agent_core.runtime.agents.roster import Roster
from agent_core.runtime.session_cache import CachedSession
from agent_core.store.intake import Refreeze, RefreezeReason

_MAX_WARNED = 1000
_log = structlog.get_logger("parley.agents")


class Successor(NamedTuple):
    """The newest version of a session's agent as this process runs it, and what the session's row is to say of it."""

    agent: Agent
    wanted: Refreeze


class Refreezing:
    """Finds out what sessions are to take up; the transaction that uses it checks that it still holds."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        self._roster, self._clock = roster, clock
        self._warned: set[tuple[str, int]] = set()

    def reason(self, cached: CachedSession) -> RefreezeReason | None:
        """Return why the session's prompt may be changed with its next message, None if it must not.

        After a long pause between calls, or after a compaction, the provider's cache of it is of no use anyway.
        """
        history = cached.window.history
        if history.refreezable:
            return "compaction"
        used = history.last.time if history.last else history.newest
        idle = self._clock.now() - used
        return "idle" if used and idle >= cached.agent.idle_refreeze_s * 1000 else None

    async def due(self, cached: CachedSession) -> Successor | None:
        """Return what the session takes up with its next message, None if nothing or if that cannot be built here.

        Without a tool or a provider that the newest version needs, the session keeps what it has.
        """
        reason = self.reason(cached)
        if reason is None:
            return None
        try:
            return await self.successor(cached, reason)
        except (InvalidInput, NotFound) as error:
            key = (cached.ref.id, cached.ref.agent_version)
            if key not in self._warned:
                if len(self._warned) >= _MAX_WARNED:
                    self._warned.clear()
                self._warned.add(key)
                remedy = "until then the session keeps the version of the agent that it has"
                _log.warning("session.not_refrozen", session=cached.ref.id, error=str(error), remedy=remedy)
            return None

    async def successor(self, cached: CachedSession, reason: RefreezeReason) -> Successor:
        """Return the newest version of the session's agent as it is known here; raises `InvalidInput`, `NotFound`."""
        agent = (await self._roster.prototype(cached.agent.id)).agent
        self._roster.check_model("model", agent.snapshot.model)
        return Successor(agent, Refreeze(version=agent.version, snapshot=agent.snapshot, reason=reason))

    def forget(self, cached: CachedSession) -> None:
        """Read the session's agent again when it is next asked for: it has a newer version."""
        self._roster.forget(cached.agent.id)
