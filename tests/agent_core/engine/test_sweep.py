"""The sweep by itself: a run that cannot be taken now keeps nobody from the others."""

import asyncio
from typing import Any, cast

from agent_core.engine.base import Runs
from agent_core.engine.local import LocalEngine
from agent_core.store.work.due import Due
from agent_core.testing import FakeClock

FOUND, SAFETY = 40, 20.0


class Locked:
    """Runs that are all due, of which somebody has locked the first one until *free* is set."""

    def __init__(self) -> None:
        self.free, self.all_others = asyncio.Event(), asyncio.Event()
        self.taken: list[int] = []
        self.at_once = self.most = 0

    async def due(self, *, patience: int, most: int) -> list[Due]:
        return [Due(key, f"run_{key}", 0, "queued", None, None, 1, None) for key in range(FOUND)]

    async def take(self, run: int, cause: str, *, patience: int, epoch: int | None = None) -> None:
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
    """While somebody has one run of forty locked a sweep takes all the others, some at once and never all."""
    runs = Locked()
    engine = LocalEngine(cast("Runs", cast("Any", runs)), FakeClock())
    async with asyncio.timeout(SAFETY), asyncio.TaskGroup() as group:
        sweep = group.create_task(engine.sweep())
        await runs.all_others.wait()
        assert not sweep.done()
        assert sorted(runs.taken) == list(range(1, FOUND))
        runs.free.set()
    assert 1 < runs.most < FOUND / 2
    assert runs.taken[-1] == 0
