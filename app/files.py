"""The files of a process: the agents and tools that they define, read once or again and again."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from agent_core import Channels, ConfigError, Core, Definition, InvalidInput
from agent_core.domain.mcp import McpServer
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from agent_core.tools.render import SpecCheck, render_tools
from agent_core.tools.toolset import Merged, Scope, Static, Toolset
from app.agents import load_agents
from app.mcp_file import read_mcp_file
from app.own_tools.toolset import OwnTools
from app.settings import Settings, check_agents_model


class Files(Protocol):
    """The agents and own tools of a process."""

    @property
    def own(self) -> OwnTools: ...

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
    """Agents and own tools that were read once, at the start."""

    own: OwnTools
    definitions: Sequence[Definition]
    servers: Sequence[McpServer] = ()
    broken: None = None

    async def load(self, core: Core) -> None:
        """Store the MCP servers and the agents; raise ConfigError when that cannot be done."""
        await load_servers(core, self.servers)
        try:
            await core.agents.sync_files(self.definitions)
        except InvalidInput as error:
            raise ConfigError(f"PARLEY_AGENTS: {error}") from None

    def following(self, core: Core) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - the port has it
        """Change nothing."""
        return nullcontext()


async def read_once(settings: Settings, given: Sequence[Tool] | None, channels: Channels) -> StillFiles:
    """Return the own tools, loaded unless others are *given*, and the agents; raise ConfigError for a broken file."""
    own = OwnTools.of(settings)
    if given is None:
        await own.refresh()
        own.check()
    known = await toolset_with(own, given).tools(Scope())
    check, looked_for = partial(check_agents_model, settings), own.looked_for
    definitions = load_agents(settings.agents, tools=known, channels=channels, check=check, looked_for=looked_for)
    return StillFiles(own, definitions, read_mcp_file(settings))


async def load_servers(core: Core, servers: Sequence[McpServer]) -> None:
    """Store the MCP servers of the operator's file; raise ConfigError for one that cannot work."""
    try:
        await core.tools.servers.sync_files(servers)
    except InvalidInput as error:
        raise ConfigError(f"PARLEY_MCP: {error}") from None


def toolset_with(own: OwnTools, given: Sequence[Tool] | None = None, drawer: SpecCheck | None = None) -> Toolset:
    """Return *own* tools beside those *given*, which are those that ship when None; *drawer* tries charts out."""
    shipped = {tool.spec.name: tool for tool in (BUILTIN if given is None else given)}
    # Each kind of tools is one toolset here.
    return Merged((Static(shipped if given is not None else {**shipped, **render_tools(drawer)}), own))
