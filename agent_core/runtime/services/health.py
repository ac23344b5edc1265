"""Health: whether the database answers, and the figures of the processes on it."""

from collections.abc import Mapping

from agent_core.hooks.chain import Resolver
from agent_core.hooks.rules import HookResolvers
from agent_core.store import catalog
from agent_core.store.database import Pooled
from agent_core.store.hub import Bus, Flushing
from agent_core.store.queue import Figures, figures
from agent_core.store.store import Store


class CoreHealth:
    """What operators watch of a core."""

    def __init__(self, store: Store, bus: Bus | None, resolvers: Resolver) -> None:
        self._store, self._bus, self._resolvers = store, bus, resolvers

    async def ping(self) -> None:
        """Return when the database answers."""
        await self._store.read(catalog.ping)

    async def figures(self) -> Figures:
        """Return the open runs and live workers of all processes."""
        now = self._store.clock.now()
        return await self._store.read(lambda connection: figures(connection, now))

    @property
    def pool(self) -> Pooled | None:
        """Return how busy the database's connections are; None where it counts none."""
        database = self._store.database
        return database if isinstance(database, Pooled) else None

    @property
    def flushing(self) -> Flushing | None:
        """Return what was flushed to other processes; None where there are none."""
        return self._bus if isinstance(self._bus, Flushing) else None

    @property
    def hook_errors(self) -> Mapping[tuple[str, str], int]:
        """Return how often hooks failed in this process, by type and event."""
        return self._resolvers.errors if isinstance(self._resolvers, HookResolvers) else {}
