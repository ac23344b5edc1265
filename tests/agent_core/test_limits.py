"""Limits: how many runs of an agent run at once, how much may wait, and what becomes of what is too much."""

import asyncio
from collections.abc import Callable

import pytest

from agent_core.agents import Limits
from agent_core.core import Core
from agent_core.errors import IdempotencyMismatch, RateLimited
from agent_core.providers.base import Request
from agent_core.store import queue
from agent_core.testing import Answer, FakeClock, ScriptedProvider, pause, say
from tests.agent_core.scenes import SAFETY, idle, inbound, log_of, open_session, say_and_wait, send, types
from tests.conftest import MakeCore
from tests.polling import until


class CountingModel:
    """Answers once it is released; counts who is being answered, and the most at once."""

    def __init__(self) -> None:
        self.provider = ScriptedProvider(self._answer)
        self.order: list[str] = []
        self.most = 0
        self._gates: dict[str, asyncio.Event] = {}

    def let(self, *sessions: str) -> None:
        for session in sessions or tuple(self._gates):
            self._gates[session].set()

    async def answering(self, n: int) -> list[str]:
        """Return the sessions that are being answered, in the order in which they were begun, once it was *n*."""
        async with asyncio.timeout(SAFETY):
            await self.provider.asked(n)
        return self.order

    def _answer(self, request: Request) -> Answer:
        self._gates = {name: gate for name, gate in self._gates.items() if not gate.is_set()}
        gate = self._gates[request.session] = asyncio.Event()
        self.order.append(request.session)
        self.most = max(self.most, len(self._gates))
        return [pause(gate), say("Fine.")]


@pytest.fixture
def model() -> CountingModel:
    return CountingModel()


@pytest.fixture
def capped(make_core: MakeCore, model: CountingModel) -> Callable[..., object]:
    """Start a core, on a clock that does not advance, whose agent may have some runs at once."""

    async def start(cap: int | None, **options: object) -> Core:
        definition = {"limits": Limits(max_runs=cap)}
        return await make_core(model.provider, definition=definition, **{"clock": FakeClock(), **options})

    return start


async def statuses(core: Core, *sessions: str) -> list[str]:
    return [(await core.session(session)).status for session in sessions]


async def test_no_more_than_its_cap_of_an_agent_run_at_once(capped, model: CountingModel):
    """Of messages that come at the same moment to many sessions as many run as the agent may; all are answered."""
    core = await capped(3)
    sessions = [await open_session(core) for _ in range(12)]
    await asyncio.gather(*(send(core, session, "Hello") for session in sessions))
    await model.answering(3)
    assert sorted(await statuses(core, *sessions)) == ["idle"] * 9 + ["running"] * 3
    for n in range(12):
        model.let((await model.answering(n + 1))[n])
    await asyncio.gather(*(idle(core, session) for session in sessions))
    assert (model.most, sorted(model.order)) == (3, sorted(sessions))


async def test_the_oldest_message_is_next_as_soon_as_one_ends(capped, model: CountingModel):
    """Runs that waited for room start in the order of their messages, at once, whatever session just became free."""
    core = await capped(1)
    first, second, third = [await open_session(core) for _ in range(3)]
    for session in (first, second, first, third):
        await send(core, session, "Hello")
    for n, expected in enumerate((first, second, first, third)):
        assert (await model.answering(n + 1))[n] == expected
        model.let(expected)
    for session in (first, second, third):
        await idle(core, session)
    assert model.most == 1


async def test_a_later_message_does_not_overtake_the_queue(capped, model: CountingModel, make_core: MakeCore):
    """A new message queues after those that wait already, even where there is room for one."""
    core = await capped(1)
    first, second, third = [await open_session(core) for _ in range(3)]
    await send(core, first, "Hello")
    await send(core, second, "Hello")
    await core.cancel((await send(core, third, "Never mind")).run, by=inbound("").actor)
    await until(
        lambda: not core._dispatcher.pending
    )  # the wake-up that the cancel caused; with room it would start one
    await core.agents.update("assistant", {"limits": {"max_runs": 2}})
    await send(core, third, "Hello")
    assert await statuses(core, first, second, third) == ["running", "idle", "idle"]


async def test_the_sweep_returns_no_more_runs_than_there_is_room_for(capped, model: CountingModel):
    """The sweep is given as many queued runs of a capped agent as there is room for, the oldest."""
    core = await capped(2)
    sent = [(await send(core, await open_session(core), "Hello")).run for _ in range(5)]

    async def found() -> list[str]:
        now = core._store.clock.now()
        rows = await core._store.read(queue.due, now)
        return [row.id for row in rows if row.status == "queued"]

    assert await found() == []
    await core.agents.update("assistant", {"limits": {"max_runs": 4}})
    assert await found() == sent[2:4]


