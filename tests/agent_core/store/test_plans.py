"""The statements of a conversation find what they need by an index, however much is stored beside it."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.sql import ClauseElement

from agent_core.core import Core
from agent_core.store import follow, log, queue, reading, runs
from agent_core.store.database import Statement
from agent_core.testing import FakeClock, ScriptedProvider, by_step, call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, engine_of, idle, log_of, open_session, say_and_wait, send
from tests.conftest import MakeCore

pytestmark = pytest.mark.sqlite


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


SCRIPT = by_step((call("look", what="a"), call("look", what="b")), (say("Done."),))


class Statements:
    """Every statement that a core's database runs, with the values of its first use."""

    def __init__(self, core: Core) -> None:
        self.seen: dict[str, object] = {}
        event.listen(engine_of(core), "before_cursor_execute", self._note)

    def _note(self, _connection, _cursor, statement, values, _context, executemany) -> None:
        self.seen.setdefault(statement, values[0] if executemany else values)

    async def scans(self, core: Core) -> dict[str, list[str]]:
        """Return the statements that read a whole table, with the steps that do."""

        def explain(connection: Connection) -> dict[str, list[str]]:
            found: dict[str, list[str]] = {}
            for statement, values in seen.items():
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)  # type: ignore[arg-type]
                if steps := [row.detail for row in plan if _reads_all(row.detail)]:
                    found[statement] = steps
            return found

        seen = {sql: values for sql, values in self.seen.items() if sql.split()[0] in ("SELECT", "UPDATE", "DELETE")}
        return await core._store.read(explain)


def _reads_all(step: str) -> bool:
    """Return whether a step of a plan reads all rows of a table; a co-routine's few rows are no table."""
    return step.startswith("SCAN") and not step.startswith(("SCAN anon_", "SCAN (subquery-"))


def compiled(statement: Statement | ClauseElement) -> Statement:
    """Return *statement* as one that can be compiled, with its values left open."""
    return statement if isinstance(statement, Statement) else Statement(statement)


async def plan(core: Core, statement: Statement | ClauseElement) -> str:
    """Return the plan of *statement*, a line per step."""

    def explain(connection: Connection) -> str:
        sql, order, _ = compiled(statement)._sql(connection)
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", (1,) * len(order or ()))
        return "\n".join(row.detail for row in rows)

    return await core._store.read(explain)


async def test_no_statement_of_a_conversation_reads_a_whole_table(make_core: MakeCore, database_path: Path):
    """Whatever is sent, steered, stopped, resumed, followed or looked up, no statement of it scans a table."""
    hold, clock = asyncio.Event(), FakeClock()

    def script(request):
        held = any("hold" in str(entry.message.parts) for entry in request.messages)
        return (say("…"), pause(hold)) if held else SCRIPT(request)

    core = await make_core(ScriptedProvider(script), tools=(look,), clock=clock)
    seen = Statements(core)
    session = await open_session(core, address="test:1")
    await say_and_wait(core, session, "Look", key="k", digest=b"d")
    held = await send(core, session, "hold")
    for overlap in ("queue", "steer", "interrupt"):
        await send(core, session, overlap, overlap=overlap)
    await core.cancel(held.run, by=ANN)
    await core.run(held.run)
    await core.messages(session)
    await core.tree(held.run)
    await core.stop()
    hold.set()
    second = await make_core(ScriptedProvider(SCRIPT), tools=(look,), clock=FakeClock())
    again = Statements(second)
    await say_and_wait(second, session, "Once more", instructions="Be long.")
    await second.close_session(session)
    await second.delete_session(await second.fork_session(session) and session)
    seen.seen.update(again.seen)
    assert len(seen.seen) > 30
    assert await seen.scans(second) == {}


@pytest.mark.parametrize(
    ("statement", "indexes"),
    [
        pytest.param(runs._ACTIVE, ("uq_run_active_root (session=?)",), id="the active root run"),
        pytest.param(runs._QUEUED, ("ix_run_queued_root (session=?)",), id="the next queued run"),
        pytest.param(queue._BEGUN, ("ix_run_open (status=?)",), id="what is due"),
        pytest.param(queue._QUEUED, ("ix_run_open (status=?", "uq_run_active_root (session=?)"), id="what may start"),
        pytest.param(queue._NEXT, ("ix_run_open (status=? AND due_at>?)",), id="the next deadline"),
        pytest.param(queue._RUNNING, ("ix_run_open (status=?)",), id="how many of an agent run"),
        pytest.param(queue._WAITING, ("ix_run_open (status=?)",), id="how many wait"),
        pytest.param(follow._OPEN, ("uq_run_active_root", "ix_run_queued_root"), id="the open runs, for a reader"),
        pytest.param(reading._FIRST_OPEN, ("uq_run_active_root", "ix_run_queued_root"), id="the open runs, to load"),
        pytest.param(log._PAGE, ("PRIMARY KEY (session=? AND seq>?)",), id="a page of facts"),
        pytest.param(log._BETWEEN, ("PRIMARY KEY (session=? AND seq>? AND seq<?)",), id="the facts between"),
    ],
)
async def test_each_hot_statement_has_its_index(
    make_core: MakeCore, statement: Statement | ClauseElement, indexes: tuple[str, ...]
):
    """What is asked by status uses the partial index for it, and a page of facts the log's own order."""
    steps = await plan(await make_core(), statement)
    assert "SCAN run" not in steps
    for index in indexes:
        assert index in steps, steps


async def test_a_statement_keeps_the_order_of_the_log(make_core: MakeCore):
    """A page of facts needs no sorting: the log lies in its order."""
    core = await make_core(ScriptedProvider([[say("Hi.")]]))
    assert "ORDER BY" not in await plan(core, log._PAGE)
    session = await open_session(core)
    await send(core, session, "Hello")
    await idle(core, session)
    facts = await log_of(core, session)
    assert [fact.seq for fact in facts] == sorted(fact.seq for fact in facts)
