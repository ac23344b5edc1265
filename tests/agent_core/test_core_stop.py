"""The end of a core: what drives and what tells of ends have one and the same grace."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from agent_core import SystemClock
from agent_core.clock import Clock
from agent_core.engine.base import Runs
from agent_core.engine.local import LocalEngine
from agent_core.runtime.completion import CompletionNotifier
from tests.conftest import MakeCore

GRACE = 0.2


class Slow(LocalEngine):
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
    core = await make_core(engine=partial(Slow, part=part), clock=SystemClock())
    await core.stop(grace=GRACE)
    assert 0 <= given[0] <= left * GRACE + 0.01
