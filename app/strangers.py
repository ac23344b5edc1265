"""Agents that let in people whom no site names, while nothing bounds what all of these can cost together."""

import structlog

from agent_core import Definition
from channels.web.settings import settings_of

REMEDY = 'give it `limits: {everyone: {cost_per_day: "…"}}`, and less of it to one `address`'
_log = structlog.get_logger("parley.agents")


def costs_without_end(agent: Definition) -> bool:
    """Return whether anonymous visitors may talk to *agent* at any cost: a new visitor has new quotas."""
    everyone = agent.limits.everyone
    bounds = (everyone.cost_per_day, everyone.tokens_per_day, everyone.messages_per_day)
    return settings_of(agent).anonymous is not None and all(each is None for each in bounds)


def warn_of_strangers(agent: Definition) -> None:
    """Log a warning about *agent* if strangers may use it at any cost."""
    if costs_without_end(agent):
        _log.warning("agent.no_budget", agent=agent.name, remedy=REMEDY)
