"""Tools of one's own: the Python files of PARLEY_TOOLS and installed packages, loaded again when they change."""

import ast
import asyncio
import hashlib
import inspect
import os
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import structlog

from agent_core.agents import RENDER_TOOLS, ROUTER_TOOLS, ToolDefinition
from agent_core.clock import SystemClock
from agent_core.errors import ConfigError, InvalidInput, NotFound
from agent_core.messages import shorten
from agent_core.net.fetch import Fetch
from agent_core.runtime.agent_checks import check_definition
from agent_core.servers import PREFIX as SERVERS_PREFIX
from agent_core.tools.base import Tool, UnfitFunction
from agent_core.tools.builtin import BUILTIN
from agent_core.tools.functions import FunctionTool, in_thread
from agent_core.tools.http import HttpKind
from agent_core.tools.toolset import KindFactory, McpConfig, PythonConfig, Scope, Wrapping
from agent_core.traces import words_of
from app.settings import Settings

_SHOWN = 300
"""Characters of an error's text: it may quote whole files."""


@dataclass(frozen=True, slots=True)
class ToolProblem:
    """*place* is a file with its line, or a package; *text* says what is wrong there and what to do."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def problem_of(error: BaseException, path: Path, shown: str, beside: Collection[str], package: str) -> ToolProblem:
    """Return what *error*, raised when the file at *path* was loaded, says about it.

    *shown* names the file, *beside* are the files of its folder without their suffix, *package* is their private name.
    """
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return ToolProblem(f"{shown}:{error.lineno or 1}", f"this is not Python: {error.msg}; correct it.")
    line = next(
        (each.lineno for each in reversed(traceback.extract_tb(error.__traceback__)) if each.filename == str(path)),
        None,
    )
    place = f"{shown}:{line}" if line else shown
    if isinstance(error, ModuleNotFoundError) and error.name and (text := _out_of_place(error.name, path, package)):
        return ToolProblem(place, text)
    return ToolProblem(place, explanation(error, beside, package))


def _out_of_place(name: str, path: Path, package: str) -> str | None:
    """Return what to do where the module *name* is the project's own, and not among the files beside *path*."""
    top = name.removeprefix(f"{package}.").partition(".")[0]
    remedy = f"make it the file `_{top.lstrip('_')}.py` beside this one, and write `from ._{top.lstrip('_')} import …`."
    if _is_code(path.parent / top):
        return f"`{path.parent.name}/{top}` is a folder, and those are not looked into; {remedy}"
    roots = () if name.startswith(f"{package}.") else (path.parent.parent, Path.cwd())
    if any((root / f"{top}.py").is_file() or _is_code(root / top) for root in roots):
        return f"`{top}` is not in the folder of the tools, which have no other modules of the project; {remedy}"
    return None


def _is_code(folder: Path) -> bool:
    return any(folder.glob("*.py"))


def explanation(error: BaseException, beside: Collection[str] = (), package: str = "") -> str:
    """Return what *error* says, and what to do."""
    match error:
        case UnfitFunction():
            return str(error)
        case ModuleNotFoundError(name=str(name)) if package and name.startswith(f"{package}."):
            return f"there is no file `{name.removeprefix(f'{package}.')}.py` beside this one; correct the import."
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] in beside:
            return f"there is no module `{name}`; for the file beside this one write `from .{name} import …`."
        case ModuleNotFoundError(name=str(name)):
            return f"there is no module `{name}`; install its package where Parley is installed."
        case SystemExit():
            return "it ends the process when it is loaded (`sys.exit`); leave that to what is run as a program."
        case _:
            return f"{_short(words_of(error))}; correct what the file does when it is loaded."


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether *error* may be of a person who ends the process: only its main thread gets those."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), _SHOWN)


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


GROUP = "parley.tools"


@dataclass(frozen=True, slots=True)
class PackagedTools:
    """The tools of one entry point, named *place* in messages."""

    place: str
    tools: tuple[OwnTool, ...]


def load_packages() -> tuple[list[PackagedTools], list[ToolProblem]]:
    """Load every entry point of the group: a tool, a list of tools, or a module that holds some."""
    loaded, problems = list[PackagedTools](), list[ToolProblem]()
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        place = _place(point)
        try:
            value: object = point.load()
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            problems.append(ToolProblem(place, explanation(error)))
            continue
        tools = _tools_of(value)
        if tools:
            loaded.append(PackagedTools(place, tools))
        else:
            text = f"`{point.value}` is no tool, no list of tools and no module that holds some; see `parley.tool`."
            problems.append(ToolProblem(place, text))
    return loaded, problems


