"""What agents of this deployment would run with, found without a server: its tools by name, and its MCP servers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from agent_core import Channels
from agent_core.domain.mcp import McpServer
from agent_core.domain.mcp_tools import offered_of
from agent_core.net.targets import TargetGuard
from agent_core.runtime.agents.agent_checks import Surroundings
from agent_core.runtime.mcp.shown import names_in, why_none
from agent_core.store.work.tooling.servers import StoredServer
from app.own_tools.toolset import OwnTools, shipped_names
from app.settings import Settings
from app.storage.servers import stored_servers
from app.storage.tools import stored_tools
from app.tool_files import read_tools


@dataclass(frozen=True, slots=True)
class DeployedServers:
    """The MCP servers that a start would know, by *names*; the *unreached* give no tools, each with the reason."""

    names: Collection[str]
    unreached: Mapping[str, str]

    async def known(self, _names: Collection[str], /) -> Collection[str]:
        return self.names


def surroundings(settings: Settings, own: OwnTools, filed: Sequence[McpServer], channels: Channels) -> Surroundings:
    """Return what a server with these *settings* has; *filed* are the servers of mcp.json, *own* the own tools."""
    stored = _stored(settings, filed)
    reached = {each.server.name: each for each in stored if why_none(each) is None}
    unreached = {each.name: "It was never asked." for each in filed} | {
        each.server.name: why for each in stored if (why := why_none(each)) is not None
    }
    for name in reached:
        unreached.pop(name, None)
    defined = (each.definition.name for tools in read_tools(own.folder).tools.values() for each in tools)
    return Surroundings(
        tools={*shipped_names(), *own.places, *defined, *stored_tools(settings), *_offered(stored, reached)},
        servers=DeployedServers({*reached, *unreached}, unreached),
        channels=channels,
        looked_for=own.looked_for,
        include_render=settings.include_render,
        guard=TargetGuard.of(settings.fetch_allow),
    )


def _stored(settings: Settings, filed: Sequence[McpServer]) -> Sequence[StoredServer]:
    """Return the stored servers as a start would leave them: as mcp.json has them, or disabled if it has them no more.

    Whether its address has changed is not looked at: what is stored of it is sealed.
    """
    written, servers = {each.name: each for each in filed}, list[StoredServer]()
    for each in stored_servers(settings)[0]:
        now = written.get(each.server.name)
        if now is not None:
            servers.append(replace(each, server=now))
        elif each.source == "file":
            servers.append(replace(each, server=replace(each.server, enabled=False)))
        else:
            servers.append(each)
    return servers


def _offered(stored: Sequence[StoredServer], reached: Collection[str]) -> Collection[str]:
    """Return the names that agents have the tools of the *reached* servers under."""
    names = names_in(stored)
    return {
        names[each.server.name, tool.name]
        for each in stored
        if each.server.name in reached and each.kept is not None
        for tool in offered_of(each.server, each.kept.listing, each.accepted)
    }
