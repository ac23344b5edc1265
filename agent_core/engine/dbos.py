"""The engine of many processes: each says by heartbeats that it lives, and DBOS is notified of the runs that last."""

import asyncio
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from weakref import WeakSet

import structlog
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import NullPool

from agent_core.agent.state import RESTARTED
from agent_core.clock import Clock
from agent_core.engine.local import Sweep
from agent_core.engine.pool import MAX_RUNS, Pool, Runs
from agent_core.errors import Unavailable
from agent_core.ids import new_id
from agent_core.store import queue
from agent_core.store.database import Database
from agent_core.store.log import RunRef
from agent_core.store.postgres import engine_of
from agent_core.store.queue import Due, Kind, Worker
from agent_core.traces import trace_of

_CONNECT_TIMEOUT = 5
_IDLE_TIMEOUT = "-c idle_in_transaction_session_timeout=60000"


class Dial:
    """Makes connections to the database at a URL until it is cut.

    What cannot be connected is `Unavailable`: DBOS, which retries the errors of its driver without limit, passes it on.
    """

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._made: WeakSet[Any] = WeakSet()
        self._is_cut = False

    def __call__(self) -> Any:
        """Return a new connection; raises `Unavailable`."""
        import psycopg  # noqa: PLC0415 - it is loaded with DBOS

        if self._is_cut:
            raise Unavailable("This worker has ended.")
        arguments, options = self._url.get_dialect()().create_connect_args(self._url)
        options = {"connect_timeout": _CONNECT_TIMEOUT, "options": _IDLE_TIMEOUT, **options}
        try:
            made = psycopg.connect(*arguments, **options)
        except psycopg.OperationalError as error:
            raise Unavailable("The database cannot be reached; try again in a moment.") from error
        self._made.add(made)
        return made

    def cut(self) -> None:
        """Make no more connections, and shut down the open ones: a thread that waits for an answer gets an error."""
        self._is_cut = True
        for connection in [each for each in self._made if not each.closed]:
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as held:
                held.shutdown(socket.SHUT_RDWR)


QUEUE = "parley"
_SEGMENT = "parley.segment"
_POOL = 3
"""Connections of DBOS's own, and with them its threads: it is notified of a few hundred runs a second at most."""
_POOL_TIMEOUT = 3600.0
_TRY_AGAIN = 5.0
_KEPT_FOR = timedelta(days=1)
_BATCH, _BATCHES = 500, 20
# It stands still while DBOS works on connections of its own.
_LIMITS = text("SET LOCAL statement_timeout = 5000; SET LOCAL idle_in_transaction_session_timeout = 30000")
_log = structlog.get_logger("parley.doorbell")


Ensure = Callable[[int], Coroutine[Any, Any, None]]


