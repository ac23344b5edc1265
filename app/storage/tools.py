"""The names of the tools that a database defines, for checks outside of a server."""

import sqlite3
from collections.abc import Collection
from contextlib import closing

from agent_core import ConfigError
from app.settings import Settings

_QUERY = "SELECT name FROM tool"


def stored_tools(settings: Settings) -> Collection[str]:
    """Return the names of the defined tools; none of a database that is missing, older, or cannot be read."""
    try:
        if settings.postgres is not None:
            from sqlalchemy import text  # noqa: PLC0415 - as below
            from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - as below

            from app.storage.postgres import connected  # noqa: PLC0415 - the driver takes its time

            try:
                with connected(settings.postgres) as connection:
                    return set(connection.execute(text(_QUERY)).scalars())
            except SQLAlchemyError:  # what is wrong with it is a finding of its own
                return ()
        if not settings.database.exists():
            return ()
        with closing(sqlite3.connect(settings.database)) as connection:
            return {row[0] for row in connection.execute(_QUERY)}
    except (ConfigError, sqlite3.Error):  # as above
        return ()
