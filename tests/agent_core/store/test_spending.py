"""What was spent: each billed call is counted once, in the transaction that records it, and outlives what it names."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from agent_core import events as e
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.errors import LostRun, UnknownCursor
from agent_core.messages import UNKNOWN_USAGE, Actor, CostFilter, CostGroup, CostItem, Message, Text, Usage
from agent_core.quotas import DAY, NANO
from agent_core.store import quotas
from agent_core.store.log import RUN
from agent_core.store.quotas import QUOTA, SPENDING
from agent_core.testing import Answer, FakeClock, ScriptedProvider, call, cut, fail, say, step_of, usage
from agent_core.testing.scripted import Item
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, BOB, Hurried, idle, open_session, ref_of, say_and_wait, send
from tests.conftest import MakeCore

ADA = Actor("ada", "visitor")
PAID = usage(input=1000, output=50, reasoning=10, cache_read=8000, cache_write_short=200, cache_write_long=0)
ONE = Usage(1000, 50, 10, 8000, 200, 0)
COST, UNCACHED = Decimal("0.0046"), Decimal("0.0189")
"""Of a call that uses `PAID`, of Claude Sonnet 5: 2 / 2.5 / 0.2 / 10 dollars per million tokens, and all at 2."""


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


def answers(request: Any) -> Answer:
    """Look something up, then answer: two billed calls."""
    return [PAID, say("Fine.")] if step_of(request) else [PAID, call("look", what="a")]


async def start(make_core: MakeCore, script: Any = answers, clock: Any = None, model: str = "claude-sonnet-5") -> Core:
    provider = ScriptedProvider(script, name="anthropic")
    definition = {"model": f"anthropic:{model}"}
    return await make_core(provider, tools=(look,), definition=definition, clock=clock or FakeClock())


async def costs(core: Core, by: CostGroup, **wanted: Any) -> dict[str | None, CostItem]:
    found = await core.costs.listed(by, CostFilter(**wanted))
    return {item.key: item for item in found.items}


def brief(items: dict[str | None, CostItem]) -> dict[str | None, tuple[int, int, str | None]]:
    """Return the runs, steps and cost of each."""
    return {key: (item.runs, item.steps, item.cost) for key, item in items.items()}


async def rows(core: Core) -> list[dict[str, Any]]:
    query = select(SPENDING).order_by(*SPENDING.primary_key.columns)
    return await core._store.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])


async def test_a_step_is_summed_with_its_tokens_and_costs(make_core: MakeCore):
    """Each answered call adds its tokens, its cost, and what they would cost without a prompt cache."""
    core = await start(make_core)
    session = await open_session(core, actor=ADA)
    await say_and_wait(core, session, "Hello", actor=ADA)
    await say_and_wait(core, session, "Again", actor=ADA)
    run = (await core.runs(session=session)).items[0]
    agent = await core.agents.get("assistant")
    (item,) = (await core.costs.listed("agent")).items
    assert item == CostItem(
        key=agent.id,
        name="assistant",
        runs=2,
        steps=4,
        unmeasured=0,
        unpriced=0,
        usage=Usage(*(4 * getattr(ONE, name) for name in Usage.__struct_fields__)),
        cost=str(4 * COST),
        uncached_cost=str(4 * UNCACHED),
    )
    assert Decimal(run.cost or "") == 2 * COST, "what the run itself says"
    assert brief(await costs(core, "session")) == {session: (2, 4, str(4 * COST))}


async def test_the_asker_of_a_run_pays(make_core: MakeCore):
    """In a session that several people write in each pays for the runs that they asked for, on the channel it is of."""
    core = await start(make_core)
    thread = await open_session(core, actor=ANN, address="slack:T1:C1:17.5")
    page = await open_session(core, actor=ADA)
    await say_and_wait(core, thread, "Hello", actor=ANN)
    await say_and_wait(core, thread, "Hi", actor=BOB)
    await say_and_wait(core, thread, "And?", actor=BOB)
    await say_and_wait(core, page, "Hello", actor=ADA)
    one, two, three = (str(n * 2 * COST) for n in (1, 2, 3))
    assert brief(await costs(core, "actor")) == {"ann": (1, 2, one), "bob": (2, 4, two), "ada": (1, 2, one)}
    assert brief(await costs(core, "channel")) == {"slack": (3, 6, three), "web": (1, 2, one)}
    assert brief(await costs(core, "actor", session=thread, agent="assistant")).keys() == {"ann", "bob"}
    assert brief(await costs(core, "session", actor="bob", channel="slack")) == {thread: (2, 4, two)}
    assert brief(await costs(core, "session", agent="another")) == {}


async def test_a_run_that_waited_in_the_queue_is_paid_by_its_asker(make_core: MakeCore):
    """A run that starts from its row, not from the message, has kept who asked, and the channel."""
    core = await start(make_core)
    thread = await open_session(core, actor=ANN, address="slack:T1:C1:17.5")
    for actor in (ANN, BOB):
        await send(core, thread, "Hello", actor=actor)
    await idle(core, thread)
    assert brief(await costs(core, "actor", channel="slack")).keys() == {"ann", "bob"}


async def test_days_are_of_utc_and_bounded(make_core: MakeCore):
    """Sums by day list the latest first; of two bounds the first day is in, the end is not."""
    clock = FakeClock(20_000 * DAY + DAY - 1)
    core = await start(make_core, clock=clock)
    session = await open_session(core)
    for _ in range(3):
        await say_and_wait(core, session, "Hello")
        clock.advance(DAY / 1000)
    days = ["2024-10-06", "2024-10-05", "2024-10-04"]
    assert list(await costs(core, "day")) == days
    assert list(await costs(core, "day", first=20_001)) == days[:2]
    assert list(await costs(core, "day", first=20_000, end=20_002)) == days[1:]
    assert brief(await costs(core, "agent", end=20_001)).popitem()[1] == (1, 2, str(2 * COST))
    page = await core.costs.listed("day", limit=2)
    rest = await core.costs.listed("day", limit=2, cursor=page.next_cursor)
    assert [item.key for item in (*page.items, *rest.items)] == days
    assert rest.next_cursor is None


async def test_the_most_expensive_come_first(make_core: MakeCore):
    """Other sums are listed by cost, those without a price by their tokens, in pages; a cursor is a page's own."""
    core = await start(make_core)
    names = {"carl": 2, "dora": 3, "eve": 1}
    session = await open_session(core)
    for name, messages in names.items():
        for _ in range(messages):
            await say_and_wait(core, session, "Hello", actor=Actor(name, "user"))
    pages = [await core.costs.listed("actor", limit=2)]
    pages.append(await core.costs.listed("actor", limit=2, cursor=pages[0].next_cursor))
    assert [[item.key for item in page.items] for page in pages] == [["dora", "carl"], ["eve"]]
    assert pages[1].next_cursor is None
    with pytest.raises(UnknownCursor):
        await core.costs.listed("actor", cursor="somewhere")


