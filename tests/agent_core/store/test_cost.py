"""What things cost: a step what its window costs, never what the session's history costs."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from sqlalchemy import Connection, event

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.messages import text_of
from agent_core.store import follow, listing, queue, sessions
from agent_core.store import reading as loading
from agent_core.store import reading as readings
from agent_core.store.database import SqliteDatabase
from agent_core.store.reading import Loaded
from agent_core.testing import FakeClock, ScriptedProvider, call, say
from agent_core.tools.functions import tool
from tests.agent_core.scenes import engine_of, local, log_of, open_session, say_and_wait, send, types
from tests.agent_core.store.long import long_session
from tests.agent_core.store.reading.reader import read
from tests.conftest import MakeCore
from tests.polling import until

T = TypeVar("T")
PER_STEP = 10
"""Instructions of SQLite's machine between two looks at it."""

pytestmark = [pytest.mark.sqlite, pytest.mark.whole]


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


async def work_of(core: Core, work: Callable[[Connection], T]) -> int:
    """Return how many instructions SQLite's machine needs for *work*, which is undone: rows looked at count too."""
    looks = 0

    def note() -> int:
        nonlocal looks
        looks += 1
        return 0

    def measured(connection: Connection) -> int:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.set_progress_handler(note, PER_STEP)
        try:
            work(connection)
        finally:
            driver.set_progress_handler(None, 0)
        return looks * PER_STEP

    return await core._store.read(measured)


class LongSessions(NamedTuple):
    """Sessions of 200 and of 2,000 messages in one database: in both the window is just full."""

    path: Path
    short: str
    long: str


@pytest.fixture(scope="module")
def past(template: Path, tmp_path_factory: pytest.TempPathFactory) -> LongSessions:
    path = Path(shutil.copy(template, tmp_path_factory.mktemp("past") / "parley.db"))

    async def fill() -> LongSessions:
        provider = ScriptedProvider([])
        core = Core(SqliteDatabase(path), providers={"scripted": provider}, tools={}, default_model="scripted")
        await core.start()
        await core.agents.create(Definition(name="assistant", instructions=""))
        short, long = await long_session(core, 200), await long_session(core, 2_000)
        await core.stop()
        return LongSessions(path, short, long)

    return asyncio.run(fill())


@pytest.fixture
def database_path(past: LongSessions, tmp_path: Path) -> Path:
    """A copy of the database with a past."""
    return Path(shutil.copy(past.path, tmp_path / "parley.db"))


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    return await make_core(ScriptedProvider(lambda _: [say("Hi.")]), clock=FakeClock())


async def load(core: Core, session: str) -> Loaded:
    return await core._store.read(loading.load, session)


async def test_loading_a_long_session_costs_what_its_window_costs(core: Core, past: LongSessions):
    """A session of 2,000 messages is loaded with no more rows, and no more work, than one of 200."""
    short, long = await load(core, past.short), await load(core, past.long)
    assert len(long.facts) + len(long.recalled) <= len(short.facts) + len(short.recalled)
    costs = [
        await work_of(core, lambda connection, name=name: loading.load(connection, name))
        for name in (past.short, past.long)
    ]
    assert costs[1] <= costs[0] * 1.1


async def test_the_window_of_a_long_session_is_its_newest_part(core: Core, past: LongSessions):
    """What is loaded of 2,000 messages is the newest of them, whole, beginning with a question."""
    home = await core._cache.get(past.long)
    said = [text_of(entry.message.parts) for entry in home.window.entries]
    assert len(said) == 200
    assert said == [f"{kind} {n}" for n in range(900, 1_000) for kind in ("Question", "Answer")]


async def test_joining_a_long_session_at_its_end_costs_no_history(core: Core, past: LongSessions):
    """Following a long session from its newest seq reads nothing of its past, and neither does the sweep."""
    costs = []
    for name in (past.short, past.long):
        ref = (await load(core, name)).session
        assert (await read(core.follow(name, after=ref.newest, until_idle=True))).tail == []
        costs.append(await work_of(core, lambda connection, key=ref.key: follow._OPEN.run(connection, b_session=key)))
    assert costs[1] <= costs[0] + 2 * PER_STEP
    assert await work_of(core, lambda connection: queue.due(connection, 0)) < 1_000
    assert await work_of(core, lambda connection: queue.next_deadline(connection, 0)) < 1_000


