"""Tool files: the YAML of PARLEY_TOOLS, beside the Python files, as definitions of tools."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from agent_core import ConfigError, Core, InvalidInput
from agent_core.agents import ToolDefinition
from agent_core.channels import misfit
from app.bounded_yaml import read_config

SUFFIXES = frozenset({".yaml", ".yml"})
MAX_FILES = 500
_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class FiledTool:
    """A definition, and where it is: in the file at *path*, *index* of its list, or the whole file when None."""

    path: Path
    definition: ToolDefinition
    index: int | None = None

    @property
    def place(self) -> str:
        """Its file, with the line where it begins."""
        return _at(self.path, self.index)

    def fault(self, error: InvalidInput) -> str:
        """Return *error*, which is about this definition, with file, line and field."""
        return f"{_at(self.path, self.index, error.path)}: {error}"


@dataclass(frozen=True, slots=True)
class TakenFiles:
    """What was taken up: the *tools* of each file, and why the *broken* ones define nothing new."""

    tools: Mapping[Path, Sequence[FiledTool]] = field(default_factory=dict[Path, Sequence[FiledTool]])
    broken: Mapping[Path, str] = field(default_factory=dict[Path, str])


class ToolFiles:
    """The tools that the YAML files of *folder* define; none until they are loaded.

    A broken file still gives the tools that it gave before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._taken = folder, TakenFiles()
        self._places: Mapping[str, str] = {}

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with files now, a sentence each with file, line if possible, field and remedy."""
        return list(self._taken.broken.values())

    @property
    def places(self) -> Mapping[str, str]:
        """Where each tool is defined, by its name."""
        return self._places

    def check(self) -> None:
        """Raise ConfigError with the first problem, if there is one."""
        if self.problems:
            first, *more = self.problems
            raise ConfigError(f"{first}{f' ({len(more)} more broken files.)' if more else ''}")

    async def load(self, core: Core) -> None:
        """Take up the files as they are now, as far as *core* can use what they define; see `problems`."""
        read = await asyncio.to_thread(read_tools, self.folder)
        tools, broken = dict[Path, Sequence[FiledTool]](), dict(read.broken)
        for path, filed in read.tools.items():
            fault = await _fault(filed, core)
            if fault is None:
                tools[path] = filed
            else:
                broken[path] = fault
        previous = {path: self._taken.tools[path] for path in broken if path in self._taken.tools}
        self._taken = TakenFiles(dict(sorted({**tools, **previous}.items())), dict(sorted(broken.items())))
        self._places = {each.definition.name: each.place for each in self._all()}

    async def store(self, core: Core) -> None:
        """Give *core* the tools that were taken up; those of files that are gone are removed."""
        whole = all(path in self._taken.tools for path in self._taken.broken)
        await core.tools.definitions.sync_files([each.definition for each in self._all()], whole=whole)

    def _all(self) -> Iterator[FiledTool]:
        for filed in self._taken.tools.values():
            yield from filed


async def _fault(filed: Sequence[FiledTool], core: Core) -> str | None:
    """Return why *core* could not use one of the definitions *filed*; None when it can use them all."""
    for each in filed:
        try:
            await core.tools.definitions.check_filed(each.definition)
        except InvalidInput as error:
            return each.fault(error)
    return None


def read_tools(folder: Path) -> TakenFiles:
    """Return what the YAML files of *folder* define; what is said of a broken one has its path and the field."""
    tools, broken = dict[Path, Sequence[FiledTool]](), dict[Path, str]()
    names: dict[str, FiledTool] = {}
    paths = _files(folder)
    for path in paths[MAX_FILES:]:
        broken[path] = (
            f"{path}: there are more than {MAX_FILES} YAML files in the folder; write several tools into one."
        )
    for path in paths[:MAX_FILES]:
        try:
            definitions = _read(path)
            _check_names(definitions, names)
        except ConfigError as error:
            broken[path] = str(error)
        else:
            tools[path] = definitions
            names.update({each.definition.name: each for each in definitions})
    return TakenFiles(tools, broken)


def _check_names(definitions: Sequence[FiledTool], others: Mapping[str, FiledTool]) -> None:
    """Raise ConfigError when one of *definitions* has the name of another one, or of one of *others*."""
    names = dict(others)
    for each in definitions:
        name = each.definition.name
        if name in names:
            fault = f"the tool `{name}` is defined at {names[name].place} too; rename one of them."
            raise ConfigError(each.fault(InvalidInput("name", fault)))
        names[name] = each


def _files(folder: Path) -> list[Path]:
    """Return the YAML files of *folder*; hidden ones do not count, and a folder that is not there has none."""
    try:
        return sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES and not p.name.startswith("."))
    except OSError:  # that of the Python files: its loader says what is wrong
        return []


def _read(path: Path) -> list[FiledTool]:
    """Return the definitions in the file at *path*; raise ConfigError."""
    content = read_config(path)
    if isinstance(content, list):
        return [_converted(path, each, place) for place, each in enumerate(cast("list[Any]", content))]
    return [_converted(path, content, None)]


def _converted(path: Path, value: Any, index: int | None) -> FiledTool:
    if not isinstance(value, dict):
        where = _at(path, index)
        raise ConfigError(
            f"{where}: defines no tool; write `name`, `kind`, `description` and `config`, or a list of these."
        )
    try:
        return FiledTool(path, msgspec.convert(value, ToolDefinition), index)
    except msgspec.ValidationError as error:
        where, why = misfit(error, ToolDefinition)
        named = f"`{where}`: " if where else ""
        raise ConfigError(f"{_at(path, index, where)}: {named}{why}; correct it.") from None


def _at(path: Path, index: int | None, field: str = "") -> str:
    """Return *path* with the line of a *field* of its definition *index*, or of what is there of it."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return str(path)
    steps = ([] if index is None else [str(index)]) + _STEP.findall(field)
    if node is None:
        return str(path)
    line = node.start_mark.line
    for step in steps:
        position = _inside(node, step)
        if position is None:
            break
        line, node = position
    return f"{path}:{line + 1}"


def _inside(node: yaml.Node, step: str) -> tuple[int, yaml.Node] | None:
    """Return the line of the field, or item, *step* of *node*, and its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        item = node.value[int(step)]
        return item.start_mark.line, item
    return None
