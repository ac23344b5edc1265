"""`follow` at the edges: waits and their ends, a commit before its notification, readers who join anywhere."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.events import ToolCompleted, ToolRequested
from agent_core.messages import Text
from agent_core.providers.base import Request
from agent_core.store import log
from agent_core.store.log import SessionKey
from agent_core.testing import (
    Answer,
    FakeClock,
    Item,
    ScriptedProvider,
    by_step,
    call,
    fail,
    finish,
    pause,
    refuse,
    say,
    think,
    together,
)
from agent_core.tools.functions import tool
from tests.agent_core.asking import AskClient
from tests.agent_core.databases import LateDatabase
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import (
    Hurried,
    idle,
    inbound,
    local,
    log_of,
    only,
    open_session,
    ref_of,
    say_and_wait,
    send,
    types,
)
from tests.agent_core.store.reading.reader import Reading, joined, read
from tests.conftest import ANN, Fresh, MakeCore, OpenDatabase
from tests.polling import PATIENCE, until

WAITS = by_step((call("ask"),), (say("Thank you."),))


async def answer_wait(core: Core, session: str, run: str) -> None:
    """Finish the run's pending call from outside, and wake the run."""
    ref = await ref_of(core, run)
    requested = only(await log_of(core, session), ToolRequested)[-1]
    body = ToolCompleted(call=requested.call, outcome="done", parts=(Text("42"),), truncated=False)

    def work(connection: Connection) -> None:
        first = log.take_seqs(connection, ref.session, 1)
        log.write(connection, SessionKey(ref.session, session), first, [(ref, body)], now=0)

    await until(lambda: not local(core).pool.driven)
    await core._store.write(work)
    await core._engine.wake(ref.key)


async def test_a_runs_stream_closes_where_the_run_waits(make_core: MakeCore):
    """A run's stream ends at its wait, for readers who were there and for those who join while it lasts."""
    core = await make_core(ScriptedProvider(WAITS), tools=(AskClient(),))
    session = await open_session(core)
    receipt = await send(core, session, "Ask me")
    for _ in range(2):
        reading = await read(core.follow_run(receipt.run))
        assert reading.facts[-1].type == "run.waiting"
    assert types((await read(core.follow(session, until_idle=True))).facts)[-1] == "run.waiting"
    assert (await core.settled(receipt.run, timeout=PATIENCE)).status == "requires_action"


async def test_an_answered_wait_closes_nothing(make_core: MakeCore):
    """Once a wait is answered, a run's stream goes past it to the run's end, live and afterwards."""
    core = await make_core(ScriptedProvider(WAITS), tools=(AskClient(),))
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "Ask me")
    await answer_wait(core, session, receipt.run)
    for reading in (await read(core.follow_run(receipt.run)), await read(core.follow_run(receipt.run))):
        assert types(reading.facts)[-1] == "run.completed"
        assert types(reading.facts).count("run.waiting") == 1
    assert (await core.run(receipt.run)).text == "Thank you."
    check_log(await log_of(core, session))


async def test_a_settled_run_is_returned_and_a_slow_one_after_its_time(make_core: MakeCore):
    """Waiting for a run gives its object when it has ended, and as it is when the time is over."""
    hold = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (pause(hold), say("Hi."))))
    session = await open_session(core)
    receipt = await send(core, session, "Hello")
    assert (await core.settled(receipt.run, timeout=0.01)).status == "running"
    assert not core._store.hub._readers
    hold.set()
    assert (await core.settled(receipt.run, timeout=PATIENCE)).text == "Hi."


async def test_no_text_follows_the_end_of_its_message(open_database: OpenDatabase):
    """A reader who joins between the end of a message and its notification gets none of its text after the end."""
    go, database = asyncio.Event(), LateDatabase(open_database())
    provider = ScriptedProvider(lambda _: (say("I can"), pause(go), refuse()))
    core = Core(database, providers={"scripted": provider}, tools={}, default_model="scripted", clock=FakeClock())
    await core.start()
    await core.agents.create(Definition(name="assistant", instructions=""))
    session = await open_session(core)
    await send(core, session, "Hello")
    await until(lambda: bool(core._store.hub.open_messages(session)))
    hold = database.hold = asyncio.Event()
    go.set()
    await database.held.wait()
    reading, task = await joined(core, session)
    hold.set()
    await idle(core, session)
    assert types(reading.facts)[-1] == "run.completed"
    assert reading.late == []
    assert reading.seqs == [fact.seq for fact in await log_of(core, session)]
    task.cancel()
    await core.stop()


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


