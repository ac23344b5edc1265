"""Migrate the database to the newest revision, and check that it is there."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, inspect, text

import migrations
from agent_core import ConfigError
from app.settings import SQLITE, Settings, check_file
from app.storage.at_rest import private_files
from app.storage.keys import prepare_data
from app.storage.lock import owned

FOLDER = Path(migrations.__file__).parent
FIRST = "0100"
"""The revision of the first release; earlier ones were of no release."""
ENGINE_SCHEMA = "dbos"
"""Where the engine keeps its own tables, beside ours."""


def migrate(settings: Settings) -> str:
    """Upgrade the database that *settings* name, unless it is up to date or a later version's; return what was done.

    It needs nothing else of them: no agents, no keys, no secret. Raises ConfigError.
    """
    check_file(settings)
    with private_files():
        return _migrated(settings)


def _migrated(settings: Settings) -> str:
    before = _current_revision(settings)
    if before is not None and before < FIRST:
        raise ConfigError(
            "DATABASE_URL: this database is of a Parley before its first release, which is not upgraded; name a new "
            "one, or another folder in PARLEY_DATA."
        )
    _migrate(settings)
    after = revision(settings)
    return "up to date" if before == after else f"revision {before or 'none'} -> {after}"


def _current_revision(settings: Settings) -> str | None:
    return revision(settings) if settings.postgres is not None or settings.database.exists() else None


def _migrate(settings: Settings) -> None:
    if settings.postgres is not None:
        _migrate_postgres(settings, settings.postgres)
        return
    prepare_data(settings)
    if settings.database.exists() and not _is_outdated(settings):
        return
    with owned(settings):
        _upgrade(f"{SQLITE}{settings.database}")


def check_migrated(settings: Settings) -> None:
    """Raise ConfigError unless the database is there and of a revision that this version can use.

    In Postgres that is its own or a later one: revisions only add, so that old processes work on while a new version
    is brought out. An SQLite file has one process, and no two versions at a time.
    """
    current, wanted = revision(settings), newest()
    if current == wanted or (settings.postgres is not None and current is not None and current > wanted):
        return
    what = "the Postgres" if settings.postgres is not None else f"`{settings.database}`"
    if current is not None and current > wanted:
        raise ConfigError(f"DATABASE_URL: {what} is at revision {current}, of a later Parley; start that version.")
    raise ConfigError(f"DATABASE_URL: {what} is at revision {current or 'none'}, not {wanted}; run `parley migrate`.")


def revision(settings: Settings) -> str | None:
    """Return the database's revision, None for an empty one; raise ConfigError for what is no database."""
    if settings.postgres is not None:
        from app.storage.postgres import connected  # noqa: PLC0415 - the driver takes its time, and SQLite needs none

        with connected(settings.postgres) as connection:
            return revision_of(connection)
    if not settings.database.exists():
        raise ConfigError(f"DATABASE_URL: there is no database at `{settings.database}`; run `parley migrate`.")
    try:
        with closing(sqlite3.connect(settings.database)) as connection:
            exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if exists else None
    except sqlite3.Error as error:
        raise ConfigError(
            f"DATABASE_URL: `{settings.database}` cannot be used ({error}); name an SQLite file that can."
        ) from None
    return row[0] if row else None


def revision_of(connection: Connection) -> str | None:
    """Return the revision that the database of *connection* says it has."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def newest() -> str:
    """Return the newest revision: revisions are files that begin with their number."""
    return max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def _is_outdated(settings: Settings) -> bool:
    return (revision(settings) or "") < newest()


def _migrate_postgres(settings: Settings, url: str) -> None:
    """Upgrade our tables and the engine's own, so that the processes need no right to make any."""
    from app.storage.postgres import driver_url, plain_failures  # noqa: PLC0415 - as above

    outdated = _is_outdated(settings)
    with plain_failures(url):
        if outdated:
            _upgrade(driver_url(url))
        from dbos import DBOS  # noqa: PLC0415 - slow to import, and only this needs it

        DBOS.migrate(url, schema=ENGINE_SCHEMA)


def _upgrade(url: str) -> None:
    from alembic import command  # noqa: PLC0415 - Alembic is slow to import, and only this needs it
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    command.upgrade(config, "head")
