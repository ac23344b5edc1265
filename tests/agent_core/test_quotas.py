"""Quotas of an agent: what people may use of it is counted with their messages, and what is too much leaves nothing."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, select

from agent_core.agents import Limits
from agent_core.core import Core
from agent_core.errors import RateLimited
from agent_core.messages import Actor
from agent_core.objects import Receipt
from agent_core.quotas import DAY, Origin, Quota, VisitorQuota, key_of
from agent_core.store import files, quotas
from agent_core.store.log import EVENT, RUN, SESSION
from agent_core.store.quotas import BLOB, QUOTA, SERVED
from agent_core.testing import FakeClock, ScriptedProvider, call, say, usage
from agent_core.tools.functions import tool
from agent_core.tools.render import render_tools
from tests.agent_core.scenes import ANN, SAFETY, idle, inbound, open_session, say_and_wait, send
from tests.conftest import MakeCore

ADA, BEN = Actor("ada", "visitor"), Actor("ben", "visitor")
HERE, THERE = Origin(address="203.0.113.7"), Origin(address="198.51.100.1")
OPERATOR = Origin(is_operator=True)
PAID = usage(input=1000, output=50, reasoning=0, cache_read=0, cache_write_short=0, cache_write_long=0)
NONE = dict.fromkeys(Quota.__struct_fields__)


def only(**bounds: Any) -> VisitorQuota:
    """Return a quota of visitors with these bounds alone."""
    return VisitorQuota(**{**NONE, **bounds})


async def start(make_core: MakeCore, clock: FakeClock, script: Any = None, **limits: Any) -> Core:
    provider = ScriptedProvider(script or (lambda _: [say("Fine.")]))
    return await make_core(provider, definition={"limits": Limits(**limits)}, clock=clock)


async def ask(core: Core, session: str, actor: Actor = ADA, origin: Origin = HERE, **more: Any) -> Receipt:
    return await say_and_wait(core, session, "Hello", actor=actor, origin=origin, **more)


async def refused(core: Core, session: str, actor: Actor = ADA, origin: Origin = HERE, **more: Any) -> RateLimited:
    """Return the refusal of a message, which has left every table as it was."""
    before = await stored(core)
    with pytest.raises(RateLimited) as found:
        await send(core, session, "Hello", actor=actor, origin=origin, **more)
    assert await stored(core) == before
    return found.value


async def stored(core: Core) -> list[Any]:
    """Return how many rows the tables have, and what is counted."""

    def work(connection: Any) -> list[Any]:
        sizes = [connection.execute(select(func.count()).select_from(each)).scalar() for each in (SESSION, RUN, EVENT)]
        return [*sizes, [tuple(row) for row in connection.execute(select(QUOTA).order_by(QUOTA.c.subject))]]

    return await core._store.read(work)


async def test_messages_of_a_minute_are_bounded(make_core: MakeCore):
    """As many messages as the bound says are taken, the next is refused whole until the time that it names."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_minute=3))
    session = await open_session(core, actor=ADA, origin=HERE)
    for _ in range(3):
        await ask(core, session)
    error = await refused(core, session)
    assert (error.limit, str(error)) == (
        "visitor.messages_per_minute",
        f"You have sent 3 messages within a minute, as many as are allowed; try again in {error.retry_after} seconds.",
    )
    clock.advance(error.retry_after - 1)
    assert (await refused(core, session)).retry_after == 1
    clock.advance(1)
    await ask(core, session)
    assert core.counters.limited == {"visitor.messages_per_minute": 2}


async def test_a_day_is_bounded_over_restarts(make_core: MakeCore):
    """The counts of a day are in the database: a process that starts again goes on with them."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_day=2))
    session = await open_session(core, actor=ADA)
    await ask(core, session)
    await core.stop()
    again = await make_core(ScriptedProvider(lambda _: [say("Fine.")]), clock=clock)
    await ask(again, session)
    error = await refused(again, session)
    assert error.limit == "visitor.messages_per_day"
    clock.advance(2 * DAY / 1000)
    await ask(again, session)


async def test_one_persons_use_is_not_anothers(make_core: MakeCore):
    """Another visitor, a user and an operator are answered while one visitor has to wait."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_day=1))
    sessions = {who.id: await open_session(core, actor=who) for who in (ADA, BEN, ANN)}
    await ask(core, sessions["ada"])
    await refused(core, sessions["ada"])
    await ask(core, sessions["ben"], BEN)
    for _ in range(2):
        await ask(core, sessions["ann"], ANN)
        await ask(core, sessions["ada"], ADA, OPERATOR)
    await refused(core, sessions["ben"], BEN)


