"""The pacer: which call to Slack is next."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_core.testing import FakeClock
from channels.slack import limits
from channels.slack.pace import LEEWAY, POST, UPDATE, Pacer

START, APPEND = "chat.startStream", "chat.appendStream"
MINUTE = limits.RATE_WINDOW + LEEWAY
N = limits.TIER_2


class Office:
    """A pacer on a clock moved by hand, and its callers."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pacer = Pacer(self.clock)
        self.admitted: list[str] = []
        self.asking: set[asyncio.Task[None]] = set()

    async def ask(self, name: str, method: str = START, channel: str = "C1") -> asyncio.Task[None]:
        task = asyncio.create_task(self._ask(name, method, channel))
        self.asking.add(task)
        await settle()
        return task

    async def spend(self, method: str = START) -> None:
        for _ in range(limits.rate(method)):
            await self.pacer.admit(method, "T1", None)

    async def later(self, seconds: float) -> list[str]:
        """Return the callers admitted by then."""
        self.clock.advance(seconds)
        await settle()
        admitted, self.admitted = self.admitted, []
        return admitted

    async def _ask(self, name: str, method: str, channel: str) -> None:
        await self.pacer.admit(method, "T1", channel)
        self.admitted.append(name)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    office = Office()
    yield office
    for task in office.asking:
        task.cancel()
    await asyncio.gather(*office.asking, return_exceptions=True)
    assert office.clock.sleepers == 0, "a timer outlives its callers"


async def settle() -> None:
    for _ in range(3 * N):
        await asyncio.sleep(0)


async def test_who_comes_first_goes_first(office: Office):
    """When room comes back the callers go in the order in which they came, and no newcomer before them."""
    await office.spend()
    for name in "abc":
        await office.ask(name)
    assert await office.later(MINUTE - 0.001) == []
    await office.ask("d")
    assert await office.later(0.001) == ["a", "b", "c", "d"]


async def test_a_full_channel_holds_up_no_other(office: Office):
    """A post into an idle channel does not wait for those into a busy one."""
    for name in ("a0", "a1", "a2"):
        await office.ask(name, POST, channel="C1")
    await office.ask("b0", POST, channel="C2")
    assert await office.later(0) == ["a0", "b0"]
    assert await office.later(1.1) == ["a1"]
    assert await office.later(1.1) == ["a2"]


async def test_a_cancelled_waiter_takes_nothing(office: Office):
    """A cancelled waiter costs no budget and delays no other."""
    await office.spend()
    gone = await office.ask("gone")
    await office.ask("next")
    gone.cancel()
    await settle()
    assert await office.later(MINUTE) == ["next"]
    for n in range(N - 1):
        await office.ask(str(n))
    assert len(await office.later(0)) == N - 1


async def test_after_a_429_no_call_is_admitted_until_then(office: Office):
    """A penalty blocks one method of one workspace, waiting callers included."""
    await office.spend()
    await office.ask("waits")
    office.pacer.penalty(START, "T1", 90)
    await office.pacer.admit(START, "T2", None)
    await office.pacer.admit(UPDATE, "T1", None)
    assert await office.later(MINUTE) == []
    assert await office.later(90 - MINUTE) == ["waits"]


async def test_the_end_of_the_budget_is_seen_in_time(office: Office):
    """With a tenth of the starts left the budget is nearly spent."""
    for _ in range(N - 3):
        await office.pacer.admit(START, "T1", "C1")
    assert not office.pacer.nearly_spent(START, "T1")
    await office.pacer.admit(START, "T1", "C1")
    assert office.pacer.nearly_spent(START, "T1")
    assert not office.pacer.nearly_spent(START, "T2")
    await office.later(MINUTE)
    assert not office.pacer.nearly_spent(START, "T1")


async def test_a_share_can_grow(office: Office):
    """When another process ends, its share is used here."""
    office.pacer.use(0.5)
    for n in range(N // 2):
        await office.ask(str(n))
    assert len(await office.later(0)) == N // 2
    office.pacer.use(1.0)
    for n in range(N // 2):
        await office.ask(str(n))
    assert len(await office.later(0)) == N // 2


async def edits(office: Office, method: str, threads: int, seconds: float) -> list[int]:
    """Let *threads* edit for a while, each as soon as it may, and return how often each did."""
    counts = [0] * threads
    due = [0.0] * threads
    for tick in range(int(seconds * 10)):
        for n in range(threads):
            if due[n] <= tick:
                wait = office.pacer.offer(method, "T1", None)
                counts[n] += not wait
                due[n] = tick + 10 * (wait or limits.APPEND_EVERY)
        office.clock.advance(0.1)
    return counts


@pytest.mark.parametrize("threads", [1, 5, 18])
async def test_edits_do_not_come_in_waves(office: Office, threads: int):
    """In each third of a minute some edits go, however many threads ask."""
    for third in range(9):
        part = sum(await edits(office, APPEND, threads, MINUTE / 3)) / limits.TIER_4
        assert 0.15 <= part <= (0.6 if third == 0 else 0.4)


async def test_edits_leave_updates_to_whole_answers(office: Office):
    """While thirty threads edit, thirty whole answers go at once."""
    assert sum(await edits(office, UPDATE, 30, MINUTE)) > 10
    for n in range(30):
        await office.ask(str(n), UPDATE)
    assert len(await office.later(0)) == 30