WORDS = st.text(alphabet="aé😀👩‍👩\n ", min_size=1, max_size=6)
PIECES = st.lists(WORDS, min_size=1, max_size=6).map(tuple)
SPOKEN = st.one_of(
    PIECES.map(lambda pieces: say(*pieces)),
    PIECES.map(lambda pieces: think(*pieces)),
    PIECES.map(lambda pieces: together(say(*pieces), think("hm"))),
)
ENDING = st.sampled_from(
    [(), (), (fail(retry_after=0),), (finish("length"),), (call("look", what="x"),), (call("look", what="y"),) * 2]
)
ANSWERS = st.lists(st.tuples(st.lists(SPOKEN, max_size=4), ENDING), min_size=1, max_size=5)
JOINS = st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1), st.sampled_from([0, 0, 1, 3])), min_size=1, max_size=6)


@settings(max_examples=settings().max_examples // 3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answers=ANSWERS, joins=JOINS, messages=st.integers(1, 2))
def test_a_reader_who_joins_sees_everything(
    fresh: Fresh,
    answers: list[tuple[list[Item], tuple[Item, ...]]],
    joins: list[tuple[int, float, int]],
    messages: int,
):
    """Joining at any moment, from any cursor, at any pace: every fact once, and every text as it ends."""
    with fresh() as open_database:
        asyncio.run(_join(open_database, [(*items, *ending) for items, ending in answers], joins, messages))


async def _join(
    open_database: OpenDatabase, answers: list[Answer], joins: list[tuple[int, float, int]], messages: int
) -> None:
    left = iter(answers)
    provider = ScriptedProvider(lambda _: next(left, (say("The end."),)))
    core = Core(
        open_database(),
        providers={"scripted": provider},
        tools={"look": look},
        default_model="scripted",
        clock=Hurried(),
    )
    await core.start()
    await core.agents.create(Definition(name="assistant", instructions="", tools=("look",)))
    session = await open_session(core)
    try:
        readers = await _watch(core, session, joins, messages)
        facts = await idle(core, session)
        for after, reading in readers:
            _check(reading, after, [fact.seq for fact in facts])
        check_log(facts)
        assert not core._store.hub._readers
        assert not core._store.hub._open
    finally:
        await core.stop()


async def _watch(
    core: Core, session: str, joins: list[tuple[int, float, int]], messages: int
) -> list[tuple[int, Reading]]:
    """Let a first reader watch, and others join when it has seen so many events, from some cursor, at some pace."""
    waiting, tasks = sorted(joins), list[tuple[int, asyncio.Task[Reading]]]()
    seen = newest = 2
    for _ in range(messages):
        await core.receive(session, inbound("Hello"))
    async for batch in core.follow(session, until_idle=True):
        for event in batch:
            seen, newest = seen + 1, getattr(event, "seq", newest)
            while waiting and waiting[0][0] <= seen:
                _, share, patience = waiting.pop(0)
                after = int(newest * share)
                events = core.follow(session, after=after, until_idle=True)
                tasks.append((after, asyncio.create_task(read(events, slowly=patience))))
        await asyncio.sleep(0)
    return [(after, await task) for after, task in tasks]


def _check(reading: Reading, after: int, seqs: list[int]) -> None:
    assert reading.seqs == seqs[after:]
    assert all(reading.whole.values()), (reading.shown, reading.final)
    assert reading.late == []


async def test_a_reader_and_the_request_agree(make_core: MakeCore):
    """The text that a reader was shown of an answer is the text that the next request has of it."""
    provider = ScriptedProvider(lambda _: (say("Grüß ", "dich 😀"),))
    core = await make_core(provider)
    session = await open_session(core)
    reading = asyncio.create_task(read(core.follow_run((await send(core, session, "Hello")).run)))
    await idle(core, session)
    shown = (await reading).shown
    await say_and_wait(core, session, "Again")
    request: Request = provider.requests[1]
    assert request.messages[1].message.parts == (Text("Grüß dich 😀"),)
    assert set(shown.values()) <= {"Grüß dich 😀"}


async def test_a_deleted_session_ends_its_readers(make_core: MakeCore):
    """A reader of a session that is deleted comes to an end instead of waiting for ever."""
    core = await make_core()
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    events = core.follow(session)
    assert [event.type for event in await anext(events)] == ["session.opened", "snapshot.frozen"]
    assert await anext(events) == []
    waiting = asyncio.create_task(anext(events, None))
    await core.delete_session(session)
    async with asyncio.timeout(PATIENCE):
        assert await waiting is None
