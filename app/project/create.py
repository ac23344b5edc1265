"""Make a project: the files of `templates`, rendered, in a new folder that is whole or not there."""

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from agent_core import ConfigError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HERE = "."
"""The name that stands for the current folder."""
UNNAMED = "project"
"""The name of a project in a folder whose own name would not be allowed."""
TEMPLATES = files("app.project") / "templates"
SUFFIX = ".tmpl"
"""Ends the names of template files that are not to be taken for code of Parley; `dot_` stands for the first dot."""
SECRET_MODE = 0o600
SECRET_FILES = frozenset({".env"})
KEPT = frozenset({".git", ".venv", "venv", ".idea", ".vscode"})
"""What a folder may hold and still counts as empty: a fresh repository, an environment, settings of an editor."""
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SAMPLE_LINE = "Its tools read the sample shop in `sample/`."
_PLAIN_LINE = "Its tools read a few orders that are written in `tools/orders.py`."


@dataclass(frozen=True, slots=True)
class Project:
    """A project that was made: its *folder*, and whether that is the current one."""

    folder: Path
    is_here: bool

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands to go on with."""
        enter = () if self.is_here else (f"cd {self.folder}",)
        return (*enter, "parley dev", "python web/server.py")


def create(name: str, *, sample: bool, parent: Path, version: str) -> Project:
    """Make the project *name* in *parent*, or in *parent* itself when the name is `.`; raise ConfigError.

    Nothing is left of one that could not be made.
    """
    folder = parent if name == HERE else parent / _checked(name)
    title = folder.resolve().name if name == HERE else name
    _check_free(folder, name)
    try:
        with _beside(folder) as fresh:
            _write(fresh, _places(title, version, sample=sample), "sample" if sample else "plain")
            if sample:
                _make_sample(fresh)
            _move(fresh, folder)
    except OSError as error:
        raise ConfigError(f"`{name}` cannot be made ({error.strerror}); choose another folder.") from None
    return Project(Path(name), name == HERE)


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"`{name[:100]}` is no name for a project; use letters, digits, `-`, `_` and `.`, the first a letter or a "
            "digit, 64 at most, or `.` for the current folder."
        )
    return name


def _check_free(folder: Path, name: str) -> None:
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise ConfigError(f"`{name}` is a file; choose another name, or move it away.")
    if found := sorted(each.name for each in folder.iterdir() if each.name not in KEPT):
        raise ConfigError(f"`{name}` is not empty, as `{found[0]}` is there; choose another name, or an empty folder.")


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Give a new folder on the same disk as *folder*, and remove what is left of it."""
    place = folder if folder.is_dir() else folder.parent
    fresh = place / f".parley-init-{secrets.token_hex(8)}"
    fresh.mkdir()
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _places(title: str, version: str, *, sample: bool) -> Mapping[str, str]:
    """Return what the places in double braces hold; each call makes new secrets."""
    return {
        "name": title if NAME.fullmatch(title) else UNNAMED,
        "slug": re.sub(r"[^a-z0-9_-]", "-", title.lower()).lstrip("-_") or UNNAMED,
        "version": version,
        "sample_line": _SAMPLE_LINE if sample else _PLAIN_LINE,
        "prepare": "RUN python sample/make.py\n" if sample else "",
        "api_key": f"parley_{secrets.token_urlsafe(24)}",
        "secret_key": secrets.token_hex(32),
        "postgres_password": secrets.token_hex(16),
    }


def _write(folder: Path, places: Mapping[str, str], kind: str) -> None:
    """Write the files of the templates `common` and *kind* into *folder*."""
    for root in ("common", kind):
        for source, path in _listed(TEMPLATES / root, Path()):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = _PLACE.sub(lambda place: places[place[1]], source.read_text(encoding="utf-8"))
            mode = SECRET_MODE if target.name in SECRET_FILES else 0o666
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
                file.write(text)


def _listed(source: Traversable, path: Path) -> Iterator[tuple[Traversable, Path]]:
    """Give each file below *source* with its path in a project."""
    for each in sorted(source.iterdir(), key=lambda found: found.name):
        name = each.name.removesuffix(SUFFIX)
        name = f".{name.removeprefix('dot_')}" if name.startswith("dot_") else name
        if each.is_dir():
            yield from _listed(each, path / name)
        else:
            yield each, path / name


def _make_sample(folder: Path) -> None:
    """Run the project's own code that makes the sample shop."""
    command = [sys.executable, "sample/make.py"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if made.returncode:
        why = (made.stderr.strip() or "it gave no reason").splitlines()[-1]
        raise ConfigError(f"The sample shop cannot be made ({why}); make the project without --sample.")


def _move(fresh: Path, folder: Path) -> None:
    """Move a project that is whole to its place; a folder that is there stays the same one, with what it holds."""
    if not folder.exists():
        fresh.rename(folder)
        return
    with ExitStack() as undo:
        for each in sorted(fresh.iterdir()):
            moved = each.rename(folder / each.name)
            undo.callback(moved.rename, each)
        undo.pop_all()
