"""Ends: who is told that a run is over, once that is committed. Nobody waits for it, and a crash may lose it."""

import asyncio

import structlog

from agent_core.domain import events as e
from agent_core.domain.events import Fact
from agent_core.errors import NotFound, Unavailable
from agent_core.runtime.segments import Segments
from agent_core.runtime.session_cache import SessionCache
from agent_core.store.reading import readings
from agent_core.store.store import Store
from agent_core.store.work import runs

_MOST = 100
"""Ends that are told at once; of more a line in the log is all."""
_log = structlog.get_logger("parley.hooks")


class Ends:
    """Tells the `OnRunComplete` hooks of the runs whose end was committed here."""

    def __init__(self, store: Store, cache: SessionCache, segments: Segments) -> None:
        self._store, self._cache, self._segments = store, cache, segments
        self._telling: set[asyncio.Task[None]] = set()
        store.heard.update({kind.type: self._ended for kind in e.TERMINAL})

    async def stop(self, grace: float) -> None:
        """Let what is being told be told within *grace* seconds."""
        if self._telling:
            await asyncio.wait(self._telling, timeout=grace)
        for task in self._telling:
            task.cancel()

    def _ended(self, fact: Fact) -> None:
        home = self._cache.peek(fact.session)
        if home is not None and not home.agent.hooks("OnRunComplete"):
            return
        if len(self._telling) >= _MOST:
            _log.warning("hook.dropped", run=fact.run, remedy="the webhooks of OnRunComplete are slower than the runs")
            return
        task = asyncio.create_task(self._tell(fact))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, fact: Fact) -> None:
        assert fact.run is not None
        name = fact.run
        try:
            home = await self._cache.get(fact.session)
            if not home.agent.hooks("OnRunComplete"):
                return
            run, seen = await self._store.read(
                lambda connection: (runs.find(connection, name)[0], readings.run(connection, name))
            )
            await self._segments.hooks(run, home.agent).after_end(seen.status, seen.text)
        except (NotFound, Unavailable):
            _log.info("hook.untold", run=name)
        except Exception:  # noqa: BLE001 - the boundary: nobody waits for this task, so a bug of ours must be heard here
            _log.exception("hook.failed", run=name)
