"""Liveness by itself: whom a process may judge, and in whose name its thread speaks."""

from structlog.contextvars import bound_contextvars, get_contextvars

from agent_core.engine.liveness import Liveness, Load, Pace, _now, this_process


def liveness(url: str = "postgresql://nobody", seen: list[dict[str, object]] | None = None) -> Liveness:
    """Return a liveness that notes in *seen* what its thread's log lines carry."""

    def load() -> Load:
        if seen is not None:
            seen.append(get_contextvars())
        return Load(room=1, running=0)

    return Liveness(url, this_process("wrk_1", "worker"), load, pace=Pace(), lost=lambda: None, end=None)


async def test_nobody_is_judged_by_a_clock_that_was_set():
    """When the database's clock leaps between two beats, either way, the time of good beats begins anew."""
    for leap in (9.0, -9.0):
        worker, now = liveness(), _now()
        worker._went_well(now - 12, 100.0)
        worker._beaten = now - 2
        worker._went_well(now - 1, 100.5)
        assert worker.may_judge
        worker._went_well(now, 100.5 + leap)
        assert worker.is_well
        assert not worker.may_judge


async def test_a_young_process_judges_as_soon_as_everybody_must_have_beaten():
    """One that was just started need not be as old as the dead are; after an outage that it saw it waits longer."""
    pace, now = Pace(), _now()
    worker = liveness()
    worker._went_well(now - pace.settle + pace.beat, 100.0)
    worker._beaten = now
    assert worker.is_well
    assert not worker.may_judge
    worker._good_since = now - pace.settle
    assert worker.may_judge
    worker._beaten = now - pace.give_up
    worker._went_well(now - pace.settle, 100.0)
    worker._beaten = now
    assert worker.is_well
    assert not worker.may_judge
    worker._good_since = now - pace.dead
    assert worker.may_judge


def test_everybody_who_lives_beats_before_a_young_process_judges():
    """A try that hangs when the database comes back, and the beat behind it, fit into the time that it waits."""
    pace = Pace()
    assert pace.settle >= pace.answer + pace.beat
    assert pace.settle < pace.dead


async def test_a_beat_tells_in_whose_name_it_is(postgres_url: str):
    """What the thread that beats has to say is said with the context of whoever started it."""
    seen: list[dict[str, object]] = []
    worker = liveness(postgres_url, seen)
    with bound_contextvars(worker="wrk_1"):
        await worker.start()
    await worker.stop()
    assert seen[0] == {"worker": "wrk_1"}
