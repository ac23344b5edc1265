"""Own tools as one toolset that can be refreshed while the process runs."""

import asyncio
import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_core import ConfigError
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from agent_core.tools.thread import in_thread
from agent_core.tools.toolset import Scope
from app.own_tools.folder import FolderLoad, FolderSources, OwnTool, read_folder
from app.own_tools.packages import GROUP, PackagedTools, load_packages
from app.own_tools.problems import ToolProblem
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class ServedFile:
    """The tools that a file gives, and the private package that they were loaded as."""

    package: str
    tools: tuple[OwnTool, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """What the last refresh took up: *places* say where each of the *tools* is defined."""

    package: str = ""
    files: Mapping[str, ServedFile] = field(default_factory=dict[str, ServedFile])
    tools: Mapping[str, OwnTool] = field(default_factory=dict[str, OwnTool])
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[ToolProblem, ...] = ()


class OwnTools:
    """The tools of the Python files in a folder and of installed packages; empty until the first `refresh`."""

    def __init__(self, folder: Path, *, reserved: Collection[str], required: bool = False) -> None:
        """*folder* must exist if it is *required*; the names *reserved* are those of tools that ship."""
        self.folder, self._reserved, self._required = folder, frozenset(reserved), required
        self._packages: tuple[list[PackagedTools], list[ToolProblem]] | None = None
        self._taken, self._one = Taken(), asyncio.Lock()

    @classmethod
    def of(cls, settings: Settings) -> "OwnTools":
        """Return the tools of the folder that *settings* name, and of packages, before they are loaded."""
        reserved = [tool.spec.name for tool in BUILTIN]
        return cls(settings.tools, reserved=reserved, required="tools" in settings.model_fields_set)

    async def tools(self, _scope: Scope, /) -> Mapping[str, Tool]:
        return self._taken.tools

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        """What could not be taken up at the last refresh; a broken file still gives the tools that it gave before."""
        return self._taken.problems

    @property
    def places(self) -> Mapping[str, str]:
        """Where each tool is defined, by its name."""
        return self._taken.places

    @property
    def files(self) -> Mapping[str, int]:
        """How many tools each file gives, by its name without suffix."""
        return {stem: len(file.tools) for stem, file in self._taken.files.items()}

    @property
    def looked_for(self) -> str:
        """The sentence that says where tools are looked for."""
        folder = self.folder.absolute()
        missing = "" if folder.is_dir() else ", which is not there"
        return f"Tools are looked for in `{folder}` (PARLEY_TOOLS{missing}) and in packages (entry points `{GROUP}`)."

    async def refresh(self) -> bool:
        """Take up what has changed in the folder, and return whether anything had.

        Files are loaded in a thread. One that cannot be loaded is among `problems` afterwards. When a file has changed
        all of them are loaded again, since they may import each other; calls at work keep the functions they have.
        """
        async with self._one:
            return bool(await in_thread(self.load))

    def check(self) -> None:
        """Raise ConfigError with the first problem, if there is one."""
        if self.problems:
            first, *more = self.problems
            rest = f" ({len(more)} more: `parley doctor` lists them.)" if more else ""
            raise ConfigError(f"{first}{rest}")

    def load(self) -> bool:
        """Do as `refresh`, in this thread."""
        sources, before = read_folder(self.folder), self._taken
        if sources.package == before.package and not (before.problems or sources.problems):
            return False
        if self._packages is None:  # what is installed stays as it is while the process runs
            self._packages = load_packages()
        packaged, broken = self._packages
        loaded = FolderLoad(sources)
        fresh = {stem: ServedFile(loaded.package, tools) for stem, tools in loaded.tools.items()}
        kept = {stem: before.files[stem] for stem in loaded.problems if stem in before.files}
        files = dict(sorted({**kept, **fresh}.items()))
        tools, places, conflicts = self._named(sources, files, packaged)
        problems = (*self._missing(), *loaded.problems.values(), *conflicts, *broken)
        self._taken = Taken(loaded.package, files, tools, places, problems)
        return self._taken != before

    def _missing(self) -> Iterator[ToolProblem]:
        if self._required and not self.folder.is_dir():
            yield ToolProblem("PARLEY_TOOLS", f"there is no folder `{self.folder}`; make it, or leave it unset.")

    def _named(
        self, sources: FolderSources, files: Mapping[str, ServedFile], packaged: list[PackagedTools]
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
