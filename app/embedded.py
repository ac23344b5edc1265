"""A core in a process that serves nothing: `parley chat` without a server, and programs of others."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from agent_core import Core, SystemClock
from app.compose import running_core
from app.models import running_models
from app.settings import Settings
from app.storage.at_rest import private_files
from app.storage.lock import owned
from app.storage.migrate import migrate


@asynccontextmanager
async def own_core(settings: Settings) -> AsyncIterator[Core]:
    """Give a core of this process: on SQLite the only one, on Postgres one of many; raise ConfigError."""
    with _alone(settings):
        async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
            yield core


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """On SQLite own the database and bring it up to date; a Postgres is migrated when it is deployed to."""
    if settings.postgres is not None:
        yield
        return
    migrate(settings)
    with private_files(), owned(settings):
        yield
