"""The MCP servers that a database has, for checks outside of a server."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError

from agent_core import ConfigError
from agent_core.store.work.tooling import servers
from agent_core.store.work.tooling.servers import StoredServer
from app.settings import Settings


def stored_servers(settings: Settings) -> tuple[Sequence[StoredServer], Collection[str]]:
    """Return the stored servers, and the names of the secrets; none of a database that is missing or older."""
    try:
        if settings.postgres is not None:
            from app.storage.postgres import connected  # noqa: PLC0415 - the driver takes its time

            with connected(settings.postgres) as connection:
                return _read(connection)
        if not settings.database.exists():
            return (), ()
        engine = create_engine(f"sqlite:///{settings.database}")
        try:
            with engine.connect() as connection:
                return _read(connection)
        finally:
            engine.dispose()
    except (ConfigError, SQLAlchemyError):  # what is wrong with it is a finding of its own
        return (), ()


def _read(connection: Connection) -> tuple[Sequence[StoredServer], Collection[str]]:
    return servers.everything(connection), servers.secret_names(connection)