async def test_a_repeated_key_uses_nothing(make_core: MakeCore):
    """A repeated message is answered as the first time, within the quota and beyond it, and is not counted."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_day=2))
    session = await open_session(core, actor=ADA)
    first = await ask(core, session, key="k", digest=b"d")
    for _ in range(3):
        assert (await ask(core, session, key="k", digest=b"d")).run == first.run
    await ask(core, session, key="l", digest=b"d")
    await refused(core, session, key="m", digest=b"d")
    assert (await ask(core, session, key="k", digest=b"d")).run == first.run


async def test_steered_messages_count_too(make_core: MakeCore):
    """A message that joins a run is one of the quota."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_day=2))
    session = await open_session(core, actor=ADA)
    await ask(core, session)
    await ask(core, session, overlap="steer")
    await refused(core, session, overlap="steer")


async def test_new_sessions_of_a_day_are_bounded(make_core: MakeCore):
    """Opening a session beyond the bound is refused and stores nothing; messages to those that are open go on."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(sessions_per_day=2))
    sessions = [await open_session(core, actor=ADA, origin=HERE) for _ in range(2)]
    before = await stored(core)
    with pytest.raises(RateLimited, match="begun 2 conversations within a day") as error:
        await open_session(core, actor=ADA, origin=HERE)
    assert await stored(core) == before
    await ask(core, sessions[0])
    await open_session(core, actor=ADA, origin=OPERATOR)
    clock.advance(error.value.retry_after)
    await open_session(core, actor=ADA, origin=HERE)


@pytest.mark.parametrize("name", ["tokens_per_day", "cost_per_day"])
async def test_tokens_and_money_of_a_day_are_bounded(make_core: MakeCore, name: str):
    """What steps are billed is counted when they complete; once it is used up the next message is refused."""
    clock = FakeClock()
    provider = ScriptedProvider(lambda _: [PAID, say("Fine.")], name="anthropic")
    core = await make_core(provider, definition={"model": "anthropic:claude-sonnet-5"}, clock=clock)
    session = await open_session(core, actor=ADA)
    run = await core.run((await ask(core, session)).run)
    assert run.cost is not None
    bound = 2 * 1050 if name == "tokens_per_day" else str(2 * Decimal(run.cost))
    await core.agents.update("assistant", {"limits": {"visitor": {name: bound}}})
    await ask(core, session)
    assert (await refused(core, session)).limit == f"visitor.{name}"
    await ask(core, session, ADA, OPERATOR)


async def test_what_is_stored_is_bounded_until_it_is_deleted(make_core: MakeCore):
    """The bytes of ended runs count until their session is deleted, which gives them back."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(stored_bytes=300))
    session = await open_session(core, actor=ADA)
    await ask(core, session)
    kept = (await stored(core))[-1][0][-1]

    def size(connection: Any) -> int:
        return connection.execute(select(func.sum(func.length(EVENT.c.data))).where(EVENT.c.run.is_not(None))).scalar()

    assert kept == await core._store.read(size)
    assert (await refused(core, session)).limit == "visitor.stored_bytes"
    fork = (await core.fork_session(session)).id
    await core.delete_session(session)
    assert (await stored(core))[-1][0][-1] == 0
    clock.advance(60)
    await ask(core, fork)
    assert abs((await stored(core))[-1][0][-1] - kept) < 10, "what an operator copied is not the visitor's"


async def test_comments_on_runs_are_stored_bytes_too(make_core: MakeCore):
    """A comment counts as long as it is there, is refused beyond the bound, and goes with session and person alike."""
    core = await start(make_core, FakeClock(), visitor=only(stored_bytes=10_000, tokens_per_day=1))
    session = await open_session(core, actor=ADA)
    run = (await ask(core, session)).run
    kept = (await stored(core))[-1][0][-1]

    async def rate(comment: str | None, by: Actor = ADA, origin: Origin = HERE) -> int:
        """Rate the run; return how many bytes more than before any comment are stored."""
        await core.feedback(run, by=by, rating="up", comment=comment, origin=origin)
        return (await stored(core))[-1][0][-1] - kept

    assert [await rate(each) for each in ("a" * 5_000, "ab", None)] == [5_000, 2, 0]
    with pytest.raises(RateLimited) as beyond:
        await rate("a" * 10_000)
    assert beyond.value.limit == "visitor.stored_bytes"
    assert (await core.run(run)).feedback[0].comment is None
    assert await rate("Größe") == 7, "bytes, not characters"
    await core.delete_session(session)
    assert (await stored(core))[-1][0][-1] == 0


