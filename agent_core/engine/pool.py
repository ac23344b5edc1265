"""Interrupt: stop what a driver is doing, without ending the driver."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import structlog

from agent_core.agent.state import CRASHED, OUTAGE
from agent_core.clock import Clock
from agent_core.errors import LostRun, NewerRun, Unavailable
from agent_core.store.log import RunRef
from agent_core.store.queue import Due
from agent_core.store.runs import WOKEN
from agent_core.traces import trace_of


class Interrupt:
    """Stops what a driver is doing, without ending the driver."""

    def __init__(self) -> None:
        self.called = False
        self.leaving = False
        """Whether the driver is about to end or wait: nothing is shown of the run any more."""
        self._acting: asyncio.Task[Any] | None = None

    def __call__(self) -> None:
        """Interrupt the model call or the tools that run now; the driver then reads the news.

        Once is enough: a second Stop must not disturb how the first one brings things to their end.
        """
        self.called = True
        acting, self._acting = self._acting, None
        if acting is not None:
            acting.cancel()

    @contextmanager
    def listening(self) -> Generator[None]:
        """Let an interrupt cancel the current task, inside this block and no further."""
        task = self._acting = asyncio.current_task()
        try:
            yield
        finally:
            self._acting = None
            while self.called and task is not None and task.cancelling():
                task.uncancel()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Keep an interrupt from cancelling what must be whole, such as an append; it is noticed afterwards."""
        task, self._acting = self._acting, None
        try:
            yield
        finally:
            self._acting = task


Segment = Callable[[Interrupt], Awaitable[RunRef | None]]


class Runs(Protocol):
    """What an engine needs to know of runs: the core provides it.

    *expire_after* is how many milliseconds without a heartbeat a worker still counts as alive.
    """

    async def due(self, *, expire_after: int, limit: int) -> list[Due]:
        """Return this worker's runs and those that need a driver or a check; at most *limit* queued ones."""
        ...

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> RunRef | None:
        """Make this worker the run's owner, with a new epoch; None when there is nothing to drive.

        *epoch* is the one that the caller saw; if it has changed, another worker took the run, and None is returned.
        """
        ...

    async def give_back(self, run: RunRef) -> None:
        """Leave a run that `take` returned, and that was not begun, to any other worker."""
        ...

    async def leave(self) -> int:
        """Leave what this worker owns to any other worker, or to the next start; return how many runs those were."""
        ...

    def segment(self, run: RunRef) -> Segment:
        """Return the coroutine function that drives *run* until it waits or ends, and returns the next run, if any."""
        ...

    def send_heartbeat(self, run: RunRef) -> None:
        """Send a heartbeat of *run* to its readers."""
        ...

    def wake_elsewhere(self, run: int) -> None:
        """Ask the other processes, if there are any, for one with capacity to drive *run*."""
        ...

    async def tidy(self) -> None:
        """Remove what has expired and is not looked at any more, and from memory what is outdated."""
        ...

    async def next_deadline(self, after: int) -> int | None: ...


class LossSnapshot(NamedTuple):
    """The losses when a query began."""

    lost: frozenset[int]
    cut: frozenset[int]


@dataclass(slots=True)
class Losses:
    """Keys of runs: *lost* ones had no driver when last looked at; *cut* ones lost theirs to an outage."""

    lost: set[int] = field(default_factory=set[int])
    cut: set[int] = field(default_factory=set[int])

    def cause_of(self, run: int) -> str | None:
        """Return why *run* lost its driver: only a crash counts against it. None if it did not lose it."""
        if run in self.cut:
            return OUTAGE
        return CRASHED if run in self.lost else None

    def snapshot(self) -> LossSnapshot:
        """Return the losses of now, for `update` after a query."""
        return LossSnapshot(frozenset(self.lost), frozenset(self.cut))

    def update(self, before: LossSnapshot, *, due: Collection[int], own: Collection[int]) -> frozenset[int]:
        """Note what a query found that began with *before*; return what was lost until now.

        *own* are those of *due* that belong to this worker and have no driver. What was lost during the query stays:
        the query may have read the moment before.
        """
        earlier = frozenset(self.lost)
        self.cut -= before.cut - set(due)  # taken since, or over when the answer got lost
        self.lost = {*own, *(self.lost - before.lost)}
        return earlier


class Membership(Protocol):
    """The status of this worker among all workers of its database."""

    @property
    def is_well(self) -> bool:
        """Return whether this worker may own runs now."""
        ...

    @property
    def expire_after(self) -> int:
        """Return after how many milliseconds without a heartbeat another worker has expired."""
        ...

    def reports(self, error: Exception) -> bool:
        """Return whether the membership logs the cause of *error* itself: an outage of the database."""
        ...


