"""The sweep by itself: a run that cannot be taken now does not delay the others."""

import asyncio
from typing import Any, cast

import pytest

from agent_core.agent.state import OUTAGE
from agent_core.engine.dbos import DbosEngine
from agent_core.engine.local import LocalEngine
from agent_core.engine.pool import Interrupt, Runs
from agent_core.errors import Unavailable
from agent_core.store.log import RunRef
from agent_core.store.queue import Due
from agent_core.testing import FakeClock
from tests.polling import PATIENCE

FOUND, SAFETY = 40, PATIENCE
RUN = RunRef(
    key=1, id="run_1", session=1, session_id="ses_1", parent=None, epoch=1, agent=1, agent_version=1, snapshot="",
    first_seq=1,
)  # fmt: skip


class Locked:
    """Runs that are all due, of which the first one is locked until *free* is set."""

    def __init__(self) -> None:
        self.free, self.all_others = asyncio.Event(), asyncio.Event()
        self.taken: list[int] = []
        self.at_once = self.most = 0

    async def due(self, *, expire_after: int, limit: int) -> list[Due]:
        return [Due(key, f"run_{key}", 0, "queued", None, None) for key in range(FOUND)]

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> None:
        """Take long enough for others to begin; who took it already drives it somewhere else."""
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if run == 0:
            await self.free.wait()
        await asyncio.sleep(0)
        self.at_once -= 1
        self.taken.append(run)
        if len(self.taken) == FOUND - 1:
            self.all_others.set()


async def test_a_locked_run_holds_up_no_other():
    """While one run of forty is locked, a sweep takes all the others, some at once and never all."""
    runs = Locked()
    engine = LocalEngine(cast("Runs", cast("Any", runs)), FakeClock())
    async with asyncio.timeout(SAFETY), asyncio.TaskGroup() as group:
        sweep = group.create_task(engine.sweep.look())
        await runs.all_others.wait()
        assert not sweep.done()
        assert sorted(runs.taken) == list(range(1, FOUND))
        runs.free.set()
    assert 1 < runs.most < FOUND / 2
    assert runs.taken[-1] == 0


class Stale:
    """One run; the first query for due runs takes its snapshot before the run starts, and returns once *go* is set."""

    def __init__(self) -> None:
        self.reading, self.go = asyncio.Event(), asyncio.Event()
        self.causes: list[str] = []
        self.engine = LocalEngine(cast("Runs", cast("Any", self)), FakeClock())

    async def due(self, *, expire_after: int, limit: int) -> list[Due]:
        if self.reading.is_set():
            return [Due(RUN.key, RUN.id, RUN.epoch, "running", self.engine.worker, None)]
        self.reading.set()
        await self.go.wait()
        return []

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> None:
        self.causes.append(cause)


@pytest.mark.parametrize(
    ("error", "next_look", "cause"),
    [
        pytest.param(ZeroDivisionError(), "wake", "crashed", marks=pytest.mark.crashes),
        pytest.param(ZeroDivisionError(), "sweep", "crashed", marks=pytest.mark.crashes),
        (Unavailable("Cut."), "sweep", OUTAGE),
        (Unavailable("Cut."), "wake", OUTAGE),
    ],
)
async def test_a_crash_during_a_sweep_is_not_forgotten(error: Exception, next_look: str, cause: str):
    """A run whose driver fails while a sweep reads is resumed by the next wake-up or sweep, with the right cause."""
    runs = Stale()

    async def fail(_: Interrupt) -> None:
        raise error

    async with asyncio.timeout(SAFETY), asyncio.TaskGroup() as group:
        sweep = group.create_task(runs.engine.sweep.look())
        await runs.reading.wait()
        runs.engine.pool.begin(RUN, fail)
        await runs.engine.pool.driven[RUN.key].task
        runs.go.set()
        await sweep
        await (runs.engine.wake(RUN.key) if next_look == "wake" else runs.engine.sweep.look())
    assert runs.causes == [cause]


async def test_a_driver_cancelled_before_its_first_step_gives_its_run_up():
    """A worker that loses its database in the instant in which a run begins does not keep the run from everyone."""
    absent = cast("Any", None)
    engine = DbosEngine(absent, FakeClock(), database=absent, url="postgresql://nowhere/parley")

    async def drive(_: Interrupt) -> None:
        await asyncio.Event().wait()

    engine.pool.begin(RUN, drive)
    task = engine.pool.driven[RUN.key].task
    engine.pool.give_up()
    async with asyncio.timeout(SAFETY):
        await asyncio.wait((task,))
    assert task.cancelled()
    assert not engine.pool.driven


class SlowTake:
    """One run, which is taken once *go* is set."""

    def __init__(self) -> None:
        self.taking, self.go = asyncio.Event(), asyncio.Event()
        self.given_back: list[RunRef] = []

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> RunRef:
        self.taking.set()
        await self.go.wait()
        return RUN

    async def give_back(self, run: RunRef) -> None:
        self.given_back.append(run)

    async def leave(self) -> int:
        return 0


async def test_a_run_that_is_taken_while_its_worker_stops_is_given_back():
    """A worker that stops waits for the runs that it is taking, and leaves them to others at once."""
    runs = SlowTake()
    engine = LocalEngine(cast("Runs", cast("Any", runs)), FakeClock())
    async with asyncio.timeout(SAFETY), asyncio.TaskGroup() as group:
        group.create_task(engine.pool.wake(RUN.key))
        await runs.taking.wait()
        stop = group.create_task(engine.stop(SAFETY))
        await asyncio.sleep(0)
        runs.go.set()
        await stop
        assert runs.given_back == [RUN]
    assert not engine.pool.driven


async def test_a_worker_that_stops_takes_no_more_runs():
    """After the end of its worker a wake-up changes nothing."""
    runs = SlowTake()
    engine = LocalEngine(cast("Runs", cast("Any", runs)), FakeClock())
    await engine.stop(0.0)
    async with asyncio.timeout(SAFETY):
        await engine.pool.wake(RUN.key)
    assert not runs.taking.is_set()
