"""What a server would refuse to start with: the checks of the start itself, without its effects."""

import json
import os
from collections.abc import Callable, Iterator, Sequence

from agent_core import ChannelPort, Channels, ConfigError, InvalidInput
from agent_core.runtime.definition_checks import check_tools
from app.agents import load_agents
from app.doctor.findings import Finding
from app.own_tools.toolset import OwnTools, shipped_names
from app.serving.server import listening
from app.settings import SERVER_FILE, Settings, check_agents_model
from app.storage.keys import check_keys, check_shared_secret
from app.storage.lock import is_owned
from app.storage.migrate import revision
from app.storage.tools import stored_tools
from app.tool_files import read_tools


def refusals(settings: Settings, own: OwnTools, channels: Sequence[ChannelPort]) -> Iterator[Finding]:
    """Yield what would end a start with these *settings*, *own* tools and *channels*; a start stops at the first."""
    checks: dict[str, Callable[[], None]] = {
        "agents": lambda: _check_agents(settings, own, Channels(channels)),
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


def _check_agents(settings: Settings, own: OwnTools, channels: Channels) -> None:
    if not settings.agents.is_dir():  # the settings have said so
        return
    filed = read_tools(own.folder).tools.values()
    known = {*shipped_names(), *own.places, *(each.definition.name for tools in filed for each in tools)}
    known.update(stored_tools(settings))

    def check(name: str, where: str) -> None:
        check_agents_model(settings, name, where)

    found = load_agents(settings.agents, tools=known, channels=channels, check=check, looked_for=own.looked_for)
    for definition in found:
        try:
            check_tools(definition, known, own.looked_for)
        except InvalidInput as error:
            raise ConfigError(f"PARLEY_AGENTS: `{definition.name}`: {error}") from None


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
