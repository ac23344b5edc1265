"""Watching: which files of a project have changed since they were loaded."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from watchfiles import awatch

LOOK_MS = 1_000
"""Milliseconds after which files are looked at without a notification: some file systems send none."""
SKIPPED = frozenset({"__pycache__", ".venv", "node_modules", ".git"})


class Mark(NamedTuple):
    """What changes with a file's content."""

    inode: int
    size: int
    changed_ns: int


Marks = Mapping[Path, Mark]


@dataclass(frozen=True, slots=True)
class Watched:
    """Files below *folders*, those with one of *suffixes*, and single *files*; none of them has to exist."""

    folders: Sequence[Path]
    suffixes: frozenset[str]
    files: Sequence[Path] = ()

    def marks(self) -> Marks:
        """Return the mark of each file that is there now."""
        marks: dict[Path, Mark] = {}
        for path in (*self._in_folders(), *self.files):
            try:
                stat = path.stat()
            except OSError:  # gone, or not to be read: its loader says so
                continue
            marks[path] = Mark(stat.st_ino, stat.st_size, stat.st_mtime_ns)
        return marks

    async def changes(self, seen: Marks) -> AsyncGenerator[Sequence[Path]]:
        """Yield the paths that have changed, come or gone since *seen*, then those since the last ones, for ever."""
        while True:
            places = self._places()
            watch = awatch(*places, recursive=False, rust_timeout=LOOK_MS, yield_on_timeout=True)
            # A place may go just before it is watched: then the others are.
            with suppress(FileNotFoundError):
                async with aclosing(watch):
                    async for _ in watch:
                        now = self.marks()
                        if changed := sorted(path for path in {*seen, *now} if seen.get(path) != now.get(path)):
                            seen = now
                            yield changed
                        if self._places() != places:
                            break

    def _in_folders(self) -> Iterable[Path]:
        for folder in self._open_folders():
            yield from (path for path in _in(folder) if path.suffix in self.suffixes and path.is_file())

    def _open_folders(self) -> list[Path]:
        """Return the folders that are there, and those in them, each once: links may lead to one again."""
        folders: dict[Path, Path] = {}
        open_ = [folder for folder in self.folders if folder.is_dir()]
        while open_:
            folder = open_.pop(0)
            if folders.setdefault(folder.resolve(), folder) is folder:
                open_ += [each for each in _in(folder) if each.is_dir() and each.name not in SKIPPED]
        return list(folders.values())

    def _places(self) -> list[Path]:
        """Return the folders in which something may change, also by the making of one that is not there yet."""
        above = {path.absolute().parent for path in (*self.folders, *self.files)}
        return sorted({*(path.absolute() for path in self._open_folders()), *(path for path in above if path.is_dir())})


def _in(folder: Path) -> list[Path]:
    """Return what is in *folder*; nothing is in one that has gone, or that may not be read: its loader says so."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
