"""The Python files of a folder, loaded by their path as modules that no other code can import or shadow."""

import ast
import hashlib
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import structlog

from agent_core.tools.functions import FunctionTool
from app.own_tools.problems import ToolProblem, is_ctrl_c, problem_of

SUFFIX = ".py"
MAX_BYTES = 1_000_000
"""Of a file: more than that is data, which does not belong into code."""
MAX_FILES = 500
SLOW = 10.0
"""Seconds that a file may load without a word: importing a large library takes two or three."""
PREFIX = "parley_tools_"
OwnTool = FunctionTool[..., Any]
_log = structlog.get_logger("parley.tools")


@dataclass(frozen=True, slots=True)
class FolderSources:
    """The contents of a folder's Python files by their names without suffix, and what could not be read.

    *fault* is why the folder itself could not be read; *unread* are the folders in it that hold Python files.
    """

    folder: Path
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    problems: Mapping[str, ToolProblem] = field(default_factory=dict[str, ToolProblem])
    fault: ToolProblem | None = None
    unread: tuple[Path, ...] = ()

    @property
    def digest(self) -> str:
        """The name of these contents: other contents have another one."""
        digest = hashlib.sha256(str(self.folder.absolute()).encode("utf-8", "surrogateescape"))
        for stem, content in sorted(self.files.items()):
            digest.update(hashlib.sha256(stem.encode("utf-8", "surrogateescape")).digest())
            digest.update(hashlib.sha256(content).digest())
        return digest.hexdigest()[:16]

    def shown(self, stem: str) -> str:
        """Return how messages name a file."""
        return str(self.folder / f"{stem}{SUFFIX}")


def read_folder(folder: Path) -> FolderSources:
    """Read the Python files of *folder*, links to files too; hidden files do not count."""
    files, problems = dict[str, bytes](), dict[str, ToolProblem]()
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        return FolderSources(folder, fault=_fault(folder, error))
    paths = [path for path in inside if path.suffix == SUFFIX and _counts(path.stem)]
    if len(paths) > MAX_FILES:
        text = f"{len(paths):,} Python files are more than {MAX_FILES}; name a folder that holds tools alone."
        return FolderSources(folder, fault=ToolProblem(str(folder), text))
    for path in paths:
        content = _read(path)
        if isinstance(content, bytes):
            files[path.stem] = content
        else:
            problems[path.stem] = ToolProblem(str(path), content)
    unread = tuple(path for path in inside if path.suffix != SUFFIX and holds_python(path))
    return FolderSources(folder, files, problems, unread=unread)


def holds_python(path: Path) -> bool:
    """Return whether *path* is a folder with Python files in it; hidden ones and those of caches do not count."""
    if path.name.startswith(".") or path.name == "__pycache__":
        return False
    try:
        return path.is_dir() and any(each.suffix == SUFFIX for each in path.iterdir())
    except OSError:  # not ours to read, and not looked into anyway
        return False


def _fault(folder: Path, error: OSError) -> ToolProblem:
    if isinstance(error, FileNotFoundError):
        return ToolProblem(str(folder), "there is no such folder; make it again.")
    return ToolProblem(str(folder), f"cannot be read ({error.strerror}); PARLEY_TOOLS names a folder.")


def _counts(stem: str) -> bool:
    """Return whether a file is one of ours: editors and archives leave hidden ones, `__init__` makes no tools."""
    return not stem.startswith(".") and stem != "__init__"


