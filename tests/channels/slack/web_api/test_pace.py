"""The pacer: which call to Slack is next."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from random import Random

import pytest

from agent_core.testing import FakeClock
from channels.slack import limits
from channels.slack.pace import LEEWAY, POST, CallBudget, Lane, Pacer, Reserve
from tests.cases import for_each
from tests.polling import PATIENCE

STATUS, START, APPEND = "agents.sessions.setStatus", "chat.startStream", "chat.appendStream"
STOP, UPDATE = "chat.stopStream", "chat.update"
MINUTE = limits.RATE_WINDOW.value + LEEWAY
N = limits.TIER_2.value


class Office:
    """A pacer on a clock moved by hand, and its callers."""

    def __init__(self, **options) -> None:
        self.clock = FakeClock()
        self.pacer = Pacer(self.clock, **options)
        self.admitted: list[str] = []
        self.asking: set[asyncio.Task[None]] = set()

    async def ask(self, name: str, method: str = START, lane: Lane = Lane.FIRST, channel: str = "C1", thread: str = ""):
        task = self.start(self._ask(name, method, lane, channel, thread))
        await settle()
        return task

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.asking.add(task)
        return task

    async def spend(self, method: str = START, lane: Lane = Lane.LIFECYCLE) -> None:
        for _ in range(limits.rate(method).value):
            await self.pacer.admit(method, "T1", None, lane)

    async def later(self, seconds: float) -> list[str]:
        """Return the callers admitted by then."""
        self.clock.advance(seconds)
        await settle()
        admitted, self.admitted = self.admitted, []
        return admitted

    async def finish(self) -> None:
        """Move time from deadline to deadline until all are done."""
        while pending := [task for task in self.asking if not task.done()]:
            if self.clock.sleepers:
                await self.clock.advance_to_next()
            await settle()
            assert self.clock.sleepers or any(task.done() for task in pending), "no caller is woken any more"

    async def _ask(self, name: str, method: str, lane: Lane, channel: str, thread: str) -> None:
        await self.pacer.admit(method, "T1", channel, lane, thread=thread)
        self.admitted.append(name)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    office = Office()
    yield office
    for task in office.asking:
        task.cancel()
    await asyncio.gather(*office.asking, return_exceptions=True)
    await settle()
    assert office.clock.sleepers == 0, "a timer outlives its callers"


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def test_the_lanes_go_in_their_order(office: Office):
    """When room comes back a stop goes before a first sign of life, this before an answer, this before an edit."""
    await office.spend()
    for lane in reversed(Lane):
        await office.ask(lane.name, lane=lane)
    assert await office.later(MINUTE - 0.001) == []
    assert await office.later(0.001) == ["LIFECYCLE", "FIRST", "FINAL", "EDIT"]


async def test_within_a_lane_each_thread_has_its_round(office: Office):
    """A thread that asks five times does not keep one waiting that asks once."""
    await office.spend()
    for n in range(3):
        await office.ask(f"a{n}", thread="a")
    await office.ask("b0", thread="b")
    await office.ask("c0", thread="c")
    assert await office.later(MINUTE) == ["a0", "b0", "c0", "a1", "a2"]


async def test_a_full_channel_holds_up_no_other(office: Office):
    """A post into an idle channel does not wait for those into a busy one."""
    for name in ("a0", "a1", "a2"):
        await office.ask(name, POST, channel="C1")
    await office.ask("b0", POST, channel="C2")
    assert await office.later(0) == ["a0", "b0"]
    assert await office.later(1.1) == ["a1"]
    assert await office.later(1.1) == ["a2"]


async def test_budget_is_kept_back_for_the_lifecycle(office: Office):
    """First signs of life leave a fifth of the statuses to stops and ends, which go at once."""
    for n in range(limits.TIER_3.value):
        await office.ask(str(n), STATUS, thread=str(n))
    assert len(await office.later(0)) == 40
    for n in range(11):
        await office.ask(f"end {n}", STATUS, Lane.LIFECYCLE)
    assert await office.later(0) == [f"end {n}" for n in range(10)]
    assert await office.later(MINUTE) == ["end 10", *(str(n) for n in range(40, 50))]


async def test_the_reserve_of_a_lane_is_a_setting():
    """A reserve per method is left to its lane and those before; without one all is shared."""
    office = Office(reserves={START: Reserve(0.5, Lane.FINAL)})
    async with asyncio.timeout(PATIENCE):
        for _ in range(N // 2):
            await office.pacer.admit(START, "T1", None, Lane.EDIT)
        edit = office.start(office.pacer.admit(START, "T1", None, Lane.EDIT))
        await settle()
        assert not edit.done()
        await office.pacer.admit(START, "T1", None, Lane.FINAL)
        await office.finish()


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


async def test_a_waiter_cancelled_at_the_last_moment_hands_on(office: Office):
    """A permission that comes in the moment of a cancellation goes to the next in the line, old or new."""
    for n in range(N - 1):
        await office.ask(str(n))
    await office.later(30)
    await office.ask("one more")
    lucky = await office.ask("lucky")
    for _ in range(N):
        await office.ask("crowd")
    assert await office.later(MINUTE - 30 - 0.001) == ["one more"]
    office.clock.advance(0.001)
    await asyncio.sleep(0)  # the timer runs and grants; the granted caller has not resumed yet
    lucky.cancel()
    assert await office.later(0) == ["crowd"] * (N - 1)
    assert await office.later(30) == ["crowd"]


async def test_after_a_429_no_call_is_admitted_until_then(office: Office):
    """A penalty blocks one method of one workspace, waiting callers included."""
    await office.spend()
    await office.ask("waits")
    office.pacer.penalty(START, "T1", 90)
    await office.pacer.admit(START, "T2", None, Lane.FIRST)
    await office.pacer.admit(UPDATE, "T1", None, Lane.FINAL)
    assert await office.later(MINUTE) == []
    assert await office.later(90 - MINUTE) == ["waits"]


async def test_the_end_of_the_budget_is_seen_in_time(office: Office):
    """With a tenth of the starts left, or when people wait for them, the budget is nearly spent."""
    for _ in range(N - 3):
        await office.pacer.admit(START, "T1", "C1", Lane.FIRST)
    assert not office.pacer.nearly_spent(START, "T1")
    await office.pacer.admit(START, "T1", "C1", Lane.FIRST)
    assert office.pacer.nearly_spent(START, "T1")
    assert not office.pacer.nearly_spent(START, "T2")
    await office.later(MINUTE)
    assert not office.pacer.nearly_spent(START, "T1")


async def test_a_share_can_grow(office: Office):
    """When another process ends, waiting callers here use its share at once."""
    office.pacer.use(0.5)
    for n in range(N):
        await office.ask(str(n), thread=str(n))
    assert len(await office.later(0)) == N // 2
    office.pacer.use(1.0)
    assert len(await office.later(0)) == N // 2


async def edits(office: Office, method: str, threads: int, seconds: float) -> list[int]:
    """Let *threads* edit for a while, each as soon as it may, and return how often each did."""
    counts = [0] * threads
    due = [0.0] * threads
    for tick in range(int(seconds * 10)):
        for n in range(threads):
            if due[n] <= tick:
                wait = office.pacer.offer(method, "T1", None, thread=str(n))
                counts[n] += not wait
                due[n] = tick + 10 * (wait or limits.APPEND_EVERY.value)
        office.clock.advance(0.1)
    return counts


@pytest.mark.parametrize("threads", [2, 5, 18])
async def test_all_editors_have_the_same_share(office: Office, threads: int):
    """Streams grow equally often, in each third of a minute, however many they are."""
    each = limits.TIER_4.value / threads
    for third in range(9):
        counts = await edits(office, APPEND, threads, MINUTE / 3)
        assert max(counts) - min(counts) <= 2
        assert 0.1 * each <= sum(counts) / threads <= each * (0.6 if third == 0 else 0.4)


async def test_a_single_editor_hardly_waits(office: Office):
    """A single stream grows as often as a stream may, and as the rate allows."""
    (count,) = await edits(office, APPEND, 1, 10 * MINUTE)
    assert count >= 9.5 * limits.TIER_4.value


async def test_as_many_updates_are_kept_as_threads_will_end(office: Office):
    """Edits leave each of thirty threads an update for its whole answer."""
    assert sum(await edits(office, UPDATE, 30, 20)) > 0
    for n in range(30):
        await office.ask(str(n), UPDATE, Lane.FINAL)
    assert len(await office.later(0)) == 30


class Answers(Office):
    """Fifty answers at once in one workspace, over a network of some tens of milliseconds, before a strict judge."""

    def __init__(self, *, streams: bool) -> None:
        super().__init__()
        self.streams = streams
        self.judge = CallBudget()
        self.random = Random(7)  # noqa: S311
        self.refused: list[str] = []
        self.calls: list[str] = []
        self.first: list[float] = []
        self.final: list[float] = []
        self.began = self.clock.now()

    async def run(self, answers: int, channels: int) -> None:
        for n in range(answers):
            self.start(self.answer(f"C{n % channels}", f"1.{n}"))
        async with asyncio.timeout(PATIENCE):
            await self.finish()

    async def answer(self, channel: str, thread: str) -> None:
        await self.call(STATUS, channel, Lane.FIRST, thread)
        self.first.append(self.seconds)
        if self.streams or not self.pacer.nearly_spent(START, "T1"):
            await self.call(START, channel, Lane.FIRST, thread)
            await self.work(APPEND, channel, thread, limits.APPEND_EVERY.value)
            await self.call(STOP, channel, Lane.FINAL, thread)
        else:
            await self.call(POST, channel, Lane.FIRST, thread)
            await self.work(UPDATE, channel, thread, limits.EDIT_EVERY.value)
            await self.call(UPDATE, channel, Lane.FINAL, thread)
        self.final.append(self.seconds)
        await self.call(STATUS, channel, Lane.LIFECYCLE, thread)

    async def work(self, method: str, channel: str, thread: str, every: float) -> None:
        """Show text for twenty seconds, as often as is allowed."""
        end = self.seconds + 20
        while self.seconds < end:
            with suppress(TimeoutError):
                await self.before(end, self.call(method, channel, Lane.EDIT, thread))
            await self.clock.sleep(every)

    async def before(self, end: float, work: Coroutine[None, None, None]) -> None:
        """Give up waiting to append when the answer is done: its end says all."""
        task = asyncio.create_task(work)
        deadline = asyncio.create_task(self.clock.sleep(end - self.seconds))
        await asyncio.wait((task, deadline), return_when=asyncio.FIRST_COMPLETED)
        for each in (task, deadline):
            each.cancel()
        await asyncio.gather(task, deadline, return_exceptions=True)

    async def call(self, method: str, channel: str, lane: Lane, thread: str) -> None:
        await self.pacer.admit(method, "T1", channel, lane, thread=thread)
        with suppress(asyncio.CancelledError):  # what was sent arrives
            await self.clock.sleep(self.random.uniform(0.02, 0.1))
        if self.judge.take(method, "T1", channel, self.clock.now()):
            self.refused.append(f"{method} at {self.seconds} s")
        self.calls.append(method)

    @property
    def seconds(self) -> float:
        return (self.clock.now() - self.began) / 1000


@for_each("streams, last", [(True, 145), (False, 85)])
async def test_fifty_answers_at_once_meet_no_refusal(streams: bool, last: float):
    """Fifty answers at once: no 429, forty signs of life within five seconds, the ends at the documented rates."""
    answers = Answers(streams=streams)
    await answers.run(50, channels=10)
    assert answers.refused == []
    assert sum(at <= 5 for at in answers.first) >= 40
    assert max(answers.first) <= MINUTE + 1
    assert len(answers.final) == 50
    assert max(answers.final) <= last
