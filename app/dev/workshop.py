"""The workshop: the agents and tools of a project while it is worked on, and what is broken in their files."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent_core import Channels, ConfigError, Core, Definition, InvalidInput
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from agent_core.tools.toolset import Merged, Scope, Static, Toolset
from app.agents import SUFFIXES, read_agents
from app.compose import CHANNELS
from app.dev.watching import Marks, Watched
from app.own_tools.toolset import OwnTools
from app.printer import say
from app.settings import Settings, check_model

ENV_FILE = Path(".env")
RESTART = "start `parley dev` again, as settings are read when it starts."
KEPT = "What was loaded before stays in use until it is corrected."


class Workshop:
    """The agents and tools that *settings* name, loaded again whenever their files change.

    Nothing that is broken ends the process: its *problems* are shown, and what was loaded before stays in use. An agent
    whose file is broken is, until that is corrected, an ordinary one of the database.
    """

    def __init__(self, settings: Settings, own: OwnTools) -> None:
        self._settings, self._own = settings, own
        self.toolset: Toolset = Merged((Static({each.spec.name: each for each in BUILTIN}), own))
        self._channels = Channels(CHANNELS)
        self._watched = Watched((settings.agents, own.folder), SUFFIXES | {".py"}, (ENV_FILE,))
        self._seen: Marks = {}
        self._broken: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is broken now, a sentence each, with file, line and remedy."""
        return (*map(str, self._own.problems), *self._broken)

    async def load(self, core: Core) -> None:
        """Give *core* the agents and tools as their files are now."""
        self._seen = self._watched.marks()
        await self._own.refresh()
        known = await self.toolset.tools(Scope())
        definitions, broken = await asyncio.to_thread(self._read, core, known)
        try:
            await core.agents.sync_files(definitions)
        except (InvalidInput, ConfigError) as error:  # what two agents cannot both have, one of them not from a file
            broken.append(f"{self._settings.agents}: {error}")
        self._broken = tuple(broken)

    def _read(self, core: Core, known: Mapping[str, Tool]) -> tuple[list[Definition], list[str]]:
        """Return the agents that *core*, which has the tools *known*, can run, and why the others cannot be."""
        folder = self._settings.agents
        if not folder.is_dir():
            return [], [f"{folder}: there is no such folder; make it again, and put the agents' files into it."]
        found = read_agents(folder, tools=known, channels=self._channels, check=self._check_model)
        definitions, broken = list[Definition](), dict(found.broken)
        for path, made in found.agents.items():
            try:
                core.agents.check(made, known)
            except InvalidInput as error:
                broken[path] = f"{path}: {error}"
            else:
                definitions.append(made)
        return definitions, [broken[path] for path in sorted(broken)]

    def _check_model(self, name: str, where: str) -> None:
        check_model(self._settings, name, where)

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
        for line in _told((), self.problems):
            say(line)
        async for changed in self._watched.changes(self._seen):
            before = self.problems, await _versions(core), await self.toolset.tools(Scope())
            await self.load(core)
            after = self.problems, await _versions(core), await self.toolset.tools(Scope())
            for line in _lines(changed, before, after):
                say(line)


State = tuple[tuple[str, ...], Mapping[str, int], Mapping[str, Tool]]


def _lines(changed: Sequence[Path], before: State, after: State) -> Iterator[str]:
    """Give the lines that say what has become of what *changed*."""
    if ENV_FILE in changed:
        yield f"{ENV_FILE}: {RESTART}"
    yield from _told(before[0], after[0])
    tools = sorted(name for name, tool in after[2].items() if before[2].get(name) is not tool)
    if tools:
        yield f"Tools, from the next call on: {', '.join(tools)}"
    if gone := sorted(before[2].keys() - after[2].keys()):
        yield f"Tools that are gone: {', '.join(gone)}"
    for name, version in after[1].items():
        if before[1].get(name) != version:
            yield f"Agent, for new conversations: {name}, version {version}"


def _told(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Give the problems that are new, and say when the last one was solved."""
    fresh = [each for each in after if each not in before]
    yield from fresh
    if fresh:
        yield KEPT
    if before and not after:
        yield "All files are in use."


async def _versions(core: Core) -> dict[str, int]:
    return {agent.definition.name: agent.version for agent in await core.agents.all()}