class Doorbell:
    """Notifies DBOS of runs; what DBOS finds to be resumed, *ensure* sees to."""

    def __init__(
        self, url: str, worker: str, *, max_runs: int, ensure: Callable[[int], Coroutine[Any, Any, None]]
    ) -> None:
        """*ensure* is called with a run's key on the event loop that this is built in."""
        self._url = make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
        self._worker, self._max_runs, self._ensure = worker, max_runs, ensure
        self._dial = Dial(self._url)
        self._home = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._segment: Any = None
        self._open = 0

    @property
    def is_ready(self) -> bool:
        """Return whether DBOS is launched."""
        return self._segment is not None

    def start(self) -> None:
        """Launch DBOS, as soon as the database lets it; return at once."""
        self._loop = asyncio.new_event_loop()
        # Its lines in the log are this worker's.
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="parley-dbos", daemon=True)
        self._thread.start()

    async def stop(self, limit: float) -> None:
        """Let DBOS note what has ended and shut it down, within *limit* seconds; what is left then delays nothing."""
        if self._loop is not None and self._thread is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._over.set)
            await asyncio.to_thread(self._thread.join, limit)
            self._dial.cut()

    def notify(self, name: str, key: int, *, queued: bool = False) -> bool:
        """Notify DBOS of the segment *name* of the run *key*: driven here, or to be driven where there is capacity.

        Returns whether DBOS is there to be notified.
        """
        if self.is_ready:
            assert self._loop is not None
            asyncio.run_coroutine_threadsafe(self._notify(name, key, queued=queued), self._loop)
        return self.is_ready

    async def reap(self, expire_after: int) -> None:
        """Requeue the workflows of expired workers, then delete their rows."""
        await asyncio.wrap_future(_apart(partial(self._reap, expire_after)))

    async def prune(self) -> None:
        """Delete what DBOS keeps of segments that ended long ago, unless another worker is at it."""
        await asyncio.wrap_future(_apart(self._prune))

    def _run(self) -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=self._made) as runner:
            runner.run(self._serve())

    def _made(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    async def _serve(self) -> None:
        """Launch DBOS, again if need be, and shut it down when all is over."""
        from dbos import DBOS  # noqa: PLC0415 - a second of imports, where it is used

        launched = False
        while not (launched or self._over.is_set()):
            try:
                await self._launch()
                launched = True
            except Exception as error:  # noqa: BLE001 - the boundary: runs do without it meanwhile
                _log.warning("dbos.not_launched", error=type(error).__name__)
                DBOS.destroy(destroy_registry=True)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), _TRY_AGAIN)
        await self._over.wait()
        if not launched:
            return  # destroyed after the last try, and the loop's executor with it
        limit = 3 if self._open else 0
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=limit)
        )

    async def _launch(self) -> None:
        from dbos import DBOS, DBOSConfig  # noqa: PLC0415 - as above

        DBOS(config=DBOSConfig(**self._config()))
        DBOS.listen_queues([QUEUE])
        # Recoveries are counted in the log, by what the run got done between them.
        segment = DBOS.workflow(name=_SEGMENT, max_recovery_attempts=None)(self._body())
        DBOS.launch()
        await DBOS.register_queue_async(QUEUE, worker_concurrency=self._max_runs, polling_interval_sec=1.0)
        self._segment = segment

    def _config(self) -> dict[str, Any]:
        from dbos import DBOSPortableJSONSerializer  # noqa: PLC0415 - as above

        return {
            "name": "parley",
            "system_database_url": self._url,
            "dbos_system_schema": "dbos",
            "executor_id": self._worker,
            "application_version": f"parley-{queue.PROTOCOL}",
            "serializer": DBOSPortableJSONSerializer(),
            "sys_db_pool_size": _POOL,
            # A cut connection is noticed by use and tried again; a thread that waits for one gets it at the end too.
            "db_engine_kwargs": {"pool_pre_ping": False, "pool_timeout": _POOL_TIMEOUT, "creator": self._dial},
            "max_executor_threads": _POOL + 1,
            "use_listen_notify": False,
            "scheduler_polling_interval_sec": 3600.0,
            "log_level": "CRITICAL",
        }

    def _body(self) -> Callable[[int], Coroutine[Any, Any, None]]:
        async def segment(key: int) -> None:
            self._open += 1
            try:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ensure(key), self._home))
            finally:
                self._open -= 1

        return segment

    async def _notify(self, name: str, key: int, *, queued: bool) -> None:
        from dbos import DBOS, SetWorkflowID  # noqa: PLC0415 - as above

        self._open += 1
        try:
            with SetWorkflowID(name):
                if queued:
                    await DBOS.enqueue_workflow_async(QUEUE, self._segment, key)
                    return
                running = await DBOS.start_workflow_async(self._segment, key)
            await running.get_result()  # its end is noted by then
        except Exception as error:  # noqa: BLE001 - the boundary: nothing rests on it
            _log.debug("dbos.not_notified", segment=name, error=type(error).__name__)
        finally:
            self._open -= 1

    @contextmanager
    def _transaction(self) -> Generator[Connection]:
        """Give a transaction that no failure of the network keeps open; raises `Unavailable`."""
        arguments = {"connect_timeout": _CONNECT_TIMEOUT}
        engine = create_engine(self._url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)
        try:
            with engine.begin() as connection:
                connection.execute(_LIMITS)
                yield connection
        except OperationalError as error:
            raise Unavailable("The database was lost on the way; try again in a moment.") from error

    def _reap(self, expire_after: int) -> None:
        from dbos import DBOS  # noqa: PLC0415 - as above

        with self._transaction() as connection:
            if not queue.wins(connection, queue.REAPING):
                return
            expired = queue.expired_workers(connection, expire_after)
            if expired and self.is_ready:
                running = DBOS.list_workflows(
                    status="PENDING", executor_id=expired, load_input=False, load_output=False
                )
                if running:
                    DBOS.resume_workflows([workflow.workflow_id for workflow in running], queue_name=QUEUE)
            if expired:
                queue.reap_workers(connection, expired, expire_after)
                _log.info("workers.expired", workers=expired)

    def _prune(self) -> None:
        from dbos import DBOS  # noqa: PLC0415 - as above

        before = (datetime.now(UTC) - _KEPT_FOR).isoformat()
        with self._transaction() as connection:
            if not self.is_ready or not queue.wins(connection, queue.PRUNING):
                return
            registered = queue.registered_workers(connection)
            for _ in range(_BATCHES):
                old = DBOS.list_workflows(end_time=before, limit=_BATCH, load_input=False, load_output=False)
                over = [w.workflow_id for w in old if w.status != "PENDING" or w.executor_id not in registered]
                if over:
                    DBOS.delete_workflows(over)
                if len(over) < _BATCH:
                    return