async def test_a_raised_cap_holds_for_old_sessions_within_a_second(capped, model: CountingModel):
    """The newest version's cap counts for every session of the agent, and the sweep starts what now may run."""
    clock = FakeClock()
    core = await capped(1, clock=clock)
    sessions = [await open_session(core) for _ in range(3)]
    for session in sessions:
        await send(core, session, "Hello")
    await core.agents.update("assistant", {"limits": {"max_runs": None}})
    await model.answering(1)
    clock.advance(1)
    assert sorted(await model.answering(3)) == sorted(sessions)


async def test_agents_without_a_cap_are_not_counted(
    make_core: MakeCore, model: CountingModel, monkeypatch: pytest.MonkeyPatch
):
    """A run of an agent without a cap takes no lock and counts no runs."""
    core = await make_core(model.provider)
    for statement in ("_LOCK", "_RUNNING", "_NEXT"):
        monkeypatch.setattr(queue, statement, None)
    session = await open_session(core)
    await send(core, session, "Hello")
    await send(core, session, "Hello again")
    await model.answering(1)
    model.let()
    await model.answering(2)
    model.let()
    facts = await idle(core, session)
    assert types(facts).count("run.completed") == 2


async def test_too_much_that_waits_is_refused_whole(capped, model: CountingModel):
    """Beyond the bound a message is refused with the seconds to wait, and leaves nothing; one that joins is welcome."""
    core = await capped(1, max_backlog=2)
    sessions = [await open_session(core) for _ in range(4)]
    kept = [await send(core, session, "Hello", key="k", digest=b"1") for session in sessions[:3]]
    before = [await log_of(core, session) for session in sessions]
    for session in sessions:
        with pytest.raises(RateLimited) as refused:
            await send(core, session, "One more")
        assert refused.value.retry_after > 0
    with pytest.raises(RateLimited):
        await core.run_agent("assistant", inbound("One more"))
    assert [types(await log_of(core, session)) for session in sessions] == [types(facts) for facts in before]
    assert len((await core.sessions()).items) == 4
    again = [await send(core, session, "Hello", key="k", digest=b"1") for session in sessions[:3]]
    assert [(one.run, one.repeated) for one in again] == [(one.run, True) for one in kept]
    with pytest.raises(IdempotencyMismatch):
        await send(core, sessions[0], "Other words", key="k", digest=b"2")
    assert (await send(core, sessions[0], "By the way", overlap="steer")).run == kept[0].run


async def test_what_was_refused_is_welcome_later(capped, model: CountingModel):
    """Once less waits, the next count lets messages in again."""
    clock = FakeClock()
    core = await capped(1, max_backlog=1, clock=clock)
    first, second, third = [await open_session(core) for _ in range(3)]
    await send(core, first, "Hello")
    await send(core, second, "Hello")
    with pytest.raises(RateLimited):
        await send(core, third, "Hello")
    model.let((await model.answering(1))[0])
    await model.answering(2)
    await core._backlog.count()
    await send(core, third, "Hello")
    assert core._backlog.refusal() is not None


async def test_the_backlog_of_all_processes_counts(capped, model: CountingModel):
    """What others queued is known within a second, without a question per message."""
    clock = FakeClock()
    core = await capped(1, max_backlog=2, clock=clock)
    sessions = [await open_session(core) for _ in range(4)]
    for session in sessions[:3]:
        await send(core, session, "Hello")
    core._backlog.waiting = 0  # as if another process had taken them in
    async with asyncio.timeout(SAFETY):
        await clock.slept(3)
        clock.advance(1)
        await clock.slept(3)
    with pytest.raises(RateLimited):
        await send(core, sessions[3], "Hello")


async def test_one_session_takes_up_a_bounded_part_of_the_backlog(
    capped, model: CountingModel, monkeypatch: pytest.MonkeyPatch
):
    """A session in which many messages wait refuses the next; others are served."""
    monkeypatch.setattr(queue, "MAX_QUEUED", 3)
    core = await capped(None)
    session = await open_session(core)
    for _ in range(4):
        await send(core, session, "Hello")
    with pytest.raises(RateLimited, match="3 messages wait in session"):
        await send(core, session, "And another thing")
    other = await open_session(core)
    answering = asyncio.ensure_future(say_and_wait(core, other, "Hello"))
    await model.answering(2)
    model.let(other)
    await answering


async def test_steering_is_no_way_around_the_bound(capped, model: CountingModel, monkeypatch: pytest.MonkeyPatch):
    """Steered messages that no step has taken count with the queued ones, until a step takes them."""
    monkeypatch.setattr(queue, "MAX_QUEUED", 3)
    core = await capped(None)
    session = await open_session(core)
    run = await send(core, session, "Hello")
    await model.answering(1)
    for _ in range(2):
        assert (await send(core, session, "And this", overlap="steer")).run == run.run
    await send(core, session, "And then")
    before = types(await log_of(core, session))
    with pytest.raises(RateLimited, match="3 messages wait in session"):
        await send(core, session, "And that", overlap="steer")
    assert types(await log_of(core, session)) == before
    model.let(session)
    await model.answering(2)
    assert (await send(core, session, "And that", overlap="steer")).run == run.run