def _read(path: Path) -> bytes | str:
    """Return the content of a file, or why it cannot be loaded."""
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            return "is a folder; rename it, or move its files out."
        if not stat.S_ISREG(info.st_mode):
            return "is no regular file; remove it."
        if info.st_size > MAX_BYTES:
            return f"is larger than {MAX_BYTES:,} bytes; keep data in a file of its own and read it in the tool."
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except FileNotFoundError:
        return "is a link to a file that is not there; correct it."
    except OSError as error:
        return f"cannot be read ({error.strerror}); correct its permissions."


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file as it was loaded, by load number *load* as a module of *package*, and the *tools* that it holds.

    *imports* are the names that it imports from beside it, *beside* those of them that files had.
    """

    load: int
    package: str
    content: bytes
    imports: frozenset[str]
    beside: frozenset[str]
    module: ModuleType
    tools: tuple[OwnTool, ...]


class FolderLoad:
    """Load number *load* of a folder: *files* are those that could be loaded, *problems* are of the others.

    The files are the modules of one private package, in which `from .other import name` finds the file beside. Of those
    loaded *before* the ones that have not changed, nor anything that they import, are taken as they are.
    """

    def __init__(self, sources: FolderSources, before: Mapping[str, LoadedFile], load: int) -> None:
        """Load the files of *sources*; runs their code."""
        self._sources, self._number = sources, load
        self.package = f"{PREFIX}{sources.digest}_{load}"
        self.files: dict[str, LoadedFile] = {}
        self.problems: dict[str, ToolProblem] = dict(sources.problems)
        self._begun: set[str] = set()
        self._parent = _module(self.package, sources.folder, is_package=True)
        sys.modules[self.package] = self._parent
        for stem, file in _unchanged(sources, before).items():
            self._begun.add(stem)
            name, module = f"{self.package}.{stem}", file.module
            sys.modules[name] = module
            self._keep(stem, file)
        for stem in sources.files:
            self._load(stem)

    def _load(self, stem: str) -> None:
        """Load a file after those that it imports; a circle of imports is left to fail as Python does."""
        if stem in self._begun or stem not in self._sources.files:
            return
        self._begun.add(stem)
        path = self._sources.folder.absolute() / f"{stem}{SUFFIX}"
        name, content = f"{self.package}.{stem}", self._sources.files[stem]
        module, stems = _module(name, path), self._sources.files.keys() | self._sources.problems.keys()
        try:
            tree = ast.parse(content, str(path))
            imported = dict(_imported(tree))
            for other, line in imported.items():
                self._load(other)
                if other in self.problems:
                    text = f"it imports `{other}{SUFFIX}`, which cannot be loaded; correct that file."
                    self.problems[stem] = ToolProblem(f"{self._sources.shown(stem)}:{line}", text)
                    return
            code = compile(tree, str(path), "exec", dont_inherit=True)
            sys.modules[name] = module
            with _watched(path):
                exec(code, module.__dict__)  # noqa: S102 - the operator's own code, which is what they asked for
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            sys.modules.pop(name, None)
            beside = self._sources.files.keys()
            self.problems[stem] = problem_of(error, path, self._sources.shown(stem), beside, self.package)
            return
        tools, names = () if stem.startswith("_") else tools_in(module), frozenset(imported)
        self._keep(stem, LoadedFile(self._number, self.package, content, names, names & stems, module, tools))

    def _keep(self, stem: str, file: LoadedFile) -> None:
        setattr(self._parent, stem, file.module)
        self.files[stem] = file


@contextmanager
def _watched(path: Path) -> Iterator[None]:
    """Log which file is being loaded when that takes long: one that hangs holds up the start, and code has no end."""
    remedy = "it holds up the start: what asks others or waits belongs into a tool's function, not beside it"
    timer = threading.Timer(SLOW, lambda: _log.warning("tools.still_loading", file=str(path), remedy=remedy))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _unchanged(sources: FolderSources, before: Mapping[str, LoadedFile]) -> dict[str, LoadedFile]:
    """Return the files that are as they were *before*, and so is all that they import, the latest load of it."""
    stems = sources.files.keys() | sources.problems.keys()
    same = {
        stem: before[stem]
        for stem, content in sources.files.items()
        if stem in before and before[stem].content == content and before[stem].beside == before[stem].imports & stems
    }
    while stale := [
        stem
        for stem, file in same.items()
        if any(name not in same or same[name].load > file.load for name in file.beside)
    ]:
        for stem in stale:
            del same[stem]
    return same


def forget(package: str) -> None:
    """Remove *package* and its modules from those of the process."""
    for name in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
        sys.modules.pop(name, None)


def tools_in(module: ModuleType) -> tuple[OwnTool, ...]:
    """Return the tools that *module* holds, each once."""
    tools = {id(value): value for value in vars(module).values() if isinstance(value, FunctionTool)}
    return tuple(tools.values())


def _module(name: str, path: Path, *, is_package: bool = False) -> ModuleType:
    spec = ModuleSpec(name, None, origin=str(path), is_package=is_package)
    module = module_from_spec(spec)
    module.__file__ = str(path)
    if is_package:
        module.__path__ = []  # nothing is looked up beyond what is loaded here
    return module


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Give the names that a module imports as `from .name import …` or `from . import name`, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names = [node.module.partition(".")[0]] if node.module else [each.name for each in node.names]
            yield from ((name, node.lineno) for name in names)
