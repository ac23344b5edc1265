"""Sessions: opened, listed, read, closed, deleted and forked."""

import asyncio

import pytest
from sqlalchemy import Connection

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.errors import InvalidInput, NotFound, SessionBusy, SessionClosed
from agent_core.events import Fact, SnapshotFrozen
from agent_core.messages import Text, text_of
from agent_core.providers.base import Request
from agent_core.testing import Answer, FakeClock, ScriptedProvider, call, pause, prefix_of, say
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, BOB, idle, log_of, only, open_session, say_and_wait, send, types
from tests.conftest import MakeCore


@tool(concurrency_safe=True, result_limit=10)
async def look(what: str) -> str:
    """Look something up."""
    return what * 20


def script(request: Request) -> Answer:
    """Look something up when asked to; else answer with the newest question."""
    newest = request.messages[-1].message
    if newest.role == "user" and "look" in text_of(newest.parts):
        return (call("look", what="x"),)
    asked = [text_of(entry.message.parts) for entry in request.messages if entry.message.role == "user"]
    return (say("To ", asked[-1]),)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def core(make_core: MakeCore, clock: FakeClock) -> Core:
    return await make_core(ScriptedProvider(script), tools=(look,), clock=clock)


@pytest.fixture
async def busy(make_core: MakeCore, clock: FakeClock) -> Core:
    """A core whose model never answers."""
    silence = asyncio.Event()
    return await make_core(ScriptedProvider(lambda _: (pause(silence),)), clock=clock)


async def rows(core: Core, table: str) -> int:
    def count(connection: Connection) -> int:
        return connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()  # noqa: S608 - our own names

    return await core._store.read(count)


def shape(facts: list[Fact]) -> list[tuple[int, str, bytes]]:
    return [(fact.seq, fact.type, fact.raw) for fact in facts]


async def test_a_new_session_says_who_and_what(core: Core, clock: FakeClock):
    """A session's object has its agent, actor, metadata and times; its log begins with its opening and its prompt."""
    opened = await core.open_session(agent="assistant", actor=ANN, metadata={"place": "web"})
    agent = await core.agents.get("assistant")
    assert (opened.agent, opened.actor, opened.metadata) == (agent.id, ANN, {"place": "web"})
    assert (opened.status, opened.title, opened.created_at) == ("idle", None, clock.now())
    assert opened.last_activity_at == opened.created_at
    assert await core.session(opened.id) == opened
    facts = await log_of(core, opened.id)
    assert types(facts) == ["session.opened", "snapshot.frozen"]
    assert {fact.run for fact in facts} == {None}
    clock.advance(3)
    await say_and_wait(core, opened.id, "Hello")
    assert (await core.session(opened.id)).last_activity_at == clock.now()
    with pytest.raises(NotFound, match="agent"):
        await core.open_session(agent="unknown", actor=ANN)
    with pytest.raises(NotFound, match="session"):
        await core.session("ses_unknown")


async def test_an_address_has_one_session(core: Core):
    """Opening twice at one address gives the same session, also at once; no address is no address."""
    opened = await asyncio.gather(
        *(core.open_session(agent="assistant", actor=ANN, address="slack:T:C:1") for _ in range(5))
    )
    assert len({session.id for session in opened}) == 1
    assert types(await log_of(core, opened[0].id)) == ["session.opened", "snapshot.frozen"]
    other = await core.open_session(agent="assistant", actor=ANN, address="slack:T:C:2")
    assert other.id != opened[0].id
    assert await open_session(core) != await open_session(core)


async def test_sessions_are_listed_newest_first_page_by_page(core: Core):
    """Pages follow each other without a gap or a repetition, also when sessions are opened in between."""
    ids = [await open_session(core) for _ in range(7)]
    first = await core.sessions(limit=3)
    assert [s.id for s in first.items] == ids[:3:-1]
    await open_session(core)
    second = await core.sessions(limit=3, cursor=first.next_cursor)
    third = await core.sessions(limit=3, cursor=second.next_cursor)
    assert [s.id for page in (first, second, third) for s in page.items] == ids[::-1]
    assert third.next_cursor is None
    for cursor in ("x", "-1", "9" * 30, "½"):
        with pytest.raises(InvalidInput, match="cursor"):
            await core.sessions(cursor=cursor)


