"""The migrations: compared with the models, and with data in the tables."""

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable
from sqlmodel import SQLModel

from app.storage import FIRST
from tests.migrations.conftest import MakeUrl, WriteRevision
from tests.migrations.databases import add_run, connected, fill, rows, schema

REBUILDS = '''"""A revision that rebuilds a table that others refer to."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("session", recreate="always") as batch:
        batch.add_column(sa.Column("colour", sa.String(length=20), nullable=False, server_default="blue"))
'''
on_sqlite = pytest.mark.parametrize("make_url", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("make_url", ["postgres"], indirect=True)


def line_of(config: Config) -> list[str]:
    """Return the revisions, oldest first."""
    return [revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()][::-1]


@pytest.mark.sampled(1)
def test_the_migrated_schema_is_what_the_models_say(config: Config):
    """Nothing is left to migrate: tables, columns, types and indexes of the models are those of the database."""
    command.upgrade(config, "head")
    command.check(config)


@on_postgres
def test_the_models_make_the_same_schema(config: Config, url: str, make_url: MakeUrl):
    """On Postgres the migrations give what the models describe, to the last default, constraint and condition."""
    command.upgrade(config, "head")
    plain = make_url()
    with connected(plain) as connection:
        SQLModel.metadata.create_all(connection)
    migrated, described = schema(url), schema(plain)
    assert migrated.pop("live") == "ru", "live text is not written to Postgres's own log"
    described.pop("live")
    assert migrated == described


@on_sqlite
def test_the_migrations_create_tables_without_rowid(config: Config, url: str):
    """The log and the receipts are kept in their primary key's order, in the migrations as in the models."""
    command.upgrade(config, "head")
    wanted = {
        name: "WITHOUT ROWID" in str(CreateTable(table).compile(dialect=sqlite.dialect()))
        for name, table in SQLModel.metadata.tables.items()
    }
    found = schema(url)
    assert {name: "WITHOUT ROWID" in found[name] for name in wanted} == wanted
    assert {name for name, without in wanted.items() if without} == {"event", "receipt", "spending"}


@on_sqlite
def test_partial_indexes_have_the_conditions_of_the_models(config: Config, url: str):
    """Each partial index holds exactly the rows that the models name."""
    command.upgrade(config, "head")
    found = schema(url)
    wanted = {
        index.name: str(index.dialect_options["sqlite"]["where"])
        for table in SQLModel.metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    }
    assert set(wanted) >= {"uq_run_active_root", "ix_run_queued_root", "ix_run_open"}
    for name, condition in wanted.items():
        assert found[str(name)].endswith(f"WHERE {condition}"), name


def test_revisions_are_one_line(config: Config):
    """Each revision follows one other and is named by its number, so that the newest is the last file."""
    line = line_of(config)
    assert line == [f"{number:04}" for number in range(int(FIRST), int(FIRST) + len(line))]
    assert len(ScriptDirectory.from_config(config).get_heads()) == 1


@pytest.mark.sampled(1)
def test_every_older_database_is_upgraded_with_its_data(config: Config, url: str):
    """A database of any revision comes to the newest schema with all its rows, those of older revisions too."""
    for n, revision in enumerate(line_of(config), 1):
        command.upgrade(config, revision)
        check_filled(url, n - 1)
        fill(url, n)
    command.check(config)


@pytest.mark.whole
@on_sqlite
def test_an_upgrade_that_rebuilds_a_table_keeps_every_row(config: Config, url: str, write_revision: WriteRevision):
    """A later revision that rebuilds a table keeps every row of it and of the tables that refer to it."""
    command.upgrade(config, "head")
    fill(url)
    later = write_revision(REBUILDS)
    command.upgrade(later, "head")
    assert rows(url, "SELECT id, colour FROM session") == [("ses_1", "blue")]
    check_filled(url)


def check_filled(url: str, filled: int = 1) -> None:
    """Fail unless all rows are there that `fill` inserted, for each number up to *filled*."""
    numbers = range(1, filled + 1)
    assert rows(url, "SELECT id, next_seq FROM session ORDER BY key") == [(f"ses_{n}", 3) for n in numbers]
    events = [(n, seq, b"{}") for n in numbers for seq in (1, 2)]
    assert rows(url, "SELECT session, seq, data FROM event ORDER BY session, seq") == events
    assert rows(url, "SELECT id, status FROM run ORDER BY key") == [(f"run_{n}", "running") for n in numbers]
    if url.startswith("sqlite"):
        assert rows(url, "PRAGMA foreign_key_check") == []


@pytest.mark.sampled(1)
def test_the_schema_refuses_a_second_active_root_run(config: Config, url: str):
    """Two active root runs of one session cannot exist; ended, queued and child runs may be any number."""
    command.upgrade(config, "head")
    fill(url)
    ((parent,),) = rows(url, "SELECT key FROM run")
    for status in ("running", "waiting", "requires_action"):
        with pytest.raises(IntegrityError, match=r"run\.session|uq_run_active_root"):
            add_run(url, f"second_{status}", status)
    for status in ("queued", "completed", "failed", "cancelled"):
        add_run(url, f"one_{status}", status)
        add_run(url, f"two_{status}", status)
    add_run(url, "child_1", "running", parent=parent)
    add_run(url, "child_2", "waiting", parent=parent)
    with pytest.raises(IntegrityError, match=r"run\.session|uq_run_active_root"):
        rows(url, "UPDATE run SET status = 'running' WHERE id = 'one_queued' RETURNING id")