def segment_name(run: str, epoch: int) -> str:
    """Return what DBOS calls the segment of the run *run* that began with *epoch*."""
    return f"{run}:{epoch}"


def _apart(work: Callable[[], None]) -> Future[None]:
    """Do *work* on a thread that the end of the process does not wait for: DBOS tries again as long as it takes."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # who leaves cancels nothing

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is passed to the awaiting task
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=copy_context().run, args=(run,), name="parley-dbos-work", daemon=True).start()
    return done


_liveness_log = structlog.get_logger("parley.liveness")
_DRIFT = 2.0
"""Seconds by which the database's clock may drift from ours between two beats; beyond that someone has set it."""
_STOP = 2.0
# A clock that keeps running while the machine sleeps, where there is one.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: the heartbeat interval; without one, when a worker stops its runs, and when others consider it expired.

    All processes of a database use the same values. A worker ends its runs before others may take them.
    *notify_after* is how long a run lasts before DBOS is notified of it; None does without DBOS.
    """

    heartbeat_every: float = 2.0
    give_up: float = 7.0
    expire_after: float = 10.0
    notify_after: float | None = 1.0

    @property
    def answer(self) -> float:
        """How long a beat waits for the database's answer before it is retried."""
        return self.give_up / 2

    @property
    def settle(self) -> float:
        """How long after an outage every live worker has sent a heartbeat: one attempt that times out, and one more."""
        return self.answer + self.heartbeat_every


def this_process(name: str, kind: Kind) -> Worker:
    """Return what other processes see of this one."""
    return Worker(id=name, host=socket.gethostname()[:200], pid=os.getpid(), kind=kind)


def end_process(reason: str) -> None:
    """End this process at once, without cleanup: others may have taken over its runs already."""
    _liveness_log.critical("worker.ends_itself", reason=reason)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


class Liveness:
    """Sends heartbeats for one process until stopped; create it in the event loop, which it watches too.

    *load* returns the room for more runs, and how many are running: each heartbeat reports them.
    """

    def __init__(
        self,
        url: str,
        worker: Worker,
        load: Callable[[], tuple[int, int]],
        *,
        pace: Pace,
        lost: Callable[[], None],
        end: Callable[[str], None] | None,
    ) -> None:
        """*lost* is called on the event loop when beats fail for too long; *end* when the process was stalled."""
        self._url, self._worker, self._load, self._pace, self._lost, self._end = url, worker, load, pace, lost, end
        self._home = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._first: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._beaten = self._answered = _now()
        self._good_since: float | None = None
        self._probation = pace.settle
        self._offset: tuple[float, float] | None = None
        self._away = False

    @property
    def is_well(self) -> bool:
        """Return whether other workers consider this process alive."""
        return self._good_since is not None and _now() - self._beaten < self._pace.give_up

    @property
    def may_judge(self) -> bool:
        """Return whether heartbeats have succeeded for so long that a worker without any has expired.

        A new process waits until all live workers have sent a heartbeat, in case an outage has just ended.
        After an outage that it saw it waits `Pace.expire_after` seconds: not all workers reconnect at the same moment.
        """
        since = self._good_since
        return self.is_well and since is not None and _now() - since >= self._probation

    @property
    def expire_after(self) -> int:
        """Return after how many milliseconds without a heartbeat another worker has expired."""
        return int(self._pace.expire_after * 1000) if self.may_judge else queue.FOREVER

    def reports(self, error: Exception) -> bool:
        """Return whether the outage that caused *error* has lines of its own in the log."""
        return isinstance(error, Unavailable)

    async def start(self) -> None:
        """Return once the first beat is in the database; raises `Unavailable`."""
        # The thread logs with this worker's context variables.
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="parley-liveness", daemon=True)
        self._thread.start()
        await asyncio.wrap_future(self._first)

    async def stop(self) -> None:
        """Return when no beat will follow."""
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _STOP)
        self._good_since = None

    def _run(self) -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat_forever())
            if self._end is not None:
                group.create_task(self._watch_forever(self._end))

    async def _beat_forever(self) -> None:
        engine, connection = engine_of(self._url), None
        try:
            while True:
                began = _now()
                try:
                    async with asyncio.timeout(self._pace.answer if self._first.done() else self._pace.give_up):
                        connection = connection or await engine.connect()
                        there = await self._beat(connection)
                except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, the next beat may go well
                    connection = await _dropped(connection)
                    self._failed(error)
                else:
                    self._went_well(began, there - _now(), there - began)
                await asyncio.sleep(max(0.1, self._pace.heartbeat_every - (_now() - began)))
        finally:
            await _dropped(connection)
            await engine.dispose()

    async def _beat(self, connection: AsyncConnection) -> float:
        """Send a heartbeat, and return the time of the database, in seconds."""
        room, running = self._load()
        beat = partial(queue.heartbeat, worker=self._worker, room=room, running=running)
        return await connection.run_sync(beat) / 1000

    def _went_well(self, began: float, least: float, limit: float) -> None:
        """Record a heartbeat; after an outage or a change of the database's clock, none expires for a while.

        That clock is ahead of ours by *least* to *limit* seconds: the longer the answer took, the less is known.
        """
        before, self._offset = self._offset, (least, limit)
        was_set = before is not None and max(least - before[1], before[0] - limit) > _DRIFT
        if was_set:
            _liveness_log.warning("database.clock_set")
        if self._good_since is None:
            self._good_since = began
        elif was_set or _now() - self._beaten >= self._pace.give_up:
            self._good_since, self._probation = began, self._pace.expire_after
        self._beaten = began
        if not self._first.done():
            self._first.set_result(None)
        if self._away:
            self._away = False
            _liveness_log.info("database.back")

    def _failed(self, error: Exception) -> None:
        if not self._first.done():
            self._first.set_exception(Unavailable("The database cannot be reached; try again in a moment."))
            return
        if not self._away:
            self._away = True
            _liveness_log.warning("database.away", error=type(error).__name__)

    async def _watch_forever(self, end: Callable[[str], None]) -> None:
        """Watch for stalls of this thread or the event loop, and for heartbeats that fail for too long."""
        tick, was_well = self._pace.give_up / 7, False
        while True:
            looked = _now()
            self._home.call_soon_threadsafe(self._answer)
            await asyncio.sleep(tick)
            gap, silence = _now() - looked - tick, _now() - self._answered
            if gap > self._pace.give_up:
                end(f"It stood still for {gap:.0f} s.")
            elif silence > self._pace.give_up:
                end(f"Its event loop did not answer for {silence:.0f} s.")
            if was_well and not self.is_well:
                self._home.call_soon_threadsafe(self._lost)
            was_well = self.is_well

    def _answer(self) -> None:
        self._answered = _now()


