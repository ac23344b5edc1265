"""What lies on the disk is its owner's alone: folders 0700, files 0600, whatever they were."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from app.settings import Settings

OTHERS = stat.S_IRWXG | stat.S_IRWXO
MAX_ENTRIES = 10_000
"""Entries of the folder that are looked at in one start."""
BESIDE = ("", "-wal", "-shm", "-journal", ".lock")
"""What follows the name of an SQLite file in the names of those that belong to it."""
OURS = ("*.db*", "*.key", "*.sha256", "*.log*", "*.bak*", "*.sqlite*", "lock", "server.json")
_log = structlog.get_logger("parley.data")


@contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders for their owner alone while the block runs."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def secure(settings: Settings) -> None:
    """Take the rights of all others from the folder PARLEY_DATA, what is in it, and the SQLite file.

    What was open to others is logged, and what cannot be changed too. Links are left as they are. In a folder that is
    more than ours, such as the working directory, only what Parley writes is changed.
    """
    for path in dict.fromkeys((*_inside(settings.data), *_database(settings))):
        _narrow(path)


def _inside(data: Path) -> Iterator[Path]:
    if not data.is_dir():
        return
    if _is_shared(data):
        for pattern in OURS:
            yield from (path for path in data.glob(pattern) if path.is_file())
        return
    yield data
    seen = 0
    for folder, folders, files in os.walk(data):  # follows no link
        for name in (*folders, *files):
            seen += 1
            if seen > MAX_ENTRIES:
                _log.warning("data.not_all_checked", folder=str(data), remedy=f"keep at most {MAX_ENTRIES} files in it")
                return
            yield Path(folder, name)


def _is_shared(data: Path) -> bool:
    """Return whether *data* holds more than ours: it is where we work or live, or contains that."""
    place = data.resolve()
    return any(each == place or place in each.parents for each in (Path.cwd(), Path.home()))


def _database(settings: Settings) -> Iterator[Path]:
    if settings.postgres is None:
        name = settings.database
        yield from (path for end in BESIDE if (path := name.with_name(name.name + end)).is_file())


def _narrow(path: Path) -> None:
    try:
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)) or not mode & OTHERS:
            return
        path.chmod(mode & ~OTHERS)
    except FileNotFoundError:
        return  # it was removed just now
    except OSError as error:
        remedy = "make it yours and readable by you alone"
        _log.warning("data.open_to_others", path=str(path), reason=error.strerror, remedy=remedy)
        return
    _log.warning("data.closed_to_others", path=str(path), was=f"{mode:04o}", now=f"{mode & ~OTHERS:04o}")
