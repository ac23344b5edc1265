"""The fields of an agent in the API: those of its definition, and the settings of the built-in channels by name."""

from agent_core import Definition
from channels.slack.settings import Slack
from channels.web.settings import Web


class AgentFields(Definition, frozen=True, kw_only=True):
    """What an author writes; settings of other channels are under `channels`."""

    web: Web = Web()
    slack: Slack = Slack()