async def test_a_comment_counts_towards_its_author(make_core: MakeCore):
    """What an operator writes about a visitor's answer uses no one's quota, and another person's uses their own."""
    core = await start(make_core, FakeClock(), visitor=only(stored_bytes=10_000))
    session = await open_session(core, actor=ADA)
    run = (await ask(core, session)).run

    async def bytes_of(actor: Actor) -> int:
        query = select(QUOTA.c.stored).where(QUOTA.c.subject == key_of("visitor", actor.id))
        return int(await core._store.read(lambda connection: connection.execute(query).scalar()) or 0)

    kept = await bytes_of(ADA)
    await core.feedback(run, by=Actor("op", "service"), rating="up", comment="a" * 5_000, origin=OPERATOR)
    await core.feedback(run, by=BEN, rating="up", comment="Mine", origin=HERE)
    assert (await bytes_of(ADA), await bytes_of(BEN)) == (kept, 4)
    await core.feedback(run, by=ADA, rating="up", comment="And mine", origin=HERE)
    await core.forget_actor("op", pseudonym="forgotten:1", by=Actor("op", "service"))
    assert (await bytes_of(ADA), await bytes_of(BEN)) == (kept + 8, 4)
    await core.delete_session(session)
    assert (await bytes_of(ADA), await bytes_of(BEN)) == (0, 0)


async def test_a_comment_that_was_never_counted_is_not_given_back(make_core: MakeCore):
    """One of the version before, which counted none, leaves the count as it is when it is replaced and deleted."""
    core = await start(make_core, FakeClock(), visitor=only(stored_bytes=10_000))
    session = await open_session(core, actor=ADA)
    run = (await ask(core, session)).run
    await core.feedback(run, by=ADA, rating="up", comment="a" * 5_000, origin=OPERATOR)
    before = await stored(core)
    await core.feedback(run, by=ADA, rating="up", comment=None, origin=HERE)
    assert await stored(core) == before
    await core.feedback(run, by=ADA, rating="up", comment="a" * 5_000, origin=OPERATOR)
    await core.delete_session(session)
    assert (await stored(core))[-1][0][-1] == 0


