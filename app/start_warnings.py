"""What a start warns of: tools and models of stored agents that are missing here, or will be soon."""

from collections.abc import AsyncIterator
from datetime import date

import structlog

from agent_core import AgentObject, Core
from agent_core.hooks.check import is_name, unmatched, warn_open
from agent_core.runtime.tools.offers import names_of, warn_of_router, wrapped
from agent_core.tools.toolset import Scope
from app.models import Models, models_of, warn_of_model
from app.settings import Settings
from app.strangers import warn_of_strangers

_log = structlog.get_logger("parley.start")


async def warn(core: Core, settings: Settings, models: Models, today: date, looked_for: str) -> None:
    """Log the tools and models of stored agents that are missing here, or will be soon."""
    warn_of_model(models.default, today, listed=settings.listed_as(models.default))
    for agent, why in await core.agents.unavailable():
        _log.warning("agent.unavailable", agent=agent, why=why)
    for agent, tool in await core.agents.lacking():
        _log.warning(
            "agent.tool_missing",
            agent=agent,
            tool=tool,
            remedy=f"bring it back or take it out of `tools`. {looked_for}",
        )
    tools = await core.tools.toolset.tools(Scope())
    async for agent in _agents(core):
        warn_of_strangers(agent.definition)
        if agent.source == "api":  # those of files were warned of when they were read
            warn_open(agent.definition)
            warn_of_router(agent.definition, searches=core.agents.searches(agent.definition))
        named = [*names_of(agent.definition.tools), *wrapped(agent.definition, tools)]
        for place, matcher in unmatched(agent.definition, named):
            if is_name(matcher):  # a glob was warned of when the agent was made
                fields = {"agent": agent.definition.name, "hook": place + 1, "matcher": matcher}
                _log.warning("hook.matches_nothing", **fields, remedy="name a tool of the agent")
        for model in models_of(agent.definition):
            warn_of_model(model, today, agent=agent.definition.name, listed=settings.listed_as(model))
            provider = model.partition(":")[0]
            if provider not in models.providers:
                remedy = f"set {settings.needs.get(provider, 'its provider')} or name another model"
                _log.warning("agent.model_missing", agent=agent.definition.name, model=model, remedy=remedy)


async def _agents(core: Core) -> AsyncIterator[AgentObject]:
    cursor, more = None, True
    while more:
        page = await core.agents.list(limit=100, cursor=cursor)
        for agent in page.items:
            yield agent
        cursor, more = page.next_cursor, page.next_cursor is not None
