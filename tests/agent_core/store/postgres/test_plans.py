"""On Postgres the hot statements use their indexes, in the generic plan that serves all values."""

import asyncio
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.sql import ClauseElement

from agent_core.core import Core
from agent_core.store import follow, intake, listing, log, queue, quotas, reading, runs, sessions
from agent_core.store.database import Statement
from agent_core.store.postgres import PostgresDatabase
from agent_core.testing import FakeClock, ScriptedProvider, by_step, call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, engine_of, open_session, say_and_wait, send
from tests.conftest import MakeCore, OpenDatabase
from tests.postgres import PostgresServer

pytestmark = pytest.mark.postgres
LATER = 2**50
"""Long after now: nothing of what is there is to be done by a test."""
DEFINITION = '{"name": "a", "instructions": "", "tools": ["look"]}'
SESSIONS, RUNS_EACH, FACTS_EACH = 3_000, 10, 4
FILL = f"""
INSERT INTO project (key, name) VALUES (1, 'default');
INSERT INTO agent (project, id, name, source, version)
    SELECT 1, 'agent_' || n, 'agent ' || n, 'api', 1 FROM generate_series(1, 20) n;
INSERT INTO agent_version (agent, version, definition, created_at) SELECT key, 1, '{DEFINITION}', 0 FROM agent;
INSERT INTO snapshot (project, hash, content) SELECT 1, 'h' || n, 'x' FROM generate_series(1, 2000) n;
INSERT INTO session (project, id, address, agent, agent_version, actor, actor_kind, about, closed, snapshot, prefix,
        next_seq, window_seq)
    SELECT 1, 'ses_' || n, 'test:' || n, n % 20 + 1, 1, 'actor ' || n % 500, 'user', '{{}}', 0, 'h1', 'h1',
        {RUNS_EACH * FACTS_EACH + 1}, 1 FROM generate_series(1, {SESSIONS}) n;
INSERT INTO run (project, id, session, agent, agent_version, status, epoch, owner, due_at, input_seq, first_seq,
        last_seq, snapshot)
    SELECT 1, 'run_' || s.key || '_' || n, s.key, s.agent, 1,
        CASE WHEN n < {RUNS_EACH} THEN 'completed' WHEN s.key % 100 = 1 THEN 'running' WHEN s.key % 100 = 2 THEN
            'waiting' WHEN s.key % 20 = 3 THEN 'queued' ELSE 'completed' END,
        1, CASE WHEN n = {RUNS_EACH} AND s.key % 100 = 1 THEN 'wrk_' || s.key % 7 END,
        CASE WHEN n = {RUNS_EACH} AND s.key % 100 IN (2, 3, 23, 43, 63, 83) THEN {LATER} + s.key END,
        (n - 1) * {FACTS_EACH} + 1, (n - 1) * {FACTS_EACH} + 1, n * {FACTS_EACH}, 'h1'
    FROM session s, generate_series(1, {RUNS_EACH}) n;
INSERT INTO event (session, seq, run, type, time, data)
    SELECT r.session, r.first_seq + n, r.key, n + 3, 0, '{{}}' FROM run r, generate_series(0, {FACTS_EACH - 1}) n;
INSERT INTO receipt (scope, owner, name, project, digest, run, seq, message)
    SELECT 'session', session, 'key ' || key, 1, 'd', key, 1, 'm' FROM run;
INSERT INTO blob (project, id, session, mime, data)
    SELECT 1, 'blob_' || n, n, 'text/plain', 'x' FROM generate_series(1, {SESSIONS}) n;
INSERT INTO worker (id, host, pid, kind, protocol, room, running, started_at, beat_at)
    SELECT 'wrk_' || n, 'here', n, 'both', 1, 10, 0, 0, {LATER} FROM generate_series(0, 6) n;
ANALYZE;
"""  # noqa: S608 - constants
LARGE = ("session", "run", "event", "receipt", "blob", "snapshot")


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


@pytest.fixture(scope="module")
def full(postgres: PostgresServer) -> Iterator[str]:
    """A database with three thousand sessions, ten runs of each, and four facts of each of those."""
    with postgres.new_database() as url:
        with psycopg.connect(url) as connection:
            connection.execute(FILL)  # type: ignore[arg-type] - our own text
        yield url


@pytest.fixture
def open_database(full: str, backend: str) -> OpenDatabase:
    assert backend == "postgres"
    return partial(PostgresDatabase, full)