async def test_rows_and_whole_results_are_stored_bytes_too(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """What is kept beside the log counts, until it is dropped for newer rows or its session is deleted."""

    @tool(result_limit=40)
    async def poll() -> list[dict[str, str]]:
        """Return rows, more than the model reads."""
        return [{"text": "x" * 5_000}]

    monkeypatch.setattr(files, "MAX_RESULT_BYTES", 12_000)
    script = [(call("poll"),), (say("There."),)] * 3
    clock, tools = FakeClock(), (poll, *render_tools(None).values())
    provider = ScriptedProvider(script)
    limits = Limits(visitor=only(stored_bytes=1_000_000))
    core = await make_core(provider, definition={"limits": limits}, clock=clock, tools=tools)
    session = await open_session(core, actor=ADA)
    counted = list[int]()
    for _ in range(3):
        await ask(core, session)
        counted.append((await stored(core))[-1][0][-1])

    def size(connection: Any) -> list[int]:
        sums = (select(func.sum(func.length(each))) for each in (EVENT.c.data, BLOB.c.data))
        return [
            int(connection.execute(each.where(run.is_not(None))).scalar())
            for each, run in zip(sums, (EVENT.c.run, BLOB.c.run), strict=True)
        ]

    events, blobs = await core._store.read(size)
    assert counted[0] > 10_000, "rows and the whole result"
    assert counted[-1] == events + blobs
    assert 25_000 < blobs < 26_000, "two handles, and three results whole"
    await core.delete_session(session)
    assert (await stored(core))[-1][0][-1] == 0


async def test_an_address_and_everyone_share_their_quotas(make_core: MakeCore):
    """Visitors from one address have one quota of it together, and all people of an agent one of the agent."""
    clock = FakeClock()
    free, two = only(), Quota(messages_per_day=3)
    core = await start(make_core, clock, visitor=free, address=Limits().address, everyone=two)
    await core.agents.update("assistant", {"limits": {"address": {"messages_per_minute": 2}}})
    ada, ben = await open_session(core, actor=ADA), await open_session(core, actor=BEN)
    await ask(core, ada, ADA, HERE)
    await ask(core, ben, BEN, HERE)
    assert (await refused(core, ben, BEN, HERE)).limit == "address.messages_per_minute"
    await ask(core, ben, BEN, THERE)
    error = await refused(core, ben, BEN, THERE)
    assert (error.limit, str(error)[:41]) == ("everyone.messages_per_day", "The people who use this assistant have se")
    await refused(core, await open_session(core), ANN)


async def test_the_newest_versions_quota_holds_for_old_sessions(make_core: MakeCore):
    """A quota that is changed applies to the sessions that are open, and its other bounds stay."""
    clock = FakeClock()
    core = await start(make_core, clock)
    session = await open_session(core, actor=ADA)
    changed = await core.agents.update("assistant", {"limits": {"visitor": {"messages_per_day": 1}}})
    assert changed.definition.limits.visitor == VisitorQuota(messages_per_day=1)
    await ask(core, session)
    await refused(core, session)
    await core.agents.update("assistant", {"limits": {"visitor": {"messages_per_day": 2}}})
    clock.advance(5)
    await ask(core, session)


async def test_many_at_once_get_no_more_than_the_quota(make_core: MakeCore):
    """Of messages that come at the same moment to several sessions exactly as many are taken as are allowed."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_minute=4))
    sessions = [await open_session(core, actor=ADA) for _ in range(9)]
    sent = [send(core, each, "Hello", actor=ADA, origin=HERE) for each in sessions]
    found = await asyncio.gather(*sent, return_exceptions=True)
    assert sum(isinstance(each, Receipt) for each in found) == 4
    assert sum(isinstance(each, RateLimited) for each in found) == 5
    await asyncio.gather(*(idle(core, each) for each in sessions))


@pytest.mark.postgres
async def test_processes_share_the_quota(make_core: MakeCore):
    """What one process has counted another one refuses."""
    clock = FakeClock()
    first = await start(make_core, clock, visitor=only(messages_per_day=4))
    second = await make_core(ScriptedProvider(lambda _: [say("Fine.")]), clock=clock)
    sessions = [await open_session(first, actor=ADA) for _ in range(8)]
    pairs = zip((first, second) * 4, sessions, strict=True)
    sent = [send(core, each, "Hello", actor=ADA, origin=HERE) for core, each in pairs]
    found = await asyncio.gather(*sent, return_exceptions=True)
    assert sum(isinstance(each, Receipt) for each in found) == 4
    await asyncio.gather(*(idle(core, each) for core, each in zip((first, second) * 4, sessions, strict=True)))
    await refused(second, sessions[1])


async def test_a_flood_of_refusals_leaves_the_database_alone(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """Within some seconds of a refusal the next ones do not even count, though a repeated key is still answered."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_day=1))
    session = await open_session(core, actor=ADA)
    first = await ask(core, session, key="k", digest=b"d")
    await refused(core, session)
    with monkeypatch.context() as patched:
        patched.setattr(quotas, "_UPSERTS", None)
        for _ in range(20):
            await refused(core, session)
        assert (await send(core, session, "Hello", actor=ADA, origin=HERE, key="k", digest=b"d")).run == first.run


async def test_operators_run_no_statement_of_quotas(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """A run of an operator counts nothing, from its message to its end."""
    clock = FakeClock()
    core = await start(make_core, clock, everyone=Quota(messages_per_day=1), user=Quota(stored_bytes=1))
    session = await open_session(core, origin=OPERATOR)
    monkeypatch.setattr(quotas, "_UPSERTS", None)
    monkeypatch.setattr(quotas, "_SIZE", None)
    for _ in range(2):
        await ask(core, session, ANN, OPERATOR)
        await core.run_agent("assistant", inbound("Hi", actor=Actor("cron", "service")))
    assert (await stored(core))[-1] == []


async def test_old_counts_are_removed(make_core: MakeCore):
    """Counts that no period includes any more are removed by the sweep; what is still stored stays counted."""
    clock = FakeClock()
    core = await start(make_core, clock, visitor=only(messages_per_day=9), address=Limits().address)
    kept, gone = await open_session(core, actor=ADA), await open_session(core, actor=BEN)
    await ask(core, kept, ADA, HERE)
    await ask(core, gone, BEN, THERE)
    await core.delete_session(gone)
    assert len((await stored(core))[-1]) == 4
    clock.advance(3 * DAY / 1000)
    async with asyncio.timeout(SAFETY):
        while len((await stored(core))[-1]) != 2:
            await clock.slept(1)
            clock.advance(1)
    assert await core._store.read(lambda c: c.execute(select(func.count()).select_from(SERVED)).scalar()) == 0
