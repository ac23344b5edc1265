"""One process owns PARLEY_DATA and the SQLite file: a lock that ends with the process, however it ends."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent_core import ConfigError
from app.settings import SQLITE, Settings

LOCK_FILE = "lock"


@contextmanager
def owned(settings: Settings) -> Iterator[None]:
    """Hold the lock while the block runs; raise ConfigError at once when another process has it."""
    paths = {settings.data / LOCK_FILE, settings.database.with_name(f"{settings.database.name}.{LOCK_FILE}")}
    with ExitStack() as stack:
        for path in sorted(paths):
            stack.enter_context(_locked(path, settings))
        yield


@contextmanager
def _locked(path: Path, settings: Settings) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"DATABASE_URL: `{path.parent}` cannot be written ({error.strerror}); name a place that can."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"PARLEY_DATA: `{settings.data}` (DATABASE_URL {SQLITE}{settings.database}) belongs to a process that "
                "runs; stop that one, or name another folder."
            ) from None
        yield
