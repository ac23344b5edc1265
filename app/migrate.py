"""Bring the database to the newest revision, and tell whether it is there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import migrations
from agent_core import ConfigError
from app.keys import prepare_data
from app.lock import owned
from app.settings import SQLITE, Settings

FOLDER = Path(migrations.__file__).parent


def migrate(settings: Settings) -> None:
    """Upgrade the database that *settings* name; do nothing when it is up to date."""
    prepare_data(settings)
    if settings.database.exists() and revision(settings) == newest():
        return
    with owned(settings):
        from alembic import command  # noqa: PLC0415 - Alembic is slow to import, and only this needs it
        from alembic.config import Config  # noqa: PLC0415 - as above

        config = Config()
        config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
        config.set_main_option("sqlalchemy.url", f"{SQLITE}{settings.database}".replace("%", "%%"))
        command.upgrade(config, "head")


def check_migrated(settings: Settings) -> None:
    """Raise ConfigError unless the database is there and of the newest revision."""
    if not settings.database.exists():
        raise ConfigError(f"DATABASE_URL: there is no database at `{settings.database}`; run `parley migrate`.")
    found = revision(settings) or "none"
    if found != newest():
        raise ConfigError(
            f"DATABASE_URL: `{settings.database}` is at revision {found}, not {newest()}; run `parley migrate`."
        )


def revision(settings: Settings) -> str | None:
    """Return the database's revision, None for an empty one; raise ConfigError for what is no database."""
    try:
        with closing(sqlite3.connect(settings.database)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if known else None
    except sqlite3.Error as error:
        raise ConfigError(
            f"DATABASE_URL: `{settings.database}` cannot be used ({error}); name an SQLite file that can."
        ) from None
    return row[0] if row else None


def newest() -> str:
    """Return the newest revision: revisions are files that begin with their number."""
    return max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))
