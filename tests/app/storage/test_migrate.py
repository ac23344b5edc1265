"""The database's revision: brought up to date, checked, and compared with that of another version."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text

from agent_core.errors import ConfigError
from app.settings import Settings
from app.storage import check_migrated, connected, migrate, newest, plain_failures, revision
from tests.postgres import NO_SCHEMA, PostgresServer

SECRET = "s" * 32


def settings(url: str, tmp_path) -> Settings:
    return Settings(_env_file=None, data=tmp_path, database_url=url, secret_key=SECRET)  # type: ignore[call-arg]


def set_revision(url: str, to: str) -> None:
    with connected(url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :to"), {"to": to})


@pytest.fixture
def empty(postgres: PostgresServer, tmp_path):
    with postgres.new_database(template=NO_SCHEMA) as url:
        yield settings(url, tmp_path)


@pytest.fixture
def migrated(new_postgres_url: str, tmp_path) -> Settings:
    return settings(new_postgres_url, tmp_path)


def test_an_empty_postgres_is_brought_up_to_date_once(empty: Settings):
    """Our tables and the engine's are made; doing it again changes nothing."""
    with pytest.raises(ConfigError, match=r"revision none, .*run `parley migrate`"):
        check_migrated(empty)
    for _ in range(2):
        migrate(empty)
        check_migrated(empty)
    with connected(empty.postgres or "") as connection:
        assert connection.execute(text("SELECT count(*) FROM dbos.workflow_status")).scalar() == 0
        assert connection.execute(text("SELECT count(*) FROM run")).scalar() == 0


def test_a_postgres_of_a_later_version_is_used_as_it_is(migrated: Settings):
    """While a new version is brought out, a process of the old one starts, and migrates nothing back."""
    set_revision(migrated.postgres or "", "9999")
    check_migrated(migrated)
    migrate(migrated)
    assert revision(migrated) == "9999"


def test_a_postgres_of_an_earlier_version_is_refused(migrated: Settings):
    """A process does not start before its own revision is there."""
    set_revision(migrated.postgres or "", "0001")
    with pytest.raises(ConfigError, match=f"revision 0001, not {newest()}; run `parley migrate`"):
        check_migrated(migrated)
    with pytest.raises(ConfigError, match="of a Parley before its first release"):
        migrate(migrated)


def test_an_sqlite_file_of_a_later_version_is_refused(tmp_path):
    """A file has one process at a time: one that a later version made is left to that one."""
    later = Settings(_env_file=None, data=tmp_path)  # type: ignore[call-arg]
    migrate(later)
    with closing(sqlite3.connect(later.database)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(ConfigError, match="later Parley"):
        check_migrated(later)
    migrate(later)
    assert revision(later) == "9999"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ann:hidden-word@127.0.0.1:1/x", "127.0.0.1:1, database `x`"),
        ("postgres://ann:hidden-word%zz@db.invalid/x", "db.invalid, database `x`"),
        ("postgres://ann@/x?host=/nowhere&password=hidden-word", "/nowhere, database `x`"),
        ("postgres://ann:hidden-word@127.0.0.1:1/x?sslmode=odd", "sslmode"),
        ("postgres://ann:hidden-word@127.0.0.1:1/x?pgbouncer=true", "pgbouncer"),
    ],
)
def test_a_postgres_that_cannot_be_used_is_named_without_its_password(tmp_path, url, shown):
    """Not there, no such socket, an address that drivers cannot read: one line with the place and no secret."""
    with pytest.raises(ConfigError) as caught:
        check_migrated(settings(url, tmp_path))
    line = str(caught.value)
    assert line.startswith("DATABASE_URL: ")
    assert shown in line
    assert "\n" not in line
    assert "hidden-word" not in line


def test_a_migration_says_what_it_did(empty: Settings):
    """The revisions before and after, or that there was nothing to do."""
    assert migrate(empty) == f"revision none -> {newest()}"
    assert migrate(empty) == "up to date"


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '55P03'; END $$", "a table is in use; run it again"),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '42501'; END $$", "a role with the right"),
    ],
)
def test_what_a_postgres_refuses_has_its_own_remedy(migrated: Settings, statement: str, remedy: str):
    """A lock that is not got and a right that is missing are nothing that another address would help."""
    with pytest.raises(ConfigError, match=remedy), connected(migrated.postgres or "") as connection:
        connection.execute(text(statement))


def test_a_migration_that_times_out_on_another_says_so():
    """While another migration holds the lock too long, one line says so, without the address."""
    with (
        pytest.raises(ConfigError, match="Another process has been migrating") as refused,
        plain_failures("postgresql://u:S3cr3tPw@h/x"),
    ):
        raise TimeoutError("Another process has been migrating this database for ten minutes.")
    assert "S3cr3tPw" not in str(refused.value)
