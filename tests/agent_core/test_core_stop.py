"""The end of a core: what drives and what tells of ends have one and the same grace."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from agent_core.clock import Clock, SystemClock
from agent_core.engine.local import LocalEngine
from agent_core.engine.pool import Runs
from agent_core.runtime.segments import CompletionNotifier
from tests.conftest import MakeCore
from tests.polling import until

GRACE = 0.2


class SlowEngine(LocalEngine):
    """An engine whose runs need this *part* of the grace to end."""

    def __init__(self, runs: Runs, clock: Clock, *, part: float) -> None:
        super().__init__(runs, clock)
        self._part = part

    async def stop(self, grace: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._part * grace):
                await asyncio.Event().wait()
        await super().stop(0)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that those who tell of ends were given, each time."""
    given: list[float] = []
    stop = CompletionNotifier.stop

    async def noted(notifier: CompletionNotifier, grace: float) -> None:
        given.append(grace)
        await stop(notifier, grace)

    monkeypatch.setattr(CompletionNotifier, "stop", noted)
    return given


@pytest.mark.parametrize(("part", "left"), [(1.0, 0.0), (0.5, 0.5)])
async def test_runs_and_their_end_hooks_share_the_grace(
    make_core: MakeCore, given: list[float], part: float, left: float
):
    """What runs have taken of the grace is not given a second time to webhooks that are notified of ends."""
    core = await make_core(engine=partial(SlowEngine, part=part), clock=SystemClock())
    await core.stop(grace=GRACE)
    assert 0 <= given[0] <= left * GRACE + 0.01


async def test_wake_ups_end_before_the_database_is_closed(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """A wake-up that outlasts the grace is cancelled, and has ended when the database is closed."""
    core, steps = await make_core(), list[str]()
    close = core._store.database.close

    async def wake(_run: int) -> None:
        steps.append("woken")
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("ended")

    async def closing() -> None:
        steps.append("closed")
        await close()

    monkeypatch.setattr(core._engine, "wake", wake)
    monkeypatch.setattr(core._store.database, "close", closing)
    core._dispatcher.wake(7)
    await until(lambda: bool(steps))
    await core.stop(grace=0.0)
    assert steps == ["woken", "ended", "closed"]


@pytest.mark.parametrize("part", ["_engine", "_dispatcher", "_completion"])
async def test_the_database_is_closed_although_a_part_fails_to_stop(
    make_core: MakeCore, monkeypatch: pytest.MonkeyPatch, part: str
):
    """An error at the end of one part is raised once all others have ended and the database is closed."""
    core = await make_core()

    async def broken(_grace: float) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(getattr(core, part), "stop", broken)
        with pytest.raises(ZeroDivisionError):
            await core.stop(grace=0.1)
    with pytest.raises(RuntimeError, match="closed"):
        await core.health.ping()
    assert not core.is_working
