"""Liveness by itself: whom a process may judge, and in whose name its thread speaks."""

import asyncio
import selectors
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars, get_contextvars
from structlog.testing import capture_logs

from agent_core.engine.dbos import Liveness, Pace, _now, this_process
from tests.cases import for_each


class InstantSelector(selectors.DefaultSelector):
    """Waits for nothing: what would have been waited is *ahead*."""

    ahead = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.ahead += timeout or 0.0
        return super().select(0)


class InstantLoop(asyncio.SelectorEventLoop):
    """A loop whose time leaps to what is next, so that an hour of waiting takes no time; made for what does no I/O."""

    def __init__(self) -> None:
        self._leaping = InstantSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.ahead


class Away:
    """A database that does not answer from *gone* to *back*: a query then gets no error, and waits for ever."""

    def __init__(self, gone: float, back: float, now: Callable[[], float]) -> None:
        self.beats: list[float] = []
        self._gone, self._back, self._now = gone, back, now

    async def connect(self) -> "Away":
        await self._answer()
        return self

    async def run_sync(self, beat: Callable[..., float]) -> float:
        await self._answer()
        self.beats.append(self._now())
        return 1000 * self._now()

    async def _answer(self) -> None:
        if self._gone <= self._now() < self._back:
            await asyncio.Event().wait()

    async def invalidate(self) -> None: ...

    async def close(self) -> None: ...

    async def dispose(self) -> None: ...


def liveness(url: str = "postgresql://unknown", seen: list[dict[str, object]] | None = None) -> Liveness:
    """Return a liveness that notes in *seen* what its thread's log lines carry."""

    def load() -> tuple[int, int]:
        if seen is not None:
            seen.append(get_contextvars())
        return (1, 0)

    return Liveness(url, this_process("wrk_1", "worker"), load, pace=Pace(), lost=lambda: None, end=None)


async def test_a_clock_that_was_set_expires_no_worker():
    """When the database's clock leaps between two beats, either way, the time of good heartbeats starts again."""
    for leap in (9.0, -9.0):
        worker, now = liveness(), _now()
        worker._went_well(now - 12, 100.0, 100.0)
        worker._beaten = now - 2
        worker._went_well(now - 1, 100.5, 100.5)
        assert worker.may_judge
        worker._went_well(now, 100.5 + leap, 100.5 + leap)
        assert worker.is_well
        assert not worker.may_judge


async def test_a_late_answer_is_no_change_of_the_clock():
    """A heartbeat that is answered after three seconds says little about the database's clock, and expires no one."""
    worker, now = liveness(), _now()
    worker._went_well(now - 12, 100.0, 100.0)
    worker._beaten = now - 2
    with capture_logs() as lines:
        worker._went_well(now - 3, 97.0, 100.0)  # executed at once, answered after three seconds
        worker._went_well(now, 100.0, 100.0)
        worker._went_well(now, 99.9, 103.0)  # executed after three seconds, answered at once
    assert worker.may_judge
    assert lines == []


async def test_a_young_process_judges_as_soon_as_everybody_must_have_beaten():
    """A newly started worker need not wait for the full timeout; after an outage that it saw it waits longer."""
    pace, now = Pace(), _now()
    worker = liveness()
    worker._went_well(now - pace.settle + pace.heartbeat_every, 100.0, 100.0)
    worker._beaten = now
    assert worker.is_well
    assert not worker.may_judge
    worker._good_since = now - pace.settle
    assert worker.may_judge
    worker._beaten = now - pace.give_up
    worker._went_well(now - pace.settle, 100.0, 100.0)
    worker._beaten = now
    assert worker.is_well
    assert not worker.may_judge
    worker._good_since = now - pace.expire_after
    assert worker.may_judge


@pytest.mark.whole
@for_each("gone", [10.0, 10.7, 11.9])
@for_each("pace", [Pace(), Pace(heartbeat_every=0.2, give_up=4.0, expire_after=5.0)])
def test_everybody_who_lives_beats_before_a_young_process_judges(
    monkeypatch: pytest.MonkeyPatch, pace: Pace, gone: float
):
    """Whenever a database goes and leaves all hanging, for however long, all beat soon enough once it is back."""
    for tenths in range(1, 300, 3):
        back = gone + tenths / 10
        with asyncio.Runner(loop_factory=InstantLoop) as runner:
            now = runner.get_loop().time
            database = Away(gone, back, now)
            monkeypatch.setattr("agent_core.engine.dbos._now", now)
            monkeypatch.setattr("agent_core.engine.dbos.engine_of", lambda _, found=database: found)
            runner.run(beating(pace, back + pace.expire_after))
        assert any(beat < gone for beat in database.beats)
        # A process that is born as the database comes back judges so long after its first beat, which is not before.
        assert any(back <= beat <= back + pace.settle for beat in database.beats)


async def beating(pace: Pace, until: float) -> None:
    """Have a process beat until it is so late."""
    worker = Liveness(
        "postgresql://unknown",
        this_process("wrk_1", "worker"),
        lambda: (1, 0),
        pace=pace,
        lost=lambda: None,
        end=None,
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(until):
            await worker._beat_forever()


async def test_a_beat_tells_in_whose_name_it_is(postgres_url: str):
    """What the thread that beats has to say is logged with the context of the task that started it."""
    seen: list[dict[str, object]] = []
    worker = liveness(postgres_url, seen)
    with bound_contextvars(worker="wrk_1"):
        await worker.start()
    await worker.stop()
    assert seen[0] == {"worker": "wrk_1"}
