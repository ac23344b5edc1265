"""What may be wrong with agents and does not end a start: one list, for each start, each save, and `parley doctor`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import structlog

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.errors import InvalidInput
from agent_core.hooks.rules import check_addresses, fails_open, is_name, unmatched
from agent_core.net.targets import TargetGuard
from agent_core.providers.base import UNKNOWN, find, table
from agent_core.runtime.agent_checks import Surroundings
from agent_core.runtime.offers import lacking, names_of, wrapped
from agent_core.runtime.roster import why_unserved
from agent_core.tools.toolset import Scope
from app.settings import Settings
from channels.web.settings import settings_of

Level = Literal["ok", "warn", "fail"]
NOTICE_DAYS = 60
"""How many days before its end a model is warned of."""
WHEN_MADE = frozenset({"hook.fails_open", "agent.router_not_native"})
"""What the core logs itself when an agent is made, or its file is read."""
_UNLISTED = "check its spelling; a model that is not listed works if its provider has it, at an unknown cost"
_BUDGET = 'give it `limits: {everyone: {cost_per_day: "…"}}`, and less of it to one `address`'
_log = structlog.get_logger("parley.start")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; *remedy* says what to do when it is not `ok`.

    The log has it as *event* with the *fields*; without one it is the doctor's alone.
    """

    level: Level
    about: str
    text: str
    remedy: str = ""
    event: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        line = f"{self.level:<5} {self.about:<12} {self.text}"
        return f"{line}; {self.remedy}" if self.remedy else line

    def log(self) -> None:
        """Write it to the log as a warning."""
        _log.warning(self.event, **self.fields, **({"remedy": self.remedy} if self.remedy else {}))


async def warn(core: Core, settings: Settings, looked_for: str) -> None:
    """Log what may be wrong with the agents of *core*, which starts; *looked_for* says where tools come from."""
    guard, today = TargetGuard.of(settings.fetch_allow), datetime.now(UTC).date()
    for finding in of_model(settings.default_model, settings, today):
        finding.log()
    for agent in await core.agents.all():
        made, tools = agent.definition, await core.tools.toolset.tools(Scope(agent.id))
        around = Surroundings(tools, core.agents.servers, looked_for=looked_for, guard=guard)
        searches = core.agents.searches(made)
        for finding in of_agent(made, f"`{made.name}`", around, settings, searches=searches, today=today):
            if agent.source == "api" or finding.event not in WHEN_MADE:
                finding.log()


def of_agent(
    made: Definition, where: str, around: Surroundings, settings: Settings, *, searches: bool, today: date
) -> Iterator[Finding]:
    """Yield what may be wrong with an agent that is *where*, with what is *around* it; *searches*: its model does."""
    agent = {"agent": made.name}
    yield from of_budget(made, where)
    yield from _of_hooks(made, where, around)
    if made.router == "native" and not searches:
        text = f"{where}: its model is not known to load tools that were searched for, so `router: native` is `meta`"
        remedy = "name a model that does, or say `router: meta`"
        yield Finding("warn", "agents", text, remedy, "agent.router_not_native", agent)
    for tool in lacking(made, around.tools, around.servers.unreached):
        remedy = f"bring it back or take it out of `tools`. {around.looked_for}"
        yield Finding(
            "warn",
            "agents",
            f"{where}: its tool `{tool}` is not here",
            remedy,
            "agent.tool_missing",
            agent | {"tool": tool},
        )
    model = made.controls.model or made.model or settings.default_model
    why = why_unserved(made, model, settings.providers, settings.needs)
    if why is not None:
        yield Finding("warn", "agents", f"{where}: {why}", "", "agent.unavailable", agent | {"why": why})
    for named in models_of(made):
        yield from of_model(named, settings, today, agent=made.name)
        provider = named.partition(":")[0]
        if why is None and provider not in settings.providers:
            remedy = f"set {settings.needs.get(provider, 'its provider')} or name another model"
            fields = agent | {"model": named}
            yield Finding(
                "warn", "agents", f"{where}: its model `{named}` is not here", remedy, "agent.model_missing", fields
            )


def _of_hooks(made: Definition, where: str, around: Surroundings) -> Iterator[Finding]:
    """Yield hooks that can never be asked, that fail open unsaid, and that guard nothing."""
    agent = {"agent": made.name}
    try:
        if around.guard is not None:
            check_addresses(made.hooks, around.guard)
    except InvalidInput as error:
        yield Finding("fail", "hooks", f"{where}: {error}", "", "hook.refused", agent | {"why": str(error)})
    for place in fails_open(made.hooks):
        hook = made.hooks[place]
        text = f"{where}: {hook.name or f'hook {place + 1}'} allows what it cannot be asked about"
        fields = agent | {"hook": hook.name or place + 1, "at": hook.event}
        remedy = "say `on_error: deny`, or `on_error: allow`, in its config"
        yield Finding("warn", "hooks", text, remedy, "hook.fails_open", fields)
    # Of names alone it is not known which of them wrap others.
    wraps = around.tools if around.only_names else wrapped(made, around.tools)
    for place, matcher in unmatched(made, [*names_of(made.tools), *wraps]):
        if is_name(matcher):  # a glob was warned of when the agent was made
            fields = agent | {"hook": place + 1, "matcher": matcher}
            text = f"{where}: hook {place + 1} names `{matcher}`, which is no tool of the agent"
            yield Finding("warn", "hooks", text, "name a tool of the agent", "hook.matches_nothing", fields)


def of_budget(made: Definition, where: str = "") -> Iterator[Finding]:
    """Yield that anonymous visitors may talk to an agent at any cost: a new visitor has new quotas."""
    everyone = made.limits.everyone
    bounds = (everyone.cost_per_day, everyone.tokens_per_day, everyone.messages_per_day)
    if settings_of(made).anonymous is not None and all(each is None for each in bounds):
        text = f"{where}: anonymous visitors may use it at any cost"
        yield Finding("warn", "agents", text, _BUDGET, "agent.no_budget", {"agent": made.name})


def warn_of_budget(made: Definition) -> None:
    """Log that anonymous visitors may talk to an agent at any cost, if they may."""
    for finding in of_budget(made):
        finding.log()


def of_model(model: str, settings: Settings, today: date, *, agent: str | None = None) -> Iterator[Finding]:
    """Yield that *model*, which *agent* or PARLEY_MODEL names, is not known, or is not served much longer."""
    listed = settings.listed_as(model)
    fields = {"model": model, "named_by": f"agent {agent}" if agent else "PARLEY_MODEL"}
    # Other providers serve any model.
    if listed.partition(":")[0] in table().defaults and find(listed) is UNKNOWN:
        text = f"`{model}` is not among the models that this version knows"
        yield Finding("warn", "models", text, _UNLISTED, "model.unlisted", fields)
    ends = find(listed).ends
    if ends is not None and today >= ends - timedelta(days=NOTICE_DAYS):
        text = f"`{model}` is served until {ends.isoformat()}"
        event = "model.ended" if today > ends else "model.ending"
        yield Finding("warn", "models", text, "name another model", event, fields | {"ends": ends.isoformat()})


def models_of(definition: Definition) -> Iterator[str]:
    """Give the models that an agent names."""
    named = (definition.controls.model, definition.model, *definition.fallback_models)
    yield from (model for model in named if model is not None)
