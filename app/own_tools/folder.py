"""The Python files of a folder, loaded by their path as modules that no other code can import or shadow."""

import ast
import hashlib
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_core.tools.function import FunctionTool
from app.own_tools.problems import ToolProblem, problem_of

SUFFIX = ".py"
MAX_BYTES = 1_000_000
"""Of a file: more than that is data, which does not belong into code."""
MAX_FILES = 500
PREFIX = "parley_tools_"
OwnTool = FunctionTool[..., Any]


@dataclass(frozen=True, slots=True)
class FolderSources:
    """The contents of a folder's Python files by their names without suffix, and what could not be read."""

    folder: Path
    files: Mapping[str, bytes]
    problems: Mapping[str, ToolProblem]

    @property
    def package(self) -> str:
        """The name of the package that the files are loaded as: other contents have another one."""
        digest = hashlib.sha256(str(self.folder.absolute()).encode("utf-8", "surrogateescape"))
        for stem, content in sorted(self.files.items()):
            digest.update(hashlib.sha256(stem.encode("utf-8", "surrogateescape")).digest())
            digest.update(hashlib.sha256(content).digest())
        return f"{PREFIX}{digest.hexdigest()[:16]}"

    def shown(self, stem: str) -> str:
        """Return how messages name a file."""
        return str(self.folder / f"{stem}{SUFFIX}")


def read_folder(folder: Path) -> FolderSources:
    """Read the Python files of *folder*, links to files too; a missing folder has none. Hidden files do not count."""
    files, problems = dict[str, bytes](), dict[str, ToolProblem]()
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and _counts(path.stem))
    except FileNotFoundError:
        found = []
    except OSError as error:
        text = f"cannot be read ({error.strerror}); PARLEY_TOOLS names a folder."
        return FolderSources(folder, {}, {"": ToolProblem(str(folder), text)})
    if len(found) > MAX_FILES:
        text = f"{len(found):,} Python files are more than {MAX_FILES}; name a folder that holds tools alone."
        return FolderSources(folder, {}, {"": ToolProblem(str(folder), text)})
    for path in found:
        content = _read(path)
        if isinstance(content, bytes):
            files[path.stem] = content
        else:
            problems[path.stem] = ToolProblem(str(path), content)
    return FolderSources(folder, files, problems)


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


class FolderLoad:
    """One load of all files of a folder: *tools* by file, and *problems* by the file that has them.

    The files are the modules of one private package, in which `from .other import name` finds the file beside.
    """

    def __init__(self, sources: FolderSources) -> None:
        """Load every file of *sources*; runs their code."""
        self._sources, self.package = sources, sources.package
        self.tools: dict[str, tuple[OwnTool, ...]] = {}
        self.problems: dict[str, ToolProblem] = dict(sources.problems)
        self._begun: set[str] = set()
        self._parent = _module(self.package, sources.folder, is_package=True)
        sys.modules[self.package] = self._parent
        for stem in sources.files:
            self._load(stem)

    def _load(self, stem: str) -> None:
        """Load a file after those that it imports; a circle of imports is left to fail as Python does."""
        if stem in self._begun or stem not in self._sources.files:
            return
        self._begun.add(stem)
        path = self._sources.folder.absolute() / f"{stem}{SUFFIX}"
        name = f"{self.package}.{stem}"
        module = _module(name, path)
        try:
            tree = ast.parse(self._sources.files[stem], str(path))
            for line, other in _imported(tree, self._sources.files.keys() | self.problems.keys()):
                self._load(other)
                if other in self.problems:
                    text = f"it imports `{other}{SUFFIX}`, which cannot be loaded; correct that file."
                    self.problems[stem] = ToolProblem(f"{self._sources.shown(stem)}:{line}", text)
                    return
            code = compile(tree, str(path), "exec", dont_inherit=True)
            sys.modules[name] = module
            exec(code, module.__dict__)  # noqa: S102 - the operator's own code, which is what they asked for
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a file does is a value here
            sys.modules.pop(name, None)
            beside = self._sources.files.keys()
            self.problems[stem] = problem_of(error, path, self._sources.shown(stem), beside, self.package)
            return
        setattr(self._parent, stem, module)
        self.tools[stem] = () if stem.startswith("_") else found_in(module)


def found_in(module: ModuleType) -> tuple[OwnTool, ...]:
    """Return the tools that *module* holds, each once."""
    found = {id(value): value for value in vars(module).values() if isinstance(value, FunctionTool)}
    return tuple(found.values())


def _module(name: str, path: Path, *, is_package: bool = False) -> ModuleType:
    spec = ModuleSpec(name, None, origin=str(path), is_package=is_package)
    module = module_from_spec(spec)
    module.__file__ = str(path)
    if is_package:
        module.__path__ = []  # nothing is looked up beyond what is loaded here
    return module


def _imported(tree: ast.Module, files: Collection[str]) -> Iterator[tuple[int, str]]:
    """Give those of *files* that a module imports as `from .name import …` or `from . import name`, with the lines."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level != 1:
            continue
        names = [node.module.partition(".")[0]] if node.module else [each.name for each in node.names]
        yield from ((node.lineno, name) for name in names if name in files)
