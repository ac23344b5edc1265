"""What a server would refuse to start with: the checks of the start itself, without its effects."""

import json
import os
from collections.abc import Callable, Iterator, Sequence

from agent_core import ChannelPort, Channels, ConfigError, InvalidInput
from agent_core.domain.mcp import McpServer
from agent_core.net.targets import TargetGuard
from agent_core.runtime.agents.agent_checks import check_agent
from agent_core.runtime.mcp.checks import check_filed
from app.agents import read_agents, usable
from app.doctor.deployed import surroundings
from app.doctor.findings import Finding
from app.mcp_file import read_mcp_file
from app.own_tools.toolset import OwnTools
from app.serving.server import listening
from app.settings import SERVER_FILE, Settings, check_agents_model
from app.storage.agents import all_agents
from app.storage.keys import check_keys, check_shared_secret
from app.storage.lock import is_owned
from app.storage.migrate import revision


def refusals(settings: Settings, own: OwnTools, channels: Sequence[ChannelPort]) -> Iterator[Finding]:
    """Yield what would end a start with these *settings*, *own* tools and *channels*; a start stops at the first."""
    try:
        filed = read_mcp_file(settings)
    except ConfigError as error:
        yield Finding("fail", "mcp", str(error))
    else:
        yield from _servers(settings, filed)
        yield from _agents(settings, own, filed, Channels(channels))
    checks: dict[str, Callable[[], None]] = {
        "data": lambda: _check_data(settings),
        "keys": lambda: check_keys(settings),
        "secret": lambda: _check_secret(settings),
        "port": lambda: _check_port(settings),
    }
    for about, check in checks.items():
        try:
            check()
        except ConfigError as error:
            yield Finding("fail", about, str(error))


def _servers(settings: Settings, filed: Sequence[McpServer]) -> Iterator[Finding]:
    """Report the first of the servers *filed* in mcp.json that could not work."""
    try:
        check_filed(filed, check_url=TargetGuard.of(settings.fetch_allow).check)
    except InvalidInput as error:
        yield Finding("fail", "mcp", f"PARLEY_MCP: {error}")


def _agents(settings: Settings, own: OwnTools, filed: Sequence[McpServer], channels: Channels) -> Iterator[Finding]:
    """Report each agent's file that would be refused: what is checked is the list that a server goes by."""
    if not settings.agents.is_dir():  # the settings have said so
        return

    def check_model(name: str, where: str) -> None:
        check_agents_model(settings, name, where)

    around = surroundings(settings, own, filed, channels)
    read = read_agents(settings.agents, channels=channels, check=check_model)
    files = usable(read, lambda made: check_agent(made, around))
    for fault in files.broken.values():
        yield Finding("fail", "agents", fault)
    # A start writes the files over the agents of their names, and refuses what then claims one place twice.
    filed_agents = files.agents.values()
    names = {made.name for made in filed_agents}
    stored = [agent.definition for agent in all_agents(settings) if agent.definition.name not in names]
    for conflict in channels.conflicts([*stored, *filed_agents]):
        remedy = "change one of them: an agent's file, or over HTTP (PATCH /v1/agents/{id}) while its file is away"
        yield Finding("fail", "agents", f"Agents: {conflict}", remedy)


def _check_secret(settings: Settings) -> None:
    if settings.postgres is not None and revision(settings) is not None:
        check_shared_secret(settings)


def _check_data(settings: Settings) -> None:
    """Raise ConfigError where PARLEY_DATA could not be made, or written to."""
    if settings.postgres is not None:
        return
    place = next(each for each in (settings.data.absolute(), *settings.data.absolute().parents) if each.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"PARLEY_DATA: `{settings.data}` cannot be written; name a folder that can.")


def _check_port(settings: Settings) -> None:
    """Raise ConfigError where nothing could listen, unless the server of this deployment does."""
    if _serves(settings):
        return
    with listening(settings.host, settings.port):
        pass


def _serves(settings: Settings) -> bool:
    """Return whether a server that PARLEY_DATA knows has the port."""
    if not is_owned(settings):
        return False
    try:
        note = json.loads((settings.data / SERVER_FILE).read_text(encoding="utf-8"))
        return str(note["url"]).endswith(f":{settings.port}")
    except (OSError, ValueError, KeyError, TypeError):
        return True  # it has not said yet where