async def test_looking_at_a_long_session_costs_what_is_shown(core: Core, past: LongSessions):
    """A page of messages, a run, a session and the list of sessions cost the same however long the history is."""
    newest = {name: (await load(core, name)).session.newest for name in (past.short, past.long)}
    run = {name: (await core.runs(session=name, limit=1)).items[0].id for name in (past.short, past.long)}
    looks: dict[str, Callable[[Connection, str], object]] = {
        "first page": lambda connection, name: readings.transcript(connection, name, after=0, limit=20),
        "last page": lambda connection, name: readings.transcript(connection, name, after=newest[name] - 70, limit=20),
        "run": lambda connection, name: readings.run(connection, run[name]),
        "tree": lambda connection, name: readings.tree(connection, run[name]),
        "session": listing.get,
    }
    for kind, look_at in looks.items():
        short, long = [
            await work_of(core, lambda connection, name=name, look_at=look_at: look_at(connection, name))
            for name in (past.short, past.long)
        ]
        assert long <= short * 1.2 + 2 * PER_STEP, (kind, short, long)


async def test_a_runs_stream_is_read_no_further_than_its_end(core: Core, past: LongSessions):
    """The stream of a run that ended long ago costs one page of its session's log, not all that came since."""
    oldest = (await core.runs(session=past.long, limit=1, cursor="102")).items[0]
    with statements(core) as seen:
        reading = await read(core.follow_run(oldest.id))
    assert types(reading.facts)[-1] == "run.completed"
    assert seen.count("SELECT event") == 1


async def test_a_message_to_a_long_session_costs_what_any_costs(core: Core, past: LongSessions):
    """After 2,000 messages a message writes the same rows as after 200, cold as well as warm."""
    counts: list[list[str]] = []
    for name in (past.short, past.long):
        for _ in range(2):
            with statements(core) as seen:
                receipt = await say_and_wait(core, name, "And now?")
                await until(lambda: not local(core).pool.driven)
            counts.append([kind for kind in seen if kind.startswith(("INSERT", "UPDATE", "DELETE"))])
            assert (await core.run(receipt.run)).text == "Hi."
    assert counts[:2] == counts[2:]


async def test_a_step_in_a_warm_session_reads_nothing(make_core: MakeCore):
    """A step of a session in memory touches the database with its append, and what it spent; nothing is read."""
    clock = FakeClock()
    said = iter([[call("look", what="a")], [call("look", what="b")], [say("Done.")]])
    core = await make_core(ScriptedProvider(lambda _: next(said)), tools=(look,), clock=clock)
    await clock.slept(2)
    session = await open_session(core)
    with statements(core) as seen:
        await send(core, session, "Look")
        await until(lambda: not local(core).pool.driven)
    steps = " ".join(seen).split("COMMIT")
    append = "BEGIN IMMEDIATE UPDATE session INSERT event"
    billed = f"{append} INSERT spending"
    assert steps[1].split() == billed.split(), "the answer, its step's end and the call's begin"
    assert [" ".join(step.split()) for step in steps[2:5]] == [append, billed, append]
    assert "BEGIN" not in seen, "a read transaction"
    last = [kind for kind in steps[5].split() if kind != "IMMEDIATE"]
    assert last[:3] == ["BEGIN", "UPDATE", "session"]
    assert "SELECT event" not in " ".join(last)
    assert types(await log_of(core, session))[-1] == "run.completed"


@contextmanager
def statements(core: Core) -> Iterator[list[str]]:
    """Note verb and table of every statement in this block."""
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        seen.append(_kind(statement))

    event.listen(engine_of(core), "before_cursor_execute", note)
    yield seen
    event.remove(engine_of(core), "before_cursor_execute", note)


def _kind(statement: str) -> str:
    """Return verb and table of *statement*."""
    words = statement.split()
    match words[0]:
        case "SELECT" | "DELETE":
            return f"{words[0]} {words[words.index('FROM') + 1]}"
        case "INSERT":
            return f"INSERT {words[2]}"
        case "UPDATE":
            return f"UPDATE {words[1]}"
        case _:
            return statement


async def test_deleting_a_session_costs_what_it_holds(core: Core, past: LongSessions):
    """Removing a session takes the same work whether many runs and keys lie beside it or few."""
    session = await open_session(core)
    for n in range(3):
        await say_and_wait(core, session, f"{n}", key=f"{n}", digest=b"d")

    def delete(connection: Connection) -> None:
        sessions.delete(connection, sessions.find(connection, session))

    beside_many = await work_of(core, delete)
    await core.delete_session(past.long)
    beside_few = await work_of(core, delete)
    assert beside_many <= beside_few * 1.1
    assert (await core.session(session)).id == session, "it was measured only"
