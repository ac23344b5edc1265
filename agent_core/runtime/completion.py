"""Completion: the `OnRunComplete` hooks are notified of a run's end once it is committed; a crash may lose that."""

import asyncio

import structlog

from agent_core import events as e
from agent_core.errors import NotFound, Unavailable
from agent_core.events import Fact
from agent_core.runtime.segments import Segments
from agent_core.runtime.session_cache import SessionCache
from agent_core.store import reading, runs
from agent_core.store.store import Store
from agent_core.traces import trace_of

_MAX_PENDING = 100
"""Notifications at once; beyond it a run's end is only logged."""
_log = structlog.get_logger("parley.hooks")


class CompletionNotifier:
    """Notifies the `OnRunComplete` hooks of the runs whose end was committed in this process."""

    def __init__(self, store: Store, cache: SessionCache, segments: Segments) -> None:
        self._store, self._cache, self._segments = store, cache, segments
        self._pending: set[asyncio.Task[None]] = set()
        store.subscribe(e.TERMINAL, self._ended)

    async def stop(self, grace: float) -> None:
        """Wait up to *grace* seconds for pending notifications, then cancel them."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=grace)
        for task in self._pending:
            task.cancel()

    def _ended(self, fact: Fact) -> None:
        cached = self._cache.peek(fact.session)
        if cached is not None and not cached.agent.hooks("OnRunComplete"):
            return
        if len(self._pending) >= _MAX_PENDING:
            _log.warning("hook.dropped", run=fact.run, remedy="the webhooks of OnRunComplete are slower than the runs")
            return
        task = asyncio.create_task(self._notify(fact))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _notify(self, fact: Fact) -> None:
        assert fact.run is not None
        name = fact.run
        try:
            run, seen = await self._store.read(
                lambda connection: (runs.find(connection, name)[0], reading.run(connection, name))
            )
            cached = await self._cache.get(fact.session, run)
            if not cached.agent.hooks("OnRunComplete"):
                return
            await self._segments.hooks(run, cached.agent).after_end(seen.status, seen.text)
        except (NotFound, Unavailable):
            _log.info("hook.not_notified", run=name)
        except Exception as error:  # noqa: BLE001 - the boundary: no caller awaits this task, so a bug of ours is logged here
            _log.error("hook.failed", run=name, exception=trace_of(error))