def _tools_of(value: object) -> tuple[OwnTool, ...]:
    if isinstance(value, FunctionTool):
        return (cast("OwnTool", value),)
    if isinstance(value, ModuleType):
        return tools_in(value)
    if isinstance(value, list | tuple) and all(isinstance(each, FunctionTool) for each in value):
        return tuple(cast("list[OwnTool]", value))
    return ()


def _place(point: EntryPoint) -> str:
    package = f" of `{point.dist.name}`" if point.dist is not None else ""
    return f"entry point `{point.name}`{package}"


@dataclass(frozen=True, slots=True)
class Taken:
    """What the last refresh took up: *places* say where each of the *tools* is defined.

    *digest* names the folder's contents. *files* are those whose tools serve, *loaded* the latest load of each file
    that was ever there: one that comes back as it was is not loaded again.
    """

    digest: str = ""
    files: Mapping[str, LoadedFile] = field(default_factory=dict[str, LoadedFile])
    loaded: Mapping[str, LoadedFile] = field(default_factory=dict[str, LoadedFile])
    tools: Mapping[str, OwnTool] = field(default_factory=dict[str, OwnTool])
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[ToolProblem, ...] = ()
    unread: tuple[Path, ...] = ()


class OwnTools:
    """The tools of the Python files in a folder and of installed packages; empty until the first `refresh`."""

    def __init__(self, folder: Path, *, reserved: Collection[str], required: bool = False) -> None:
        """*folder* must exist if it is *required*; the names *reserved* are those of tools that ship."""
        self.folder, self._reserved, self._required = folder, frozenset(reserved), required
        self._packages: tuple[list[PackagedTools], list[ToolProblem]] | None = None
        self._taken, self._one, self._loads = Taken(), asyncio.Lock(), 0
        self._opened: list[str] = []

    @classmethod
    def of(cls, settings: Settings) -> "OwnTools":
        """Return the tools of the folder that *settings* name, and of packages, before they are loaded."""
        return cls(settings.tools, reserved=shipped_names(), required="tools" in settings.model_fields_set)

    async def tools(self, _scope: Scope, /) -> Mapping[str, Tool]:
        return self._taken.tools

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        """What could not be taken up at the last refresh; a broken file still gives the tools that it gave before."""
        return self._taken.problems

    @property
    def loaded(self) -> Mapping[str, Tool]:
        """The tools of the last refresh, by their names."""
        return self._taken.tools

    @property
    def places(self) -> Mapping[str, str]:
        """Where each tool is defined, by its name."""
        return self._taken.places

    @property
    def files(self) -> Mapping[str, int]:
        """How many tools each file gives, by its name without suffix."""
        return {stem: len(file.tools) for stem, file in self._taken.files.items()}

    @property
    def unread(self) -> tuple[str, ...]:
        """The folders in the folder that hold Python files, which are not loaded."""
        return tuple(map(str, self._taken.unread))

    @property
    def looked_for(self) -> str:
        """The sentence that says where tools are looked for."""
        folder = self.folder.absolute()
        missing = "" if folder.is_dir() else ", which is not there"
        return f"Tools are looked for in `{folder}` (PARLEY_TOOLS{missing}) and in packages (entry points `{GROUP}`)."

    async def refresh(self) -> bool:
        """Take up what has changed in the folder, and return whether anything had.

        Files are loaded in a thread: those that have changed, and those that import them. One that cannot be loaded is
        among `problems` afterwards, and so is a folder that cannot be read. Calls at work keep the functions they have.
        """
        async with self._one:
            before = self._taken
            changed = bool(await in_thread(self.load))
        for path in self._taken.unread:
            if path not in before.unread:
                _log.warning("tools.folder_not_loaded", folder=str(path), remedy=UNREAD_REMEDY)
        return changed

    def check(self) -> None:
        """Raise ConfigError with the first problem, if there is one."""
        if self.problems:
            first, *more = self.problems
            rest = f" ({len(more)} more: `parley doctor` lists them.)" if more else ""
            raise ConfigError(f"{first}{rest}")

    def load(self) -> bool:
        """Do as `refresh`, in this thread."""
        sources, before = read_folder(self.folder), self._taken
        if sources.digest == before.digest and not (before.problems or sources.problems or sources.fault):
            self._taken = replace(before, unread=sources.unread)
            return self._taken != before
        if self._packages is None:  # what is installed stays as it is while the process runs
            self._packages = load_packages()
        packaged, broken = self._packages
        files, loaded, faults = self._loaded(sources)
        tools, places, conflicts = self._named(sources, files, packaged)
        problems = (*faults, *conflicts, *broken)
        self._taken = Taken(sources.digest, files, loaded, tools, places, problems, sources.unread)
        return self._taken != before

    def _loaded(
        self, sources: FolderSources
    ) -> tuple[Mapping[str, LoadedFile], Mapping[str, LoadedFile], list[ToolProblem]]:
        """Return the files that serve, the latest loads, and what is wrong with the folder and its files."""
        before = self._taken
        if sources.fault is not None:  # as with a broken file: what was there goes on serving
            return before.files, before.loaded, list(self._at_fault(sources.fault))
        self._loads += 1
        load = FolderLoad(sources, before.loaded, self._loads)
        self._opened.append(load.package)
        previous = {stem: before.files[stem] for stem in load.problems if stem in before.files}
        files, loaded = dict(sorted({**previous, **load.files}.items())), {**before.loaded, **load.files}
        self._close({file.package for file in (*files.values(), *loaded.values())})
        return files, loaded, list(load.problems.values())

    def _close(self, used: Collection[str]) -> None:
        """Forget the packages that are not *used*, but the last two: calls at work may still import from those."""
        for package in self._opened[:-2]:
            if package not in used:
                self._opened.remove(package)
                forget(package)

    def _at_fault(self, fault: ToolProblem) -> Iterator[ToolProblem]:
        """Give what is wrong with the folder; nothing is where one that no setting names was never there."""
        if os.path.lexists(self.folder) or self._taken.files:
            yield fault
        elif self._required:
            yield ToolProblem("PARLEY_TOOLS", f"there is no folder `{self.folder}`; make it, or leave it unset.")

    def _named(
        self, sources: FolderSources, files: Mapping[str, LoadedFile], packaged: list[PackagedTools]
    ) -> tuple[dict[str, OwnTool], dict[str, str], list[ToolProblem]]:
        """Return the tools by name with their places; the first one keeps a name, others of that name are problems."""
        tools, places, conflicts = dict[str, OwnTool](), dict[str, str](), list[ToolProblem]()
        served = [(sources.shown(stem), file.package, each) for stem, file in files.items() for each in file.tools]
        served += [(each.place, "", one) for each in packaged for one in each.tools]
        packages = dict[str, str]()
        for shown, package, one in served:
            name, place = one.spec.name, _toolset_place(one, shown)
            first = tools.get(name)
            if name in self._reserved:
                conflicts.append(ToolProblem(place, f"the tool `{name}` ships with Parley; {_RENAME}"))
            elif first is None:
                tools[name], places[name], packages[name] = one, place, package
            elif first is not one and not (packages[name] != package and _origin(first) == _origin(one)):
                conflicts.append(ToolProblem(place, f"the tool `{name}` is defined at {places[name]} too; {_RENAME}"))
        return tools, places, conflicts


