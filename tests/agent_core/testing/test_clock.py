"""The clock of tests: time moves when a test says so."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from agent_core.clock import Clock
from agent_core.testing import FakeClock


async def test_it_is_a_clock():
    """A fake clock satisfies the protocol of a clock."""
    clock: Clock = FakeClock(start=5000)
    assert clock.now() == 5000


async def test_time_stands_still_until_it_is_moved():
    """No real time passes."""
    clock = FakeClock()
    before = clock.now()
    await asyncio.sleep(0)
    assert clock.now() == before
    clock.advance(1.5)
    assert clock.now() == before + 1500


async def test_sleepers_wake_in_the_order_of_their_deadlines():
    """One big jump wakes everybody who is due, the earliest first, equal ones in the order of their sleeps."""
    clock, woken = FakeClock(), []

    async def nap(name, seconds):
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        for name, seconds in [("late", 3), ("first", 1), ("second", 1), ("never early", 9)]:
            group.create_task(nap(name, seconds))
        await clock.slept(4)
        clock.advance(3)
        await asyncio.sleep(0)
        assert woken == ["first", "second", "late"]
        assert clock.sleepers == 1
        clock.advance(6)
    assert woken[-1] == "never early"
    assert clock.sleepers == 0


async def test_a_sleeper_is_not_woken_before_its_time():
    """A jump that ends a microsecond early wakes no sleeper."""
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await clock.slept()
    clock.advance(0.999999)
    await asyncio.sleep(0)
    assert not task.done()
    clock.advance(0.000001)
    await task


async def test_a_test_can_wait_for_a_sleeper_and_jump_to_its_deadline():
    """`advance_to_next` need not know how long a task sleeps, nor whether it sleeps already."""
    clock = FakeClock()

    async def beat():
        for _ in range(3):
            await clock.sleep(10)

    begin = clock.now()
    task = asyncio.create_task(beat())
    assert [await clock.advance_to_next() for _ in range(3)] == [10, 10, 10]
    await task
    assert clock.now() - begin == 30_000


async def test_a_cancelled_sleeper_is_forgotten():
    """A sleeper that is cancelled no longer counts and holds up no other."""
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    other = asyncio.create_task(clock.sleep(2))
    await clock.slept(2)
    task.cancel()
    await asyncio.wait([task])
    assert clock.sleepers == 1
    clock.advance(2)
    await other


async def test_time_may_move_before_a_cancelled_sleeper_notices():
    """A sleeper that is cancelled and due at once ends as cancelled and holds up no other."""
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await clock.slept()
    task.cancel()
    clock.advance(1)
    await asyncio.wait([task])
    assert task.cancelled()
    assert clock.sleepers == 0


async def test_no_time_to_wait_is_one_round_of_the_loop():
    """Sleeping for zero seconds yields control to others and does not need the clock to advance."""
    clock, ran = FakeClock(), []
    asyncio.get_running_loop().call_soon(ran.append, True)
    await clock.sleep(0)
    assert ran
    await clock.sleep(-1)


async def test_waiting_for_sleepers_waits_for_enough_of_them():
    """`slept(2)` is not content with one."""
    clock = FakeClock()
    waiting = asyncio.create_task(clock.slept(2))
    first = asyncio.create_task(clock.sleep(1))
    await clock.slept(1)
    await asyncio.sleep(0)
    assert not waiting.done()
    second = asyncio.create_task(clock.sleep(1))
    await waiting
    clock.advance(1)
    await asyncio.gather(first, second)


async def test_a_waiter_that_gives_up_is_forgotten():
    """Cancelling a wait for sleepers leaves nothing behind."""
    clock = FakeClock()
    waiting = asyncio.create_task(clock.slept())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    task = asyncio.create_task(clock.sleep(1))
    await clock.advance_to_next()
    await task


@given(st.lists(st.floats(0.000001, 1000), max_size=20))
def test_steps_add_up(steps):
    """Many small steps are as long as their sum, to the rounding of each."""
    clock = FakeClock(0)
    for step in steps:
        clock.advance(step)
    assert abs(clock.now() - sum(steps) * 1000) <= 1 + len(steps) * 0.001


def test_a_thousand_short_steps_are_exact():
    """Steps of 20 ms do not drift."""
    clock = FakeClock(0)
    for _ in range(1000):
        clock.advance(0.02)
    assert clock.now() == 20_000