async def test_what_is_not_known_is_said(make_core: MakeCore):
    """A call without a price, or without counts, is counted as such; the sums have what is known of the others."""
    said = iter([[PAID, say("One.")], [say("Two.")]])
    core = await start(make_core, lambda _: next(said))
    session = await open_session(core)
    await say_and_wait(core, session, "Hello")
    await say_and_wait(core, session, "Hello")
    (item,) = (await costs(core, "session")).values()
    assert (item.steps, item.unmeasured, item.unpriced) == (2, 1, 1)
    assert (item.usage, item.cost, item.uncached_cost) == (ONE, str(COST), str(UNCACHED))


async def test_a_sum_of_unknowns_is_unknown(make_core: MakeCore):
    """Where no call has a price or counts there is no sum, and not a sum of nothing."""
    core = await start(make_core, lambda _: [say("Hi.")], model="unlisted")
    await say_and_wait(core, await open_session(core), "Hello")
    (item,) = (await costs(core, "channel")).values()
    assert (item.key, item.runs, item.steps, item.unmeasured, item.unpriced) == ("api", 1, 1, 1, 1)
    assert (item.usage, item.cost, item.uncached_cost) == (UNKNOWN_USAGE, None, None)


async def test_a_failed_try_is_billed_if_it_answered(make_core: MakeCore):
    """A try that broke off after it reported tokens is paid; one that never answered is not in the sums."""
    tries: list[list[Item]] = [[fail("overloaded")], [PAID, say("Half an"), cut()], [PAID, say("Fine.")]]
    said = iter(tries)
    core = await start(make_core, lambda _: next(said), clock=Hurried())
    await say_and_wait(core, await open_session(core), "Hello")
    (item,) = (await costs(core, "agent")).values()
    assert (item.runs, item.steps, item.cost, item.usage.output) == (1, 1, str(2 * COST), 100)


async def test_a_compaction_is_billed(make_core: MakeCore):
    """A summary, and one that failed, are paid by who asked for the run; a cut that called no model is not in."""
    core = await start(make_core)
    session = await open_session(core)
    run = await ref_of(core, (await say_and_wait(core, session, "Hello")).run)
    counts: dict[str, Any] = {"from_seq": 3, "tokens_before": 9, "tokens_after": 3}
    paid: dict[str, Any] = {"usage": ONE, "cost": "0.5", "uncached_cost": "0.75"}
    bodies = [
        e.ContextCompacted(kind="summary", **counts, **paid),
        e.CompactionFailed(model="anthropic:claude-haiku-4-5", code="empty", message="", **paid),
        e.ContextCompacted(kind="cut", **counts),
    ]
    await core._store.write(quotas.bill_costs, run, bodies, now=core._store.clock.now())
    (item,) = (await costs(core, "actor")).values()
    assert (item.runs, item.steps, item.cost) == (1, 2, str(2 * COST + 1))
    assert item.uncached_cost == str(2 * UNCACHED + Decimal("1.5"))