def shipped_names() -> frozenset[str]:
    """Return the names of the tools that ship."""
    return frozenset({*(tool.spec.name for tool in BUILTIN), *RENDER_TOOLS})


UNREAD_REMEDY = "put its files beside the other tools, with a `_` before the names of those that only help"
_RENAME = "give it another name, `@tool(name=…)`."


def _origin(tool: OwnTool) -> tuple[str, str]:
    function = inspect.unwrap(tool.function)
    code = getattr(function, "__code__", None)
    return getattr(code, "co_filename", ""), getattr(function, "__qualname__", "")


def _toolset_place(tool: OwnTool, shown: str) -> str:
    """Return *shown*, with the line if the function is from that file."""
    code = getattr(inspect.unwrap(tool.function), "__code__", None)
    if code is None or Path(code.co_filename).name != Path(shown).name:
        return shown
    return f"{shown}:{code.co_firstlineno}"


class OfflineKinds:
    """Checks definitions; *check_url* raises `FetchRefused` for an address that is not asked, see `TargetGuard`."""

    def __init__(self, check_url: Callable[[str], None]) -> None:
        http = HttpKind(Fetch(), _no_secrets, SystemClock(), check_url)
        self._kinds: dict[str, KindFactory] = {
            "http": http,
            "python": Wrapping(PythonConfig),
            "mcp": Wrapping(McpConfig),
        }

    def check(self, definition: ToolDefinition, tools: Mapping[str, Tool]) -> None:
        """Raise `InvalidInput` for what a server with *tools* would refuse; MCP servers may have more."""
        try:
            check_definition(definition, self._kinds[definition.kind], tools)
        except InvalidInput as error:
            is_served = str(definition.config.get("tool")).startswith(SERVERS_PREFIX)
            if not (error.path == "config.tool" and is_served):
                raise


def taken_names() -> frozenset[str]:
    """Return the names that no definition can have: those of the tools that ship, and of the router's."""
    return shipped_names() | frozenset(ROUTER_TOOLS)


async def _no_secrets(names: Collection[str]) -> Mapping[str, str]:
    raise NotFound("secret", ", ".join(names))
