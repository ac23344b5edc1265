"""What other processes have changed of tools, servers and secrets: looked for by one statement a second."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from agent_core.errors import Unavailable
from agent_core.runtime.tasks import cancel_and_wait
from agent_core.store import tools
from agent_core.store.store import Store
from agent_core.store.tools import RevisionKind
from agent_core.traces import trace_of

EVERY = 1.0
"""Seconds after which a change of another process is seen at the latest."""
Load = Callable[[], Awaitable[None]]
_log = structlog.get_logger("parley.tools")


class Revisions:
    """Reads kinds of stored things again when they have changed; a change of this process is read by `look` at once.

    Without a bus no other process has the database, and nothing is looked for in the background.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._loads = store, dict[str, Load]()
        self._seen: dict[str, int] = {}
        self._one = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None

    def follow(self, kind: RevisionKind, load: Load) -> None:
        """Call *load* at the start, and whenever things of *kind* have changed; it reads all of them."""
        self._loads[kind] = load

    async def start(self) -> None:
        """Load everything, and from now on what changes."""
        await self.look()
        if self._store.bus is not None:
            self._work = asyncio.create_task(self._follow(), name="parley-revisions")

    async def stop(self) -> None:
        """Look no more."""
        await cancel_and_wait(self._work)

    async def look(self) -> None:
        """Load what has changed since it was loaded last; call it after a change, and before refusing a name."""
        async with self._one:
            now = await self._store.peek(tools.current_revisions)
            for kind, load in self._loads.items():
                if self._seen.get(kind) != now.get(kind, 0):
                    await load()  # what it reads is at least as new as the number: a later one is loaded once more
                    self._seen[kind] = now.get(kind, 0)

    async def _follow(self) -> None:
        is_away = False
        while True:
            await self._store.clock.sleep(EVERY)
            try:
                await self.look()
                is_away = False
            except Unavailable as error:  # what is in memory holds until the database is back
                if not is_away:
                    _log.warning("tools.not_read", reason=str(error))
                is_away = True
            except Exception as error:  # noqa: BLE001 - the boundary: no caller awaits this task, and it must go on
                if not is_away:
                    _log.error("tools.not_read", exception=trace_of(error))
                is_away = True
