"""A pool for which runs wait: the sweep chooses among them, and room that returns is never overlooked."""

import asyncio
from typing import Any, cast

from agent_core.engine.local import LocalEngine
from agent_core.engine.pool import Interrupt, Runs
from agent_core.store.log import RunRef
from agent_core.store.queue import Due
from agent_core.testing import FakeClock
from tests.polling import PATIENCE

SAFETY = PATIENCE
CLOCK = FakeClock()
LATER = CLOCK.now() + 120_000


def ref(key: int) -> RunRef:
    return RunRef(
        key=key,
        id=f"run_{key}",
        session=key,
        session_id=f"ses_{key}",
        parent=None,
        epoch=1,
        agent=1,
        agent_version=1,
        snapshot="",
        first_seq=1,
    )


def queued(key: int) -> Due:
    return Due(key, f"run_{key}", 0, "queued", None, None)


class WaitingRuns:
    """Runs that wait; a query for them returns once *go* is set. What is taken is driven until the test ends."""

    def __init__(self, *found: Due, max_runs: int) -> None:
        self.found = list(found)
        self.reading, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()
        self.taken: list[int] = []
        self.some = asyncio.Event()
        self.engine = LocalEngine(cast("Runs", cast("Any", self)), FakeClock(), max_runs=max_runs)

    async def due(self, *, expire_after: int, limit: int) -> list[Due]:
        begun = [run for run in self.found if run.status != "queued"]
        chosen = [*begun, *[run for run in self.found if run.status == "queued"][:limit]]
        self.reading.set()
        await self.go.wait()
        return chosen

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> RunRef | None:
        await asyncio.sleep(0)
        if not any(each.key == run and each.status == "queued" for each in self.found):
            return None
        self.found = [each for each in self.found if each.key != run]
        self.taken.append(run)
        self.some.set()
        return ref(run)

    async def leave(self) -> int:
        return 0

    def segment(self, run: RunRef) -> Any:
        return drive

    async def next_deadline(self, after: int) -> int | None:
        return None

    async def tidy(self) -> None:
        """Nothing has expired."""


async def drive(_: Interrupt) -> None:
    await asyncio.Event().wait()


async def test_paused_runs_take_no_room():
    """Runs that crashed here and pause before they are resumed keep no queued run from starting."""
    runs = WaitingRuns(queued(8), queued(9), max_runs=2)
    runs.found += [Due(key, f"run_{key}", 1, "running", runs.engine.worker, LATER) for key in range(3)]
    for _ in range(2):  # a run of this worker counts as lost at the second look
        await runs.engine.sweep.look()
    assert runs.taken == [8, 9]
    await runs.engine.stop(0)


async def test_room_that_comes_during_a_look_starts_no_newcomer():
    """A run that ends while the sweep reads leaves its room to those that wait, whom the look has not seen."""
    runs = WaitingRuns(*(queued(key) for key in range(5, 9)), max_runs=1)
    pool, end = runs.engine.pool, asyncio.Event()

    async def until_end(_: Interrupt) -> None:
        await end.wait()

    pool.begin(ref(1), until_end)
    with pool.reserve() as has_room:
        assert not has_room
    runs.go.clear()
    async with asyncio.timeout(SAFETY), asyncio.TaskGroup() as group:
        group.create_task(runs.engine.sweep.look())
        await runs.reading.wait()
        end.set()
        await pool.driven[1].task
        runs.go.set()
    assert pool.capacity == 1
    with pool.reserve() as has_room:
        assert not has_room, "a new message waits with the others"
    await runs.engine.sweep.look()
    assert runs.taken == [5]
    await runs.engine.stop(0)


async def test_a_reservation_that_is_not_used_is_offered_to_those_who_wait():
    """The run of a message that found no room starts as soon as the room turns out to be free."""
    runs = WaitingRuns(max_runs=1)
    pool = runs.engine.pool
    async with asyncio.timeout(SAFETY), asyncio.TaskGroup() as group:
        freed = group.create_task(pool.freed())
        await asyncio.sleep(0)
        with pool.reserve() as first, pool.reserve() as second:
            runs.engine.pool.hurry()  # what the commit of the second one led to
        await freed
    assert (first, second, pool.capacity) == (True, False, 1)
    await runs.engine.stop(0)


async def test_wakes_at_the_same_instant_drive_no_more_than_there_is_room_for():
    """Each of many wake-ups sees whether there is room when it is its turn."""
    runs = WaitingRuns(*(queued(key) for key in range(20)), max_runs=2)
    woken = await asyncio.gather(*(runs.engine.wake(key) for key in range(20)))
    assert (woken.count(True), len(runs.engine.pool.driven)) == (2, 2)
    assert runs.engine.pool.is_crowded
    await runs.engine.stop(0)