def plan_of(url: str, statement: str) -> str:
    """Return the plan of *statement* that is made without looking at its values."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(f"EXPLAIN (GENERIC_PLAN) {statement}")  # type: ignore[arg-type] - our own text
        return "\n".join(row[0] for row in rows)


def scans(plan: str) -> list[str]:
    """Return the steps of *plan* that read a whole large table."""
    return [line.strip() for line in plan.splitlines() if any(f"Seq Scan on {name} " in line for name in LARGE)]


def compiled(statement: Statement | ClauseElement) -> Statement:
    """Return *statement* as one that can be compiled, with its values left open."""
    return statement if isinstance(statement, Statement) else Statement(statement)


INDEXES = [
    pytest.param(log._CLAIM, ("pk_session", "pk_run"), id="claim"),
    pytest.param(log._LOCK, ("pk_session",), id="lock"),
    pytest.param(log._PAGE, ("pk_event",), id="a page of facts"),
    pytest.param(log._BETWEEN, ("pk_event",), id="the facts between"),
    pytest.param(log._OF_RUN, ("pk_event",), id="the facts of a run"),
    pytest.param(log._OF_TYPE, ("pk_event",), id="the messages"),
    pytest.param(runs._ACTIVE, ("uq_run_active_root",), id="the active root run"),
    pytest.param(runs._QUEUED, ("ix_run_queued_root",), id="the next queued run"),
    pytest.param(runs._BY_ID, ("uq_run_id",), id="a run"),
    pytest.param(queue._PROGRESS, ("pk_event",), id="how far a run got"),
    pytest.param(queue._BEGUN, ("ix_run_open",), id="what is due"),
    pytest.param(queue._QUEUED, ("ix_run_open",), id="what may start"),
    pytest.param(queue._NEXT, ("ix_run_open",), id="the next deadline"),
    pytest.param(queue._RUNNING, ("ix_run_open",), id="how many of an agent run"),
    pytest.param(queue._WAITING, ("ix_run_open",), id="how many wait"),
    pytest.param(queue._NEXT_OF_AGENT, (), id="who of an agent is next"),
    pytest.param(queue._IN_SESSION, ("ix_run_queued_root",), id="how many wait in a session"),
    pytest.param(quotas._SIZE, ("pk_event",), id="what is kept of a run"),
    pytest.param(follow._OPEN, ("uq_run_active_root", "ix_run_queued_root"), id="the open runs, for a reader"),
    pytest.param(reading._FIRST_OPEN, ("uq_run_active_root", "ix_run_queued_root"), id="the open runs, to load"),
    pytest.param(sessions._HOLD, ("uq_session_id",), id="a session"),
    pytest.param(listing._OBJECT, ("uq_session_id", "uq_run_active_root", "pk_event"), id="a session to read"),
    pytest.param(intake._SEEN, ("pk_receipt",), id="a key"),
]


@pytest.mark.parametrize(("statement", "indexes"), INDEXES)
async def test_each_hot_statement_has_its_index(
    open_database: OpenDatabase, full: str, statement: Statement | ClauseElement, indexes: tuple[str, ...]
):
    """No hot statement reads a whole table, and each uses the index that is meant for it."""
    database = open_database()
    sql = await database.read(lambda connection: compiled(statement)._sql(connection)[0])
    await database.close()
    plan = await asyncio.to_thread(plan_of, full, sql)
    assert scans(plan) == [], plan
    for index in indexes:
        assert index in plan, plan


async def test_a_page_of_facts_is_not_sorted(open_database: OpenDatabase, full: str):
    """A page of facts comes in the order of the log's key."""
    database = open_database()
    sql = await database.read(lambda connection: log._PAGE._sql(connection)[0])
    await database.close()
    assert "Sort" not in await asyncio.to_thread(plan_of, full, sql)


@pytest.mark.whole
async def test_no_statement_of_a_conversation_reads_a_whole_table(make_core: MakeCore, full: str):
    """Whatever is sent, steered, stopped, resumed, followed or looked up, no statement of it reads a large table."""
    hold, seen = asyncio.Event(), dict[str, None]()

    def script(request):
        held = any("hold" in str(entry.message.parts) for entry in request.messages)
        talk = by_step((call("look", what="a"), call("look", what="b")), (say("Done."),))
        return (say("…"), pause(hold)) if held else talk(request)

    def note(_connection, _cursor, statement, *_rest) -> None:
        seen[statement] = None

    def listen(core: Core) -> Core:
        event.listen(engine_of(core), "before_cursor_execute", note)
        return core

    core = listen(await make_core(ScriptedProvider(script), tools=(look,), clock=FakeClock()))
    session = await open_session(core, agent="agent 1", address="new:1")
    await say_and_wait(core, session, "Look", key="k", digest=b"d")
    held = await send(core, session, "hold")
    for overlap in ("queue", "steer", "interrupt"):
        await send(core, session, overlap, overlap=overlap)
    await core.cancel(held.run, by=ANN)
    for read in (core.run(held.run), core.messages(session), core.tree(held.run), core.sessions(actor="ann")):
        await read
    await core.stop()
    hold.set()
    again = listen(await make_core(ScriptedProvider(lambda _: [say("Hi.")]), tools=(look,), clock=FakeClock()))
    await say_and_wait(again, session, "Once more", instructions="Be long.")
    await again.close_session(session)
    await again.delete_session(await again.fork_session(session) and session)
    asked = [sql for sql in seen if sql.split()[0] in ("SELECT", "UPDATE", "DELETE", "WITH")]
    assert len(asked) > 30
    plans = await asyncio.to_thread(lambda: {sql: scans(plan_of(full, sql)) for sql in asked})
    assert {sql: found for sql, found in plans.items() if found} == {}
