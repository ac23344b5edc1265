"""One process owns PARLEY_DATA and the SQLite file: a lock that ends with the process, however it ends."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from agent_core import ConfigError
from app.settings import SERVER_FILE, SQLITE, Settings

LOCK_FILE = "lock"
# A command that looks whether somebody owns the folder holds the lock for a moment: an owner tries again.
TRIES = 3
PAUSE = 0.02


@contextmanager
def owned(settings: Settings) -> Iterator[None]:
    """Hold the lock while the block runs; raise ConfigError at once when another process has it.

    A note of where a server is, left by one that was killed, is removed: nobody else's word counts here any more.
    """
    paths = {settings.data / LOCK_FILE, settings.database.with_name(f"{settings.database.name}.{LOCK_FILE}")}
    with ExitStack() as stack:
        for path in sorted(paths):
            stack.enter_context(_locked(path, settings))
        (settings.data / SERVER_FILE).unlink(missing_ok=True)
        yield


def is_owned(settings: Settings) -> bool:
    """Tell whether a process holds the lock of PARLEY_DATA; nothing is made, nobody waits."""
    try:
        with (settings.data / LOCK_FILE).open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


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
        if not _taken(file):
            raise ConfigError(
                f"PARLEY_DATA: `{settings.data}` (DATABASE_URL {SQLITE}{settings.database}) belongs to a process that "
                "runs; stop that one, or name another folder."
            )
        yield


def _taken(file: TextIO) -> bool:
    """Take the lock, and tell whether it is ours now."""
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(PAUSE)
        else:
            return True
    return False