async def test_what_was_said_elsewhere_costs_nothing(make_core: MakeCore):
    """A fork copies answers and imported history has some: neither was asked of a model here."""
    core = await start(make_core)
    session = await open_session(core)
    await say_and_wait(core, session, "Hello")
    fork = (await core.fork_session(session)).id
    history = (Message("user", (Text("Hi"),)), Message("assistant", (Text("Hello"),)))
    await core.receive(await open_session(core), Inbound(parts=(Text("Go"),), actor=BOB, history=history))
    assert fork not in await costs(core, "session")
    async for _ in core.follow(session, until_idle=True):
        pass
    await say_and_wait(core, fork, "And?", actor=BOB)
    assert brief(await costs(core, "session", session=fork)) == {fork: (1, 2, str(2 * COST))}


async def test_a_deleted_session_leaves_its_bill(make_core: MakeCore):
    """What was spent in deleted sessions stays with agent, actor, channel and day, summed, without the sessions."""
    core = await start(make_core)
    gone = [await open_session(core, actor=ANN) for _ in range(2)]
    for session in gone:
        await say_and_wait(core, session, "Hello", actor=ANN)
    before = brief(await costs(core, "agent"))
    for session in gone:
        await core.delete_session(session)
    assert brief(await costs(core, "agent")) == before
    assert brief(await costs(core, "session")) == {None: (2, 4, str(4 * COST))}
    assert brief(await costs(core, "actor")) == {"ann": (2, 4, str(4 * COST))}
    assert len(await rows(core)) == 1


async def test_a_deleted_person_leaves_a_bill_without_a_name(make_core: MakeCore):
    """What a deleted person spent stays in all sums but their own; in others' sessions it stays with the session."""
    core = await start(make_core)
    own, shared = await open_session(core, actor=ANN), await open_session(core, actor=BOB)
    for session in (own, shared, shared):
        await say_and_wait(core, session, "Hello", actor=ANN)
    await say_and_wait(core, shared, "Hello", actor=BOB)
    before = brief(await costs(core, "agent"))
    await core.forget_actor(ANN.id, pseudonym="someone", by=Actor("operator", "service"))
    assert brief(await costs(core, "agent")) == before
    assert brief(await costs(core, "actor")) == {None: (3, 6, str(6 * COST)), "bob": (1, 2, str(2 * COST))}
    assert brief(await costs(core, "session")) == {shared: (3, 6, str(6 * COST)), None: (1, 2, str(2 * COST))}
    assert not any(ANN.id in map(str, row.values()) for row in await rows(core))
    askers = await core._store.read(lambda connection: connection.execute(select(RUN.c.asker)).scalars().all())
    assert set(askers) == {None, b'{"id":"bob","kind":"user"}'}


async def test_an_append_that_is_refused_bills_nothing(make_core: MakeCore):
    """A driver that lost its run writes no answer, and bills none: the sums are the log's, to the call."""
    core = await start(make_core)
    session = await open_session(core)
    run = await ref_of(core, (await say_and_wait(core, session, "Hello")).run)
    before = await rows(core)
    late = e.StepCompleted(n=3, usage=ONE, cost="1", uncached_cost="1")
    with pytest.raises(LostRun):
        await core._store.append(run, [late], [], after=0)
    assert await rows(core) == before


@pytest.mark.parametrize("count", [-9000, 9 * 10**18, 2**64 - 1])
async def test_counts_that_cannot_be_true_are_unknown(make_core: MakeCore, count: int):
    """A server's numbers end no run and no sum: what is out of bounds is as good as not counted."""
    wrong = usage(**{**msgspec.structs.asdict(ONE), "input": count, "output": count, "cache_read": count})
    core = await start(make_core, lambda _: [wrong, say("Fine.")])
    for _ in range(2):
        session = await open_session(core)
        await say_and_wait(core, session, "Hello")
        (run,) = (await core.runs(session=session)).items
        assert run.status == "completed"
    (item,) = (await core.costs.listed("day")).items
    assert (item.steps, item.unmeasured, item.unpriced, item.cost) == (2, 2, 2, None)
    assert item.usage == Usage(None, None, 20, None, 400, 0)


async def test_one_call_counts_up_to_a_thousand_dollars(make_core: MakeCore):
    """The largest counts that are believed cost more than any call: enough of them would overflow the sums."""
    most = usage(**dict.fromkeys(Usage.__struct_fields__, 10**9))
    core = await start(make_core, lambda _: [most, say("Fine.")])
    session = await open_session(core, actor=ADA)
    await say_and_wait(core, session, "Hello", actor=ADA)
    (item,) = (await core.costs.listed("day")).items
    assert (item.cost, item.uncached_cost) == ("1000", "1000")
    found = await core._store.read(lambda connection: list(connection.execute(select(QUOTA.c.cost)).scalars()))
    assert set(found) == {1000 * NANO}
