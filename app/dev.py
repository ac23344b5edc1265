"""`parley dev`: serve a project, and take up its files as they change."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from watchfiles import awatch

from agent_core.agents import Definition
from agent_core.channels import Channels
from agent_core.core import Core
from agent_core.errors import ConfigError, InvalidInput, Unavailable
from agent_core.tools.base import Tool
from agent_core.tools.toolset import Scope
from app.checks import of_budget, warn_of_budget
from app.compose import CHANNELS
from app.files import SUFFIXES, ToolFiles, load_servers, places_of, read_agents, read_mcp_file, usable
from app.logs import say
from app.main import serve
from app.own_tools import OwnTools
from app.settings import Settings, check_agents_model
from app.storage import migrate

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


ENV_FILE = Path(".env")
RESTART = "start `parley dev` again to use it, as settings are read at the start."
KEPT = "What was loaded before stays in use until it is corrected."

SLOW_S = 5.0
"""Seconds: files of tools are loaded in milliseconds, and most packages that they import in less than this."""
SLOW = "Loading the files of `{folder}` takes long; look for one that waits as it is loaded. Changes wait for it too."


class State(NamedTuple):
    """What is in use: the newest *versions* of agents, those *filed* by files, the *tools*, and what is broken.

    *unavailable* are sentences on the agents that no model can answer for.
    """

    broken: tuple[str, ...]
    versions: Mapping[str, int]
    tools: Mapping[str, Tool]
    filed: frozenset[str]
    unavailable: tuple[str, ...]


class Workshop:
    """The agents and tools that *settings* name, loaded again whenever their files change.

    Nothing ends the process: what is `broken` is shown, and what was loaded before stays in use. An agent whose file is
    broken is, until that is corrected, an ordinary one of the database.
    """

    def __init__(self, settings: Settings, own: OwnTools) -> None:
        self._settings, self.own = settings, own
        self.filed = ToolFiles(own.folder)
        self._channels = Channels(CHANNELS)
        self._watched = Watched((settings.agents, own.folder), SUFFIXES | {".py"}, (ENV_FILE, settings.mcp))
        self._seen: Marks = {}
        self._broken: tuple[str, ...] = ()
        self._filed: frozenset[str] = frozenset()
        self._without_budget: frozenset[str] | None = None

    def broken(self) -> tuple[str, ...]:
        """Return what is broken now, a sentence each, with file, line and remedy."""
        return (*map(str, self.own.problems), *self.filed.problems, *self._broken)

    @property
    def places(self) -> Mapping[str, str]:
        """Where the tools that do not ship are defined, by their names."""
        return places_of(self.own, self.filed)

    async def load(self, core: Core) -> None:
        """Give *core* the agents and tools as their files are now."""
        self._seen = self._watched.marks()
        slow = asyncio.get_running_loop().call_later(SLOW_S, say, SLOW.format(folder=self.own.folder))
        try:
            await self.own.refresh()
        finally:
            slow.cancel()
        await self.filed.load(core)
        await self.filed.store(core)
        broken = await self._load_servers(core)
        tools = await core.tools.toolset.tools(Scope())
        definitions, faults = await asyncio.to_thread(self._read, core, tools)
        broken += faults
        try:
            await core.agents.sync_files(definitions)
        except (InvalidInput, ConfigError) as error:  # what two agents cannot both have, one of them not from a file
            broken.append(f"{self._settings.agents}: {error}")
        self._broken = tuple(broken)
        self._warn(definitions)

    def _warn(self, definitions: Sequence[Definition]) -> None:
        """Log which agents strangers may now use at any cost; the start warns of those that it finds."""
        costly = {each.name: each for each in definitions if any(of_budget(each))}
        before = costly if self._without_budget is None else self._without_budget
        for name, definition in costly.items():
            if name not in before:
                warn_of_budget(definition)
        self._without_budget = frozenset(costly)

    async def _load_servers(self, core: Core) -> list[str]:
        """Give *core* the servers of mcp.json, and return what is broken in it."""
        try:
            await load_servers(core, await asyncio.to_thread(read_mcp_file, self._settings))
        except ConfigError as error:
            return [str(error)]
        return []

    def _read(self, core: Core, tools: Mapping[str, Tool]) -> tuple[list[Definition], list[str]]:
        """Return the agents that *core* can run with *tools*, and why it cannot run the others."""
        folder = self._settings.agents
        if not folder.is_dir():
            return [], [f"{folder}: there is no such folder; make it again, and put the agents' files into it."]
        read = read_agents(folder, channels=self._channels, check=self._check_model)
        files = usable(read, lambda made: core.agents.check(made, tools, filed=True))
        return list(files.agents.values()), list(files.broken.values())

    def _check_model(self, name: str, where: str) -> None:
        check_agents_model(self._settings, name, where)

    @asynccontextmanager
    async def following(self, core: Core) -> AsyncIterator[None]:
        """Load what changes while the block lasts, and print what became of it."""
        following = asyncio.create_task(self._follow(core), name="parley-dev")
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait((following,))

    async def _follow(self, core: Core) -> None:
        now = await self._state(core)
        try:
            async for changed in self._watched.changes(self._seen):
                try:
                    await self.load(core)
                    before, now = now, await self._state(core)
                except Unavailable as error:
                    say(f"{error} Save the file again then.")
                    continue
                for line in _lines(changed, before, now):
                    say(line)
        except Exception as error:
            say(f"Changes are not taken up any more ({type(error).__name__}: {error}); start `parley dev` again.")
            raise

    async def _state(self, core: Core) -> State:
        agents = await core.agents.all()
        versions = {agent.definition.name: agent.version for agent in agents}
        filed = frozenset(agent.definition.name for agent in agents if agent.source == "file")
        # A broken file does not say which agent is its own: until it is corrected none is missing.
        self._filed = filed | self._filed if self._broken else filed
        unavailable = tuple(why for _, why in await core.agents.unavailable())
        return State(self.broken(), versions, await core.tools.toolset.tools(Scope()), self._filed, unavailable)


def _lines(changed: Sequence[Path], before: State, now: State) -> Iterator[str]:
    """Give the lines that say what has become of what *changed*."""
    if ENV_FILE in changed:
        yield f"{ENV_FILE} has changed: {RESTART}"
    if fresh := [each for each in now.broken if each not in before.broken]:
        yield from fresh
        yield KEPT
    elif before.broken and not now.broken:
        yield "Corrected: all files are in use again."
    yield from (each for each in now.unavailable if each not in before.unavailable)
    if tools := sorted(name for name, tool in now.tools.items() if before.tools.get(name) is not tool):
        yield f"Tools, from the next call on: {', '.join(tools)}"
    if gone := sorted(before.tools.keys() - now.tools.keys()):
        yield f"Tools that are gone: {', '.join(gone)}"
    for name in sorted((before.filed - now.filed) & now.versions.keys()):
        yield f"Agent {name} is in no file any more: it stays in the database; `DELETE /v1/agents/{name}` deletes it."
    for name, version in now.versions.items():
        if before.versions.get(name) != version:
            yield f"Agent, for new conversations: {name}, version {version}"


def dev(settings: Settings) -> None:
    """Migrate, and serve on loopback until a signal comes; raise ConfigError when that cannot begin."""
    local = settings if settings.loopback else settings.model_copy(update={"host": "127.0.0.1"})
    migrate(local)
    say(f"Changes in `{local.agents}`, `{local.tools}` and `{local.mcp}` (MCP servers) are taken up while this runs.")
    serve(local, live=Workshop(local, OwnTools.of(local)))
