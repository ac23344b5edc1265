"""The engine on Postgres: any number of processes, each driving what it has room for, and seeing to each other's."""

import asyncio
import random
import time
from collections.abc import Callable

import structlog

from agent_core.clock import Clock
from agent_core.engine.base import Runs
from agent_core.engine.doorbell import Doorbell, segment_name
from agent_core.engine.liveness import Liveness, Load, Pace, end_process, this_process
from agent_core.engine.local import MAX_RUNS, LocalEngine
from agent_core.errors import Unavailable
from agent_core.store.database import Database
from agent_core.store.work import workers
from agent_core.store.work.due import Due
from agent_core.store.work.runs import RESTARTED
from agent_core.store.work.workers import FOREVER, Kind

_HERD = 0.05
_LET_GO = 2.0
_SHUT = 5.0
_PRUNE_EVERY = 600.0
_MOST_ENQUEUED = 20
_PATIENCE = 30.0
_log = structlog.get_logger("parley.engine")


class DbosEngine(LocalEngine):
    """One of the workers of a Postgres: the runs that it starts are its own, until it dies or is told to stop.

    The row of every process in `worker` says that it lives. Who finds a run that nobody living drives takes it; the
    session's lock and the epoch decide between two. DBOS is told of the runs that last, see `docs/decisions/0014`.
    """

    def __init__(
        self,
        runs: Runs,
        clock: Clock,
        *,
        database: Database,
        url: str,
        kind: Kind = "both",
        max_runs: int = MAX_RUNS,
        pace: Pace | None = None,
        end: Callable[[str], None] = end_process,
    ) -> None:
        """*url* is what the user wrote; *end* ends a process that stood still.

        A process of the kind `web` drives nothing, and does not launch DBOS.
        """
        super().__init__(runs, clock, max_runs=0 if kind == "web" else max_runs)
        self._database, self._kind, self._pace = database, kind, pace or Pace()
        drives = kind != "web"
        self._liveness = Liveness(
            url,
            this_process(self.worker, kind),
            self._load,
            pace=self._pace,
            lost=self._give_up,
            end=end if drives else None,
        )
        self._doorbell = Doorbell(url, self.worker, max_runs=max_runs, ensure=self._ensure)
        self._enqueued: set[str] = set()
        self._freed = asyncio.Event()

    @property
    def room(self) -> int:
        return super().room if self._liveness.is_well else 0

    @property
    def _patience(self) -> int:
        return int(self._pace.dead * 1000) if self._liveness.may_judge else FOREVER

    def _load(self) -> Load:
        return Load(room=self.room, running=len(self._driven))

    async def start(self) -> None:
        """Beat for the first time: before that nobody would know whose a run is."""
        await self._liveness.start()
        if self._kind != "web" and self._pace.tell is not None:
            self._doorbell.start()

    async def ring(self, run: int, at: int | None = None) -> None:
        if at is None and run not in self._driven and not self.has_room():
            self._runs.call(run)
        else:
            await super().ring(run, at)

    async def hear(self, run: int) -> None:
        """Take the run if there is room, the later the more there is to do: the others hear of it too."""
        if run not in self._driven:
            if not self.has_room():
                return
            load = len(self._driven) / self._max_runs
            await asyncio.sleep(_HERD * (load + random.random() / 10))  # noqa: S311 - no secret
        if self.has_room() or run in self._driven:
            await super().ring(run)

    async def work(self) -> None:
        if self._kind == "web":
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(super().work())
            group.create_task(self._see_to_others())

    async def stop(self, grace: float) -> None:
        """Let what is driven end within *grace* seconds, and hand the rest to the other workers."""
        self._stopping = True
        self._let_waiting_look()
        if self._driven and self._liveness.is_well:
            await asyncio.wait([driven.task for driven in self._driven.values()], timeout=grace)
        await self._drop(_LET_GO)
        await asyncio.gather(self._leave(), self._doorbell.stop(_SHUT))

    async def _leave(self) -> None:
        """Beat no more, and hand over what is left."""
        await self._liveness.stop()
        try:
            released = await self._database.write(lambda connection: workers.leave(connection, self.worker))
        except Unavailable:
            _log.warning("worker.left", runs="found by the others once its beats are missed")
        else:
            for run in released:
                self._runs.call(run)
            _log.info("worker.left", runs=len(released))

    async def sweep(self) -> list[Due]:
        if not self._liveness.is_well:
            return []  # the database is away: nothing can be taken, and all that was here is given up
        left = await super().sweep()
        self._tell(left)
        self._let_waiting_look()
        return left

    @property
    def _most(self) -> int:
        return max(super()._most, _MOST_ENQUEUED) if self._doorbell.is_ready else super()._most

    def _tell(self, left: list[Due]) -> None:
        """Tell DBOS of what has been driven here for a while, and of what there is no room for."""
        if self._pace.tell is None:
            return
        begun = time.monotonic() - self._pace.tell
        for driven in self._driven.values():
            if not driven.told and driven.since <= begun:
                driven.told = self._doorbell.tell(segment_name(driven.run.id, driven.run.epoch), driven.run.key)
        waiting = {segment_name(run.id, run.epoch): run.key for run in left[:_MOST_ENQUEUED]}
        for name in waiting.keys() - self._enqueued:
            self._doorbell.tell(name, waiting[name], queued=True)
        self._enqueued = set(waiting)

    async def _ensure(self, key: int) -> None:
        """See to a run that DBOS asks for, and return when this process has done with it.

        Driven here: wait for its end. Driven by another who lives: leave it. Else: take it.
        """
        while key not in self._driven and not self.has_room() and not self._stopping:
            await self._freed.wait()
        if key not in self._driven and not self._stopping:
            try:
                await self._take(key, RESTARTED)
            except Unavailable:
                return  # the sweep finds it when the database is back
        driven = self._driven.get(key)
        if driven is not None:
            await asyncio.wait((driven.task,))

    def _make_room_known(self) -> None:
        super()._make_room_known()
        self._let_waiting_look()

    def _let_waiting_look(self) -> None:
        self._freed.set()
        self._freed.clear()

    def _give_up(self) -> None:
        """Let go of everything: others will soon take this worker for dead, unless the database is away for all."""
        self._cut |= self._driven.keys()
        self._astray |= self._driven.keys()
        self._cancel_driven()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, Unavailable):
            super()._failed(error)
        elif self._liveness.is_well:  # otherwise the outage has its line already
            _log.debug("sweep.failed", error=str(error))

    async def _see_to_others(self) -> None:
        """Bury the dead, and let go of what DBOS keeps of the past."""
        pruned = time.monotonic()
        while True:
            await asyncio.sleep(self._pace.beat)
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._bury()
                    if self._doorbell.is_ready and time.monotonic() - pruned > _PRUNE_EVERY:
                        pruned = time.monotonic()
                        await self._doorbell.prune()
            except (Unavailable, TimeoutError) as error:
                _log.debug("reaper.failed", error=str(error))
            except Exception:  # noqa: BLE001 - the boundary: the next look may go well
                _log.exception("reaper.failed")

    async def _bury(self) -> None:
        if not self._liveness.may_judge:
            return
        patience = self._patience
        dead = await self._database.read(lambda connection: workers.dead(connection, patience))
        if dead and self._doorbell.is_ready:
            await self._doorbell.bury(patience)
        elif dead:
            await self._database.write(lambda connection: workers.bury(connection, dead, patience))
            _log.info("workers.dead", workers=dead)