class SoleWorker:
    """The membership of the one process that owns its database: every other worker has expired."""

    is_well = True
    expire_after = 0

    def reports(self, error: Exception) -> bool:  # noqa: ARG002 - the port has it
        return False


_HEARTBEAT_EVERY = 10.0
MAX_RUNS = 1_000
_log = structlog.get_logger("parley.engine")


@dataclass(slots=True)
class Driven:
    """A run that this process drives, *since* a moment of the monotonic clock."""

    run: RunRef
    task: asyncio.Task[None]
    interrupt: Interrupt
    since: float = field(default_factory=time.monotonic)


class Pool:
    """Drives up to *max_runs* runs; while others wait for room the sweep chooses the next one."""

    def __init__(self, runs: Runs, membership: Membership, *, max_runs: int) -> None:
        self._runs, self._membership, self._max_runs = runs, membership, max_runs
        self.driven: dict[int, Driven] = {}
        """What is driven, by the run's key."""
        self.losses = Losses()
        self.is_closed = False
        self.is_crowded = False
        """Whether runs wait for room here; the sweep, which chooses the next one, notes when none does any more."""
        self._reserved = 0
        self._taking: dict[int, asyncio.Future[None]] = {}
        self._again: set[int] = set()
        self._freed = asyncio.Event()

    @property
    def capacity(self) -> int:
        """How many more runs this worker may drive."""
        if self.is_closed or not self._membership.is_well:
            return 0
        return max(0, self._max_runs - len(self.driven) - len(self._taking) - self._reserved)

    @property
    def load(self) -> float:
        """Which part of the pool is used, 0 to 1."""
        return len(self.driven) / self._max_runs if self._max_runs else 1.0

    def has_capacity(self) -> bool:
        """Return whether one more run of anyone may begin at once: there is room, and it is not for one that waits."""
        return self.capacity > 0 and not self.is_crowded

    @contextmanager
    def reserve(self) -> Generator[bool]:
        """Reserve room for a run that is about to begin; False when there is none: then it waits."""
        has_room = self.has_capacity()
        self.is_crowded |= not has_room
        self._reserved += has_room
        try:
            yield has_room
        finally:
            self._reserved -= has_room
            self._offer()

    def choose(self, waiting: Sequence[Due], room: int) -> tuple[Sequence[Due], Sequence[Due]]:
        """Return which of *waiting*, first come first, may begin in *room* places, and which are left."""
        if room:
            self.is_crowded = len(waiting) > room
        return waiting[:room], waiting[room:]

    def hurry(self) -> None:
        """Have the sweep choose among the runs that wait: soon if there is room, else once there is."""
        self.is_crowded = True
        self._offer()

    def _offer(self) -> None:
        """Notify the sweep if there is room for which runs wait."""
        if self.is_crowded and self.capacity > 0:
            self._notify_freed()

    async def freed(self) -> None:
        """Return when a run of a full pool has ended, or the pool is closed."""
        await self._freed.wait()

    def begin(self, run: RunRef, segment: Segment | None = None) -> None:
        """Drive a run that this worker owns: by *segment*, else from its log."""
        drive = self.driven.get(run.key)
        if self.is_closed or (drive is not None and drive.run.epoch >= run.epoch):
            return
        interrupt = Interrupt()
        task = asyncio.get_running_loop().create_task(self._drive(run, segment or self._runs.segment(run), interrupt))
        self.driven[run.key] = Driven(run, task, interrupt)

    async def wake(self, key: int) -> None:
        """Drive a run, or look at it again once its driver has ended."""
        if key in self.driven or key in self._taking:
            self._again.add(key)  # it may be on its way into a wait, or found before it could go on
        else:
            await self.take(key, self.losses.cause_of(key) or WOKEN)

    async def take(self, key: int, cause: str, epoch: int | None = None) -> NewerRun | None:
        """Own the run and drive it, if it still has the *epoch* with which it was found; two takers at once are one.

        A run that was taken while the pool closed is given back. Returns why this version cannot drive it, if it
        cannot. Raises `Unavailable`.
        """
        if key in self._taking or key in self.driven or self.is_closed:
            return None
        taken = self._taking[key] = asyncio.get_running_loop().create_future()
        try:
            run = await self._runs.take(key, cause, expire_after=self._membership.expire_after, epoch=epoch)
            if run is not None and self.is_closed:
                await self._runs.give_back(run)
                return None
        except NewerRun as error:
            return error
        finally:
            del self._taking[key]
            taken.set_result(None)
            self._offer()
        self.losses.cut.discard(key)
        if run is not None and run.key not in self.driven:
            self.begin(run)
        elif run is None and key in self._again:
            self._again.discard(key)
            return await self.take(key, WOKEN)
        return None

    def interrupt(self, key: int) -> bool:
        """Interrupt the run if it is driven here, and return whether it is."""
        driven = self.driven.get(key)
        if driven is not None:
            driven.interrupt()
        return driven is not None

    def close(self) -> None:
        """Begin no run from now on."""
        self.is_closed = True
        self._notify_freed()

    async def wait(self, grace: float) -> None:
        """Wait up to *grace* seconds for the ends of what is driven."""
        if self.driven:
            await asyncio.wait([driven.task for driven in self.driven.values()], timeout=grace)

    async def drop(self, grace: float) -> None:
        """Cancel what is driven, and wait up to *grace* seconds for its ends, and for what is being taken."""
        if ends := [*self._cancel(), *self._taking.values()]:
            await asyncio.wait(ends, timeout=grace)

    def give_up(self) -> None:
        """Cancel what is driven because this worker may own no runs any more: the database is away, or too slow."""
        self.losses.lost |= self.driven.keys()
        self.losses.cut |= self.driven.keys()
        self._cancel()

    async def send_heartbeats(self, clock: Clock) -> None:
        """Show every ten seconds that what is driven is worked on, until cancelled."""
        while True:
            await clock.sleep(_HEARTBEAT_EVERY)
            for driven in self.driven.values():
                if not driven.interrupt.leaving:
                    self._runs.send_heartbeat(driven.run)

    def _cancel(self) -> list[asyncio.Task[None]]:
        """Have every driver cancelled once it has begun, and return their tasks.

        A task that is cancelled before its first step never enters its `try`: its run would stay in the pool.
        """
        loop, tasks = asyncio.get_running_loop(), [driven.task for driven in self.driven.values()]
        for task in tasks:
            loop.call_soon(task.cancel)  # the first step of each is in the queue already
        return tasks

    async def _drive(self, run: RunRef, segment: Segment, interrupt: Interrupt) -> None:
        following = None
        try:
            following = await segment(interrupt)
        except LostRun:
            self._again.discard(run.key)
            _log.info("run.lost", run=run.id)
        except Unavailable:
            self.losses.lost.add(run.key)
            self.losses.cut.add(run.key)
            _log.debug("run.cut", run=run.id)
        except Exception as error:  # noqa: BLE001 - the boundary: a bug must not end the worker; the sweep tries again
            self._again.discard(run.key)
            self.losses.lost.add(run.key)
            _log.error("run.crashed", run=run.id, exception=trace_of(error))
        finally:
            was_full = not self.has_capacity()
            if (own := self.driven.get(run.key)) is not None and own.run.epoch == run.epoch:
                del self.driven[run.key]
        if following is not None:
            self.begin(following)
        elif was_full:
            self._notify_freed()
        if run.key in self._again:
            self._again.discard(run.key)
            await self._take_again(run.key)

    async def _take_again(self, key: int) -> None:
        try:
            await self.take(key, WOKEN)
        except Exception as error:  # noqa: BLE001 - the boundary: the sweep finds the run without a wake-up too
            report(error, self._membership)

    def _notify_freed(self) -> None:
        self._freed.set()
        self._freed.clear()


def report(error: Exception, membership: Membership) -> None:
    """Log that a look at runs failed, unless *membership* reports the outage that caused it."""
    if not membership.reports(error):
        _log.error("sweep.failed", exception=trace_of(error))
    elif membership.is_well:  # else the outage has its own line
        _log.debug("sweep.failed", error=str(error))


class Engine(Protocol):
    """Decides which process drives which run, and wakes runs."""

    @property
    def worker(self) -> str:
        """Return the name of this worker, new at every start."""
        ...

    @property
    def pool(self) -> Pool:
        """Return the runs that this process drives."""
        ...

    async def start(self) -> None:
        """Become a worker that may own runs; raises `Unavailable`."""
        ...

    async def wake(self, run: int) -> bool:
        """Look at a run that was woken, here or elsewhere, and drive it; idempotent. False: there is no capacity."""
        ...

    async def work(self) -> None:
        """Sweep for due runs until cancelled: immediately, at every deadline, and at least every second."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop driving runs, after at most *grace* seconds; the next worker resumes each from its log."""
        ...
