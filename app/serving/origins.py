"""The sites on whose pages agents talk to people who have not said who they are."""

import asyncio
from collections.abc import Callable
from time import monotonic

import structlog

from agent_core import Core, ParleyError
from channels.web.settings import settings_of

EVERY = 5.0
"""Seconds after which a change of an agent's list is seen at the latest; no request reads it more often."""
_log = structlog.get_logger("parley.origins")


class AgentOrigins:
    """The origins that the agents of *core* name, read again when a request asks and they are old.

    While the database is away those that were read last hold.
    """

    def __init__(self, core: Core, *, now: Callable[[], float] = monotonic) -> None:
        self._core, self._now = core, now
        self._origins: frozenset[str] = frozenset()
        self._due = float("-inf")
        self._one = asyncio.Lock()

    def __contains__(self, origin: str) -> bool:
        return origin in self._origins

    async def look(self) -> None:
        """Read the origins, unless that was done a moment ago."""
        if self._now() < self._due:
            return
        async with self._one:
            if self._now() < self._due:
                return
            self._due = self._now() + EVERY
            try:
                agents = await self._core.agents.all()
            except ParleyError as error:
                _log.warning("origins.not_read", reason=str(error))
                return
            named = (settings_of(each.definition).anonymous for each in agents)
            self._origins = frozenset(origin for each in named if each is not None for origin in each.origins)