async def test_sessions_are_found_by_actor_agent_and_status(busy: Core):
    """Filters can be combined; a status is that of the session's active run."""
    other = await busy.agents.create(Definition(name="other", instructions=""))
    mine, his = await open_session(busy), await open_session(busy, actor=BOB)
    theirs = await open_session(busy, agent="other", actor=BOB)
    await send(busy, his, "Hello")
    await busy.close_session(mine)

    async def found(**filters: object) -> set[str]:
        return {session.id for session in (await busy.sessions(**filters)).items}  # type: ignore[arg-type]

    assert await found(actor="ann") == {mine}
    assert await found(actor="bob") == {his, theirs}
    assert await found(agent="other") == await found(agent=other.id) == {theirs}
    assert await found(actor="bob", agent="assistant") == {his}
    assert await found(status="running") == {his}
    assert await found(status="idle") == {theirs}
    assert await found(status="closed") == {mine}
    assert await found(status="waiting") == await found(actor="unknown") == await found(agent="unknown") == set()
    assert (await busy.session(his)).status == "running"


async def test_messages_are_read_oldest_first_page_by_page(core: Core):
    """The transcript has every message once, in order, whatever the page size; tool results are not messages."""
    session = await open_session(core)
    for text in ("one", "look", "three"):
        await say_and_wait(core, session, text)
    whole = await core.messages(session)
    assert [(m.role, text_of(m.parts)) for m in whole.items] == [
        *(("user", "one"), ("assistant", "To one")),
        *(("user", "look"), ("assistant", ""), ("assistant", "To look")),
        *(("user", "three"), ("assistant", "To three")),
    ]
    assert [m.seq for m in whole.items] == sorted(m.seq for m in whole.items)
    assert whole.next_cursor is None
    for limit in (1, 2, 3, 7):
        page, items = await core.messages(session, limit=limit), []
        items += page.items
        while page.next_cursor:
            page = await core.messages(session, limit=limit, cursor=page.next_cursor)
            items += page.items
        assert tuple(items) == whole.items
    with pytest.raises(NotFound):
        await core.messages("ses_unknown")


async def test_a_closed_session_takes_no_more(busy: Core):
    """A session closes when nothing is to be answered, and then takes no message; its log stays."""
    session = await open_session(busy)
    receipt = await send(busy, session, "Hello")
    queued = await send(busy, session, "Later")
    with pytest.raises(SessionBusy, match="cancel"):
        await busy.close_session(session)
    for run in (queued.run, receipt.run):
        await busy.cancel(run, by=ANN)
    await idle(busy, session)
    assert (await busy.close_session(session)).status == "closed"
    assert (await busy.close_session(session)).status == "closed"
    with pytest.raises(SessionClosed):
        await send(busy, session, "More")
    assert len((await busy.messages(session)).items) == 3
    with pytest.raises(NotFound):
        await busy.close_session("ses_unknown")


async def test_a_deleted_session_leaves_nothing(core: Core):
    """Deleting removes the session, its log, its runs, keys and blobs, and nothing of another session."""
    kept = await open_session(core)
    await say_and_wait(core, kept, "look", key="k", digest=b"d")
    tables = ("session", "event", "run", "receipt", "blob")
    before = {table: await rows(core, table) for table in tables}
    assert min(before.values()) > 0
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "look", key="k", digest=b"d")
    await core.delete_session(session)
    assert {table: await rows(core, table) for table in tables} == before
    for lost in (core.session(session), core.messages(session), core.run(receipt.run), send(core, session, "Hello")):
        with pytest.raises(NotFound):
            await lost
    with pytest.raises(NotFound):
        await core.delete_session(session)
    assert (await core.session(kept)).id == kept


async def test_a_busy_session_is_not_deleted(busy: Core):
    """While something is to be answered a session stays."""
    session = await open_session(busy)
    await send(busy, session, "Hello")
    with pytest.raises(SessionBusy):
        await busy.delete_session(session)
    assert (await busy.session(session)).status == "running"


