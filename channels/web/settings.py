"""What an agent configures of the web channel."""

from typing import Literal

import msgspec

from agent_core import Definition
from channels.spec import AgentSettings

NAME = "web"


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the web widget shows of an agent's tools to a visitor."""

    show_tools: Literal["none", "names", "full"] = "names"


SETTINGS = AgentSettings(Web)


def settings_of(agent: Definition) -> Web:
    """Return what *agent* configures of the web channel."""
    return SETTINGS.of(NAME, agent.channels)
