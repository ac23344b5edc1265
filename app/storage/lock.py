"""Locks that end with their process, however it ends: which one owns PARLEY_DATA and the SQLite file."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from agent_core import ConfigError
from app.settings import SERVER_FILE, SQLITE, Settings

LOCK_FILE = "lock"
# A command that checks for an owner holds the lock for a moment: an owner retries.
TRIES = 3
PAUSE = 0.02


@contextmanager
def owned(settings: Settings) -> Iterator[None]:
    """Hold the lock while the block runs; raise ConfigError at once when another process has it.

    The address noted by a server that was killed is removed: it is not valid any more.
    """
    paths = {settings.data / LOCK_FILE, settings.database.with_name(f"{settings.database.name}.{LOCK_FILE}")}
    with ExitStack() as stack:
        for path in sorted(paths):
            stack.enter_context(_locked(path, settings))
        (settings.data / SERVER_FILE).unlink(missing_ok=True)
        yield


@contextmanager
def address_place(settings: Settings) -> Iterator[bool]:
    """Give whether PARLEY_DATA may hold this process's address, for the commands of this machine.

    On Postgres any number of processes run, and the folder holds nothing that they need: the first one is known there,
    and none where nothing can be written.
    """
    with ExitStack() as stack:
        first = False
        with suppress(OSError):
            settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = stack.enter_context((settings.data / LOCK_FILE).open("a", encoding="utf-8"))
            first = _taken(file)
        if first:
            (settings.data / SERVER_FILE).unlink(missing_ok=True)
        yield first


def is_owned(settings: Settings) -> bool:
    """Return whether a process holds the lock of PARLEY_DATA: only then is an address noted there valid."""
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
    """Try to take the lock; return whether we hold it."""
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(PAUSE)
        else:
            return True
    return False
