"""Make a project: the files of `templates`, rendered, in a new folder that is whole or not there, or in one that is."""

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

from agent_core.errors import ConfigError

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
README, BESIDE_README = "README.md", "PARLEY.md"
"""The text that leads on, and its name in a folder that has a README of its own."""
IGNORED = ".gitignore"
NAMED = 5
"""How many of the files that are in the way a message names."""
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SAMPLE_LINE = "Its tools read the sample shop in `sample/`."
_PLAIN_LINE = "Its tools read a few orders that are written in `tools/orders.py`."


@dataclass(frozen=True, slots=True)
class Project:
    """A project that was made: its *folder*, whether that is the current one, and the text there that leads on."""

    folder: Path
    is_here: bool
    readme: str = README

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands to go on with."""
        enter = () if self.is_here else (f"cd {self.folder}",)
        return (*enter, "parley dev", "python web/server.py    # in a second terminal")


def create(name: str, *, sample: bool, parent: Path, version: str) -> Project:
    """Make the project *name* in *parent*, or in *parent* itself when the name is `.`; raise ConfigError.

    A folder that is there keeps what it holds; its README stays, and its .gitignore has more lines afterwards. A file
    that would be overwritten is refused. Nothing is left of a project that could not be made.
    """
    folder = parent if name == HERE else parent / _checked(name)
    title = folder.resolve().name if name == HERE else name
    if os.path.lexists(folder) and not folder.is_dir():
        raise ConfigError(f"`{name}` is a file; choose another name, or move it away.")
    readme = BESIDE_README if os.path.lexists(folder / README) else README
    try:
        with _beside(folder) as fresh:
            _write(fresh, _places(title, version, sample=sample), "sample" if sample else "plain")
            (fresh / README).rename(fresh / readme)
            _check_free(fresh, folder, name)
            if sample:
                _make_sample(fresh)
            _move(fresh, folder)
    except OSError as error:
        raise ConfigError(f"`{name}` cannot be made ({error.strerror}); choose another folder.") from None
    return Project(Path(name), name == HERE, readme)


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"`{name[:100]}` is no name for a project; use letters, digits, `-`, `_` and `.`, the first a letter or a "
            "digit, 64 at most, or `.` for the current folder."
        )
    return name


def _check_free(fresh: Path, folder: Path, name: str) -> None:
    """Raise ConfigError when a file of *fresh* would overwrite one of *folder*, or a file is where a folder must be."""
    taken = [path for path in _files(fresh) if path != Path(IGNORED) and _is_taken(folder, path)]
    if taken:
        shown = ", ".join(f"`{path.as_posix()}`" for path in taken[:NAMED])
        more = f" and {len(taken) - NAMED} more" if len(taken) > NAMED else ""
        raise ConfigError(f"`{name}` already has {shown}{more}; move what is there away, or choose another name.")


def _is_taken(folder: Path, path: Path) -> bool:
    parents = [folder / each for each in path.parents if each != Path()]
    return os.path.lexists(folder / path) or any(os.path.lexists(each) and not each.is_dir() for each in parents)


def _files(folder: Path) -> list[Path]:
    """Return the paths of all files in *folder*, relative to it, sorted."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


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
    for each in sorted(source.iterdir(), key=lambda entry: entry.name):
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
        for path in _files(fresh):
            target = folder / path
            for parent in reversed([each for each in target.parents if not each.exists()]):
                parent.mkdir()
                undo.callback(parent.rmdir)
            if path == Path(IGNORED) and target.exists():
                before = target.read_text(encoding="utf-8")
                undo.callback(target.write_text, before, encoding="utf-8")
                target.write_text(_joined(before, (fresh / path).read_text(encoding="utf-8")), encoding="utf-8")
            else:
                moved = (fresh / path).rename(target)
                undo.callback(moved.rename, fresh / path)
        undo.pop_all()


def _joined(before: str, ours: str) -> str:
    """Return the text of a .gitignore with the lines of *ours* after it that it has not."""
    existing = {line.strip() for line in before.splitlines()}
    more = [line for line in ours.splitlines() if line.strip() and not line.startswith("#") and line not in existing]
    return "\n".join([before.rstrip("\n"), "", "# Parley", *more, ""]).lstrip("\n") if more else before
