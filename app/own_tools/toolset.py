"""Own tools as one toolset that can be refreshed while the process runs."""

import asyncio
import inspect
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from agent_core import ConfigError
from agent_core.agents import RENDER_TOOLS
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from agent_core.tools.functions import in_thread
from agent_core.tools.toolset import Scope
from app.own_tools.folder import FolderLoad, FolderSources, LoadedFile, OwnTool, forget, read_folder
from app.own_tools.packages import GROUP, PackagedTools, load_packages
from app.own_tools.problems import ToolProblem
from app.settings import Settings

_log = structlog.get_logger("parley.tools")


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
            name, place = one.spec.name, _place(one, shown)
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


def _place(tool: OwnTool, shown: str) -> str:
    """Return *shown*, with the line if the function is from that file."""
    code = getattr(inspect.unwrap(tool.function), "__code__", None)
    if code is None or Path(code.co_filename).name != Path(shown).name:
        return shown
    return f"{shown}:{code.co_firstlineno}"