async def _dropped(connection: AsyncConnection | None) -> None:
    """Close a connection that may be broken."""
    if connection is not None:
        with suppress(Exception):  # errors of a broken connection do not matter any more
            await connection.invalidate()
        with suppress(Exception):
            await connection.close()


def _now() -> float:
    return time.clock_gettime(_CLOCK)


_PRUNE_EVERY = 600.0
_TIMEOUT = 30.0
_HERD = 0.05
_LET_GO = 2.0
_SHUT = 5.0
_MAX_ENQUEUED = 20
_ROOM_EVERY = 1.0
_engine_log = structlog.get_logger("parley.engine")


class DbosEngine:
    """One of the workers of a Postgres: the runs that it starts are its own, until it expires or is stopped.

    The row of every process in `worker` says that it lives. A worker that finds a run without a living driver takes it;
    the session's lock and the epoch decide between two. DBOS is notified of the runs that last, see
    `docs/decisions/0014`.
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
        self.worker = new_id("wrk")
        self._runs, self._clock, self._drives, pace = runs, clock, kind != "web", pace or Pace()
        self._launches_dbos = self._drives and pace.notify_after is not None
        self.database = database
        self.liveness = Liveness(
            url,
            this_process(self.worker, kind),
            self._load,
            pace=pace,
            lost=self._give_up,
            end=end if self._drives else None,
        )
        self.doorbell = Doorbell(url, self.worker, max_runs=max_runs, ensure=self._ensure)
        self.pool = Pool(runs, self.liveness, max_runs=max_runs if self._drives else 0)
        self.overflow = DbosQueue(self.doorbell, self.pool, after=pace.notify_after)
        self.sweep = Sweep(runs, clock, self.pool, self.liveness, worker=self.worker, overflow=self.overflow)
        self._look_every = pace.heartbeat_every

    async def start(self) -> None:
        """Write the first heartbeat: before it no other process knows whose a run is."""
        await self.liveness.start()
        if self._launches_dbos:
            self.doorbell.start()

    async def wake(self, run: int) -> bool:
        """Take the run if there is capacity, the later the more there is to do: every other process is notified too."""
        if run not in self.pool.driven and self.pool.has_capacity():
            await asyncio.sleep(_HERD * (self.pool.load + random.random() / 10))  # noqa: S311 - no secret
        if run not in self.pool.driven and not self.pool.has_capacity():
            self.pool.hurry()
            return False
        await self.pool.wake(run)
        return True

    async def work(self) -> None:
        if not self._drives:
            await self.sweep.only_tidy()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sweep.work())
            group.create_task(self.pool.send_heartbeats(self._clock))
            group.create_task(self._reap_forever())

    async def stop(self, grace: float) -> None:
        """Wait up to *grace* seconds for what is driven, and hand the rest to the other workers."""
        self.pool.close()
        if self.liveness.is_well:
            await self.pool.wait(grace)
        await self.pool.drop(_LET_GO)
        await asyncio.gather(self._leave(), self.doorbell.stop(_SHUT))

    async def _leave(self) -> None:
        """End the heartbeats, and hand over what is left."""
        await self.liveness.stop()
        try:
            released = await self._runs.leave()
        except Unavailable:
            _engine_log.warning("worker.left", runs="found by the others once its heartbeats are missed")
        else:
            _engine_log.info("worker.left", runs=released)

    async def _reap_forever(self) -> None:
        """Look after each heartbeat's time whether another worker has expired, and prune now and then."""
        pruned = time.monotonic()
        while True:
            await asyncio.sleep(self._look_every)
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await self._reap()
                    if self.doorbell.is_ready and time.monotonic() - pruned > _PRUNE_EVERY:
                        pruned = time.monotonic()
                        await self.doorbell.prune()
            except (Unavailable, TimeoutError) as error:
                _engine_log.debug("reaper.failed", error=str(error))
            except Exception as error:  # noqa: BLE001 - the boundary: the next look may go well
                _engine_log.error("reaper.failed", exception=trace_of(error))

    async def _reap(self) -> None:
        if not self.liveness.may_judge:
            return
        expire_after = self.liveness.expire_after
        expired = await self.database.read(lambda connection: queue.expired_workers(connection, expire_after))
        if expired and self.doorbell.is_ready:
            await self.doorbell.reap(expire_after)
        elif expired:
            await self.database.write(lambda connection: queue.reap_workers(connection, expired, expire_after))
            _engine_log.info("workers.expired", workers=expired)

    def _load(self) -> tuple[int, int]:
        return self.pool.capacity, len(self.pool.driven)

    def _give_up(self) -> None:
        """Give all runs up: this worker will soon have expired, unless the database is away for all."""
        self.pool.give_up()

    async def _ensure(self, key: int) -> None:
        """Have a run driven that DBOS asks for, and return when this process has done with it.

        Driven here: wait for its end. Driven by another living worker: leave it. Else: take it.
        """
        pool = self.pool
        while key not in pool.driven and not pool.has_capacity() and not pool.is_closed:
            with suppress(TimeoutError):  # the worker may be well again without the end of a run
                async with asyncio.timeout(_ROOM_EVERY):
                    await pool.freed()
        if key not in pool.driven and not pool.is_closed:
            try:
                await pool.take(key, RESTARTED)
            except Unavailable:
                return  # the sweep finds it when the database is back
        driven = pool.driven.get(key)
        if driven is not None:
            await asyncio.wait((driven.task,))