async def test_a_fork_answers_with_the_same_window(make_core: MakeCore, clock: FakeClock):
    """A fork goes on from the same words: its next request begins with the bytes of its parent's."""
    provider = ScriptedProvider(script)
    core = await make_core(provider, tools=(look,), clock=clock)
    parent = await open_session(core)
    for text in ("one", "look", "three"):
        await say_and_wait(core, parent, text)
    before = await log_of(core, parent)
    fork = (await core.fork_session(parent)).id
    assert shape(await log_of(core, fork)) == shape(before)
    for session in (fork, parent):
        await say_and_wait(core, session, "four")
    one, other = provider.requests[-2:]
    assert prefix_of(one) == prefix_of(other)
    assert shape((await log_of(core, parent))[: len(before)]) == shape(before)
    check_log(await log_of(core, fork))
    check_log(await log_of(core, parent))
    runs = [(await core.runs(session=session)).items for session in (fork, parent)]
    assert not {run.id for run in runs[0]} & {run.id for run in runs[1]}
    assert [run.text for run in runs[0]] == [run.text for run in runs[1]]


async def test_a_fork_at_a_border_forgets_what_came_later(core: Core):
    """Forked where a run ended, the copy knows what was said until then and no more."""
    parent = await open_session(core)
    for text in ("one", "two"):
        await say_and_wait(core, parent, text)
    facts = await log_of(core, parent)
    ends = [fact.seq for fact in facts if fact.type == "run.completed"]
    fork = await core.fork_session(parent, at=ends[0], actor=BOB)
    assert (fork.actor, fork.status) == (BOB, "idle")
    assert shape(await log_of(core, fork.id)) == shape(facts[: ends[0]])
    assert [text_of(m.parts) for m in (await core.messages(fork.id)).items] == ["one", "To one"]
    await say_and_wait(core, fork.id, "three")
    assert [text_of(m.parts) for m in (await core.messages(parent)).items][-1] == "To two"
    opened = await core.fork_session(parent, at=2)
    assert types(await log_of(core, opened.id)) == ["session.opened", "snapshot.frozen"]


async def test_a_fork_inside_a_run_is_refused(core: Core):
    """Only where no run is open can a session be forked; other places and other sessions are refused by name."""
    parent = await open_session(core)
    for text in ("one", "look"):
        await say_and_wait(core, parent, text)
    facts = await log_of(core, parent)
    borders = {2, *(fact.seq for fact in facts if fact.type == "run.completed")}
    for at in range(-1, len(facts) + 3):
        if at in borders:
            assert (await core.fork_session(parent, at=at)).id != parent
            continue
        with pytest.raises(InvalidInput, match="at"):
            await core.fork_session(parent, at=at)
    assert len((await core.sessions()).items) == 1 + len(borders)
    with pytest.raises(NotFound):
        await core.fork_session("ses_unknown")


async def test_a_busy_session_is_forked_at_an_earlier_seq_only(make_core: MakeCore):
    """While a run is open the newest seq is no border; an earlier one is."""
    hold = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (say("Hi."), pause(hold))))
    session = await open_session(core)
    await send(core, session, "Hello")
    with pytest.raises(SessionBusy):
        await core.fork_session(session)
    assert (await core.fork_session(session, at=2)).status == "idle"
    hold.set()
    await idle(core, session)


async def test_a_fork_keeps_the_prompt_in_force(core: Core):
    """A fork after a run with its own instructions goes back to the session's own, as its parent does."""
    parent = await open_session(core)
    await say_and_wait(core, parent, "one", instructions="Be rude.")
    fork = (await core.fork_session(parent)).id
    for session in (parent, fork):
        await say_and_wait(core, session, "two")
    both = [only(await log_of(core, session), SnapshotFrozen) for session in (parent, fork)]
    assert both[0] == both[1]
    assert [body.reason for body in both[0]] == ["opened", "run", "run"]


async def test_a_fork_outlives_its_parent(core: Core):
    """Deleting the parent takes nothing of what was said from the fork: it has it all, and answers."""
    parent = await open_session(core)
    await say_and_wait(core, parent, "look")
    fork = (await core.fork_session(parent)).id
    before = shape(await log_of(core, parent))
    await core.delete_session(parent)
    assert shape(await log_of(core, fork)) == before
    await say_and_wait(core, fork, "two")
    assert [text_of(m.parts) for m in (await core.messages(fork)).items][-1] == "To two"


async def test_a_message_is_whole_parts(core: Core):
    """What was said comes back as it was said: every part, in order."""
    session = await open_session(core)
    parts = (Text("a"), Text("b 😀\n"))
    await core.receive(session, Inbound(parts=parts, actor=BOB))
    await idle(core, session)
    first = (await core.messages(session)).items[0]
    assert (first.parts, first.actor, first.partial) == (parts, BOB, False)
