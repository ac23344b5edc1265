"""The migrations: up, compared with the models, down to nothing, and up again with data in the tables."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable
from sqlmodel import SQLModel

from agent_core.store import tables
from tests.conftest import ROOT, alembic_config

ADDED = '''"""A revision as a later release may bring it: it rebuilds a table that others refer to."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("session", recreate="always") as batch:
        batch.add_column(sa.Column("colour", sa.String(length=20), nullable=False, server_default="blue"))


def downgrade() -> None:
    with op.batch_alter_table("session", recreate="always") as batch:
        batch.drop_column("colour")
'''


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database file that is not there yet."""
    return tmp_path / "parley.db"


@pytest.fixture
def config(path: Path) -> Config:
    return alembic_config(f"sqlite:///{path}")


def schema(path: Path) -> dict[str, str]:
    """Return the SQL of every table and index, by name."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_the_migrated_schema_is_what_the_models_say(config: Config):
    """Nothing is left to migrate: tables, columns, types and indexes of the models are those of the database."""
    command.upgrade(config, "head")
    command.check(config)


def test_tables_without_a_rowid_are_made_so(config: Config, path: Path):
    """The log and the receipts are kept in their primary key's order, in the migrations as in the models."""
    command.upgrade(config, "head")
    wanted = {
        name: "WITHOUT ROWID" in str(CreateTable(table).compile(dialect=sqlite.dialect()))
        for name, table in SQLModel.metadata.tables.items()
    }
    found = schema(path)
    assert {name: "WITHOUT ROWID" in found[name] for name in wanted} == wanted
    assert {name for name, without in wanted.items() if without} == {"event", "receipt"}


def test_partial_indexes_have_the_conditions_of_the_models(config: Config, path: Path):
    """Each partial index holds exactly the rows that the models name."""
    command.upgrade(config, "head")
    found = schema(path)
    wanted = {
        index.name: str(index.dialect_options["sqlite"]["where"])
        for table in SQLModel.metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    }
    assert set(wanted) >= {"uq_run_active_root", "ix_run_queued_root", "ix_run_open"}
    for name, condition in wanted.items():
        assert found[str(name)].endswith(f"WHERE {condition}"), name


def test_down_to_base_leaves_nothing(config: Config, path: Path):
    """Taking back every revision leaves no table and no index of ours; coming up again gives the same schema."""
    command.upgrade(config, "head")
    first = schema(path)
    command.downgrade(config, "base")
    assert set(schema(path)) == {"alembic_version"}
    command.upgrade(config, "head")
    assert schema(path) == first


def test_each_revision_takes_back_what_it_brought(config: Config, path: Path):
    """Going down step by step leaves at each revision the schema that going up to it gives."""
    line = [revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()]
    command.upgrade(config, "head")
    for revision in line[1:]:
        command.downgrade(config, revision)
        fresh = path.with_name(f"{revision}.db")
        command.upgrade(alembic_config(f"sqlite:///{fresh}"), revision)
        assert schema(path) == schema(fresh), revision


def test_revisions_are_one_line(config: Config):
    """Each revision follows one other and is named by its number, so that the newest is the last file."""
    script = ScriptDirectory.from_config(config)
    line = [revision.revision for revision in script.walk_revisions()][::-1]
    assert line == sorted(line)
    assert line == [f"{number:04}" for number in range(1, len(line) + 1)]
    assert len(script.get_heads()) == 1


def test_every_older_database_is_upgraded_with_its_data(config: Config, path: Path):
    """A database of any revision comes to the newest schema with all its rows."""
    script = ScriptDirectory.from_config(config)
    line = [revision.revision for revision in script.walk_revisions()][::-1]
    assert len(line) > 1
    command.upgrade(config, "head")
    newest = schema(path)
    for old in line[:-1]:
        command.downgrade(config, "base")
        command.upgrade(config, old)
        fill(path)
        command.upgrade(config, "head")
        assert schema(path) == newest
        assert rows(path, "SELECT id, next_seq FROM session") == [("ses_1", 3)]
        assert rows(path, "SELECT session, seq, data FROM event") == [(1, 1, b"{}"), (1, 2, b"{}")]
        assert rows(path, "SELECT id, status FROM run") == [("run_1", "running")]
        assert rows(path, "PRAGMA foreign_key_check") == []


def test_an_upgrade_that_rebuilds_a_table_keeps_every_row(tmp_path: Path, path: Path):
    """A later revision that rebuilds a table keeps every row of it and of the tables that refer to it."""
    shutil.copytree(ROOT / "migrations", tmp_path / "migrations")
    config = alembic_config(f"sqlite:///{path}")
    config.set_main_option("script_location", str(tmp_path / "migrations"))
    command.upgrade(config, "head")
    head = ScriptDirectory.from_config(config).get_current_head()
    fill(path)
    (tmp_path / "migrations" / "versions" / "9999_colour.py").write_text(ADDED.format(head=head), "utf-8")
    command.upgrade(alembic_config_at(config), "head")
    assert rows(path, "SELECT id, colour FROM session") == [("ses_1", "blue")]
    assert rows(path, "SELECT session, seq, data FROM event") == [(1, 1, b"{}"), (1, 2, b"{}")]
    assert rows(path, "SELECT id, status FROM run") == [("run_1", "running")]
    assert rows(path, "PRAGMA foreign_key_check") == []
    command.downgrade(alembic_config_at(config), "-1")
    assert rows(path, "SELECT count(*) FROM event") == [(2,)]


def test_the_schema_refuses_a_second_active_root_run(config: Config, path: Path):
    """Two active root runs of one session cannot exist; ended, queued and child runs may be any number."""
    command.upgrade(config, "head")
    fill(path)
    for status in ("running", "waiting", "requires_action"):
        with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE constraint failed: run\.session"):
            add_run(path, f"second_{status}", status)
    for status in ("queued", "completed", "failed", "cancelled"):
        add_run(path, f"one_{status}", status)
        add_run(path, f"two_{status}", status)
    add_run(path, "child_1", "running", parent=1)
    add_run(path, "child_2", "waiting", parent=1)
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match=r"run\.session"):
        connection.execute("UPDATE run SET status = 'running' WHERE id = 'one_queued'")


def alembic_config_at(config: Config) -> Config:
    """Return a fresh configuration like *config*: Alembic remembers the revisions that it has seen."""
    fresh = Config()
    for name in ("script_location", "sqlalchemy.url"):
        fresh.set_main_option(name, str(config.get_main_option(name)))
    return fresh


def fill(path: Path) -> None:
    """Put one row in each table that matters."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO project (key, name) VALUES (?, 'default')", (tables.DEFAULT_PROJECT,))
        connection.execute(
            "INSERT INTO agent (key, project, id, name, source, version) VALUES (1, 1, 'agent_1', 'a', 'api', 1)"
        )
        connection.execute(
            "INSERT INTO session (key, project, id, agent, agent_version, actor, actor_kind, about, closed, snapshot,"
            " prefix, next_seq, window_seq) VALUES (1, 1, 'ses_1', 1, 1, 'ann', 'user', '{}', 0, 'h', 'h', 3, 1)"
        )
        connection.executemany(
            "INSERT INTO event (session, seq, run, type, time, data) VALUES (1, ?, NULL, 1, 0, ?)",
            [(1, b"{}"), (2, b"{}")],
        )
    add_run(path, "run_1", "running")


def add_run(path: Path, name: str, status: str, *, parent: int | None = None) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO run (project, id, session, agent, agent_version, parent, status, epoch, input_seq, first_seq,"
            " snapshot) VALUES (1, ?, 1, 1, 1, ?, ?, 1, 1, 1, 'h')",
            (name, parent, status),
        )
