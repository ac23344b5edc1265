"""The files of a process: the agents and tools that they define, read once or again and again."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from agent_core import Channels, ConfigError, Core, Definition, InvalidInput
from agent_core.runtime.agent_checks import RefusedAgent
from agent_core.servers import McpServer
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from agent_core.tools.render import SpecCheck, render_tools
from agent_core.tools.toolset import Merged, Static, Toolset
from app.agents import read_agents
from app.mcp_file import read_mcp_file
from app.own_tools.toolset import OwnTools
from app.settings import Settings, check_agents_model
from app.tool_files import ToolFiles


class Files(Protocol):
    """The agents and own tools of a process."""

    @property
    def own(self) -> OwnTools: ...

    @property
    def places(self) -> Mapping[str, str]:
        """Where the tools that do not ship are defined, by their names."""
        ...

    @property
    def broken(self) -> Callable[[], Sequence[str]] | None:
        """Returns what is broken now, a sentence each; None where files are read once, and a broken one is refused."""
        ...

    async def load(self, core: Core) -> None:
        """Give *core* the agents and tools as they were read; raises ConfigError."""
        ...

    def following(self, core: Core) -> AbstractAsyncContextManager[None]:
        """Give *core* what changes while the block lasts."""
        ...


@dataclass(frozen=True, slots=True)
class StillFiles:
    """Agents and tools that were read once, at the start; without *filed* no tools of YAML files."""

    own: OwnTools
    agents: Mapping[Path, Definition]
    filed: ToolFiles | None
    servers: Sequence[McpServer] = ()
    broken: None = None

    @property
    def places(self) -> Mapping[str, str]:
        return places_of(self.own, self.filed)

    async def load(self, core: Core) -> None:
        """Store the MCP servers, the tools and the agents; raise ConfigError when that cannot be done."""
        await load_servers(core, self.servers)
        if self.filed is not None:
            await self.filed.load(core)
            self.filed.check()
            await self.filed.store(core)
        try:
            await core.agents.sync_files(list(self.agents.values()))
        except RefusedAgent as error:
            path = next(path for path, made in self.agents.items() if made.name == error.agent)
            raise ConfigError(f"{path}: {error}") from None
        except InvalidInput as error:
            raise ConfigError(f"PARLEY_AGENTS: {error}") from None

    def following(self, core: Core) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - the port has it
        """Change nothing."""
        return nullcontext()


async def read_once(settings: Settings, tools: Sequence[Tool] | None, channels: Channels) -> StillFiles:
    """Return the own tools, loaded unless *tools* are used, and the agents; raise ConfigError for a broken file.

    Which tools there are is known when the core runs: some are in its database.
    """
    own = OwnTools.of(settings)
    if tools is None:
        await own.refresh()
        own.check()
    check = partial(check_agents_model, settings)
    files = read_agents(settings.agents, channels=channels, check=check)
    for fault in files.broken.values():
        raise ConfigError(fault)
    if tools is not None:
        return StillFiles(own, files.agents, None)
    return StillFiles(own, files.agents, ToolFiles(settings.tools), read_mcp_file(settings))


def places_of(own: OwnTools, filed: ToolFiles | None) -> Mapping[str, str]:
    """Return where tools are defined, by their names; of two with one name the Python file's is in use."""
    return own.places if filed is None else {**filed.places, **own.places}


async def load_servers(core: Core, servers: Sequence[McpServer]) -> None:
    """Store the MCP servers of the operator's file; raise ConfigError for one that cannot work."""
    try:
        await core.tools.servers.sync_files(servers)
    except InvalidInput as error:
        raise ConfigError(f"PARLEY_MCP: {error}") from None


def toolset_with(own: OwnTools, tools: Sequence[Tool] | None = None, drawer: SpecCheck | None = None) -> Toolset:
    """Return *own* tools beside *tools*, by default those that ship; *drawer* tries charts out."""
    shipped = {tool.spec.name: tool for tool in (BUILTIN if tools is None else tools)}
    # Each kind of tools is one toolset here.
    return Merged((Static(shipped if tools is not None else {**shipped, **render_tools(drawer)}), own))