class DbosQueue:
    """Notifies DBOS of what has been driven here for *after* seconds, and of what there is no room for."""

    def __init__(self, doorbell: Doorbell, pool: Pool, *, after: float | None) -> None:
        """*after* is None where DBOS is not launched."""
        self._doorbell, self._pool, self._after = doorbell, pool, after
        self._announced: set[str] = set()
        self._enqueued: set[str] = set()

    @property
    def capacity(self) -> int:
        return _MAX_ENQUEUED if self._doorbell.is_ready else 0

    def offer(self, runs: Sequence[Due]) -> None:
        if self._after is None:
            return
        begun = time.monotonic() - self._after
        for driven in self._pool.driven.values():
            if driven.since <= begun:
                self.announce(driven.run)
        self._announced &= {segment_name(each.run.id, each.run.epoch) for each in self._pool.driven.values()}
        waiting = {segment_name(run.id, run.epoch): run.key for run in runs[:_MAX_ENQUEUED]}
        for name in waiting.keys() - self._enqueued:
            self._doorbell.notify(name, waiting[name], queued=True)
        self._enqueued = set(waiting)

    def announce(self, run: RunRef) -> None:
        """Notify DBOS of a run that is driven here, once."""
        name = segment_name(run.id, run.epoch)
        if name not in self._announced and self._doorbell.notify(name, run.key):
            self._announced.add(name)
