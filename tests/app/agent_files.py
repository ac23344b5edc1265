"""The agents of a folder, checked as a server checks them before it stores them."""

from collections.abc import Callable, Collection
from pathlib import Path

from agent_core.agents import Definition
from agent_core.channels import Channels
from agent_core.errors import ConfigError
from agent_core.runtime.agent_checks import Surroundings, check_agent
from app.files import read_agents, usable


def load_agents(
    folder: Path,
    *,
    tools: Collection[str],
    channels: Channels,
    check: Callable[[str, str], None],
    looked_for: str = "",
) -> list[Definition]:
    """Return the agents of *folder*, in the order of their files' names; raise ConfigError for a broken file.

    *tools* are the names that an agent may list, *looked_for* is the sentence on where they come from; see
    `read_agents` for the rest.
    """
    around = Surroundings(tools, channels=channels, looked_for=looked_for)
    found = usable(read_agents(folder, channels=channels, check=check), lambda made: check_agent(made, around))
    for fault in found.broken.values():
        raise ConfigError(fault)
    return list(found.agents.values())
