"""The doorbell: DBOS, notified of the runs that last; it has a loop and a thread of its own.

DBOS blocks the loop that it is launched on for as long as the database takes, and makes its threads that loop's: the
loop that drives runs should suffer neither. While the database is away DBOS retries for ever, in threads that the end
of the process waits for; so its connections are made here, see `Dial`.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from agent_core.engine.dial import Dial
from agent_core.errors import Unavailable
from agent_core.store.work import workers

QUEUE = "parley"
_SEGMENT = "parley.segment"
_POOL = 3
"""Connections of DBOS's own, and with them its threads: it is notified of a few hundred runs a second at most."""
_POOL_TIMEOUT = 3600.0
_TRY_AGAIN = 5.0
_KEPT_FOR = timedelta(days=1)
_BATCH, _BATCHES = 500, 20
_CONNECT_TIMEOUT = 5
# It stands still while DBOS works on connections of its own.
_LIMITS = text("SET LOCAL statement_timeout = 5000; SET LOCAL idle_in_transaction_session_timeout = 30000")
_log = structlog.get_logger("parley.doorbell")


class Doorbell:
    """Notifies DBOS of runs; what DBOS finds to be resumed, *ensure* sees to."""

    def __init__(self, url: str, worker: str, *, max_runs: int, ensure: Callable[[int], Awaitable[None]]) -> None:
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
            "application_version": f"parley-{workers.PROTOCOL}",
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
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._seen_to(key), self._home))
            finally:
                self._open -= 1

        return segment

    async def _seen_to(self, key: int) -> None:
        await self._ensure(key)

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
            if not workers.wins(connection, workers.REAPING):
                return
            expired = workers.expired(connection, expire_after)
            if expired and self.is_ready:
                running = DBOS.list_workflows(
                    status="PENDING", executor_id=expired, load_input=False, load_output=False
                )
                if running:
                    DBOS.resume_workflows([workflow.workflow_id for workflow in running], queue_name=QUEUE)
            if expired:
                workers.reap(connection, expired, expire_after)
                _log.info("workers.expired", workers=expired)

    def _prune(self) -> None:
        from dbos import DBOS  # noqa: PLC0415 - as above

        before = (datetime.now(UTC) - _KEPT_FOR).isoformat()
        with self._transaction() as connection:
            if not self.is_ready or not workers.wins(connection, workers.PRUNING):
                return
            registered = workers.registered(connection)
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
