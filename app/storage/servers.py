"""The MCP servers that a database has, for checks outside of a server."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError

from agent_core import ConfigError
from agent_core.store import servers
from agent_core.store.servers import StoredServer
from app.settings import Settings

T = TypeVar("T")


def stored_servers(settings: Settings) -> tuple[Sequence[StoredServer], Collection[str]]:
    """Return the stored servers, and the names of the secrets; none of a database that is missing or older."""
    return query(settings, _read) or ((), ())


def stored_secrets(settings: Settings) -> Collection[str] | None:
    """Return the names of the stored secrets; None of a database that is missing or older."""
    return query(settings, servers.secret_names)


def query(settings: Settings, work: Callable[[Connection], T]) -> T | None:
    """Return what *work* finds; None in a database that is missing, older, or cannot be read."""
    try:
        if settings.postgres is not None:
            from app.storage.postgres import connected  # noqa: PLC0415 - the driver takes its time

            with connected(settings.postgres) as connection:
                return work(connection)
        if not settings.database.exists():
            return None
        engine = create_engine(f"sqlite:///{settings.database}")
        try:
            with engine.connect() as connection:
                return work(connection)
        finally:
            engine.dispose()
    except (ConfigError, SQLAlchemyError):  # what is wrong with it is a finding of its own
        return None


def _read(connection: Connection) -> tuple[Sequence[StoredServer], Collection[str]]:
    return servers.everything(connection), servers.secret_names(connection)
