"""Migrations on Postgres while the version before them serves: what they may do, and what becomes of those who work."""

import asyncio
import re
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.store.postgres import PostgresDatabase
from agent_core.testing import ScriptedProvider, by_step, call, say
from agent_core.tools.functions import tool
from app.storage import FIRST
from tests import forked
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import SAFETY, idle, open_session, say_and_wait
from tests.cases import for_each
from tests.conftest import alembic_config
from tests.migrations.conftest import WriteRevision
from tests.migrations.databases import rows
from tests.postgres import PATIENT

on_postgres = pytest.mark.parametrize("make_url", ["postgres"], indirect=True)
ALLOWED = (
    r"CREATE (UNLOGGED )?TABLE ",
    r"CREATE INDEX CONCURRENTLY ",
    r"ALTER TABLE \w+ ADD COLUMN (?!.*NOT NULL)",
    r"ALTER TABLE \w+ ADD COLUMN .* DEFAULT ",
    r"(UPDATE|INSERT INTO) alembic_version ",
)
HEAD = '''"""A revision as a later release may bring it."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"
branch_labels = None
depends_on = None


'''
ADDS = f"""{HEAD}
def upgrade() -> None:
    op.create_table("shade", sa.Column("name", sa.String(length=20), primary_key=True))
    with op.get_context().autocommit_block():
        for table in ("agent", "session", "event", "run", "receipt"):
            op.add_column(table, sa.Column("colour", sa.String(length=20), nullable=True))
            op.add_column(table, sa.Column("size", sa.Integer(), nullable=False, server_default="7"))
            op.create_index("ix_" + table + "_colour", table, ["colour"], postgresql_concurrently=True)
"""
ADDS_IN_ONE = f"""{HEAD}
def upgrade() -> None:
    op.add_column("session", sa.Column("colour", sa.String(length=20), nullable=True))
    op.add_column("run", sa.Column("colour", sa.String(length=20), nullable=True))
"""


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


SCRIPT = by_step((call("look", what="a"), call("look", what="b")), (say("Done."),))


def is_allowed(statement: str) -> bool:
    return any(re.match(each, " ".join(statement.split())) for each in ALLOWED)


@on_postgres
def test_revisions_only_add(config: Config):
    """No revision takes from the version before it what it uses, demands what it does not give, or keeps it waiting."""
    command.upgrade(config, FIRST)
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        command.upgrade(config, "head")
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    changes = [statement for statement in seen if not re.match(r"\s*(SELECT|SET|SHOW|select|show) ", statement)]
    assert [statement for statement in changes if not is_allowed(statement) and not is_new(statement, changes)] == []


def is_new(statement: str, changes: list[str]) -> bool:
    """Return whether *statement* makes an index of a table that these revisions make, or fills it: it is unused yet."""
    made = {found[1] for each in changes if (found := re.match(r"\s*CREATE TABLE (\w+)", each))}
    of = re.match(r"\s*(?:CREATE (?:UNIQUE )?INDEX \w+ ON|INSERT INTO) (\w+)", statement)
    return of is not None and of[1] in made


@for_each(
    "statement",
    [
        "DROP TABLE run",
        "ALTER TABLE run DROP COLUMN owner",
        "ALTER TABLE run RENAME COLUMN owner TO worker",
        "ALTER TABLE run ALTER COLUMN owner SET NOT NULL",
        "ALTER TABLE run ADD COLUMN size INTEGER NOT NULL",
        "CREATE INDEX ix_run_owner ON run (owner)",
        "CREATE UNIQUE INDEX CONCURRENTLY uq_run ON run (owner)",
        "UPDATE run SET owner = NULL",
    ],
)
def test_what_is_not_only_added_is_seen(statement: str):
    """The rule for revisions knows what would harm the version that still serves."""
    assert not is_allowed(statement)


@pytest.mark.whole
@on_postgres
async def test_servers_keep_working_during_an_upgrade(config: Config, url: str, write_revision: WriteRevision):
    """While a later release's revision adds to every table, a core that knows nothing of it answers without a fault."""
    command.upgrade(config, "head")
    core = Core(
        PostgresDatabase(url, **PATIENT), providers={"scripted": ScriptedProvider(SCRIPT)}, tools={"look": look},
        default_model="scripted",
    )  # fmt: skip
    await core.start()
    try:
        await core.agents.create(Definition(name="assistant", instructions="", tools=("look",)))
        sessions = [await open_session(core) for _ in range(4)]
        done = asyncio.Event()

        async def talk(session: str) -> int:
            said = 0
            while not done.is_set() or said < 2:
                run = await say_and_wait(core, session, f"{said}", key=f"{said}", digest=b"d")
                assert (await core.run(run.run)).status == "completed"
                said += 1
            return said

        async with asyncio.timeout(SAFETY):
            talks = [asyncio.ensure_future(talk(session)) for session in sessions]
            await asyncio.to_thread(command.upgrade, write_revision(ADDS), "head")
            done.set()
            assert min(await asyncio.gather(*talks)) >= 2
        for session in sessions:
            check_log(await idle(core, session))
    finally:
        await core.stop()
    assert rows(url, "SELECT DISTINCT colour, size FROM event") == [(None, 7)]


@pytest.mark.whole
@on_postgres
async def test_two_simultaneous_migrations_run_once(url: str, tmp_path: Path):
    """Of processes that migrate one empty database together each finds it migrated, and none fails."""
    env = {"DATABASE_URL": url, "PARLEY_SECRET_KEY": "s" * 32, "PARLEY_AGENTS": str(tmp_path)}
    done = [await forked.start("app", "migrate", cwd=tmp_path, env=env) for _ in range(3)]
    async with asyncio.timeout(SAFETY * 2):
        await asyncio.gather(*(process.communicate() for process in done))
    assert [process.returncode for process in done] == [0, 0, 0]
    command.check(alembic_config(url))


@pytest.mark.whole
@on_postgres
def test_a_table_that_is_in_use_for_long_is_left_alone(config: Config, url: str, write_revision: WriteRevision):
    """A revision that cannot lock its table within seconds rolls back, and those that wait for it continue."""
    command.upgrade(config, "head")
    later = write_revision(ADDS_IN_ONE)
    later.set_main_option("lock_timeout", "200ms")
    with psycopg.connect(url) as long:
        long.execute("SELECT 1 FROM run")  # and never commits
        with pytest.raises(OperationalError, match="lock timeout"):
            command.upgrade(later, "head")
    assert rows(url, "SELECT count(*) FROM pg_attribute WHERE attname = 'colour'") == [(0,)]
    command.upgrade(later, "head")
