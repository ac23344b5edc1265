"""What an agent's definition is checked against before it is stored: one list, for servers, files and the doctor."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from agent_core.agents import Definition
from agent_core.channels import Channels
from agent_core.errors import InvalidInput
from agent_core.hooks.rules import check as check_hooks
from agent_core.hooks.rules import check_addresses, check_matchers
from agent_core.net.targets import TargetGuard
from agent_core.runtime.agents.definition_checks import check_fields, check_tools
from agent_core.runtime.mcp.offers import NoServers, Servers, check_servers, is_of
from agent_core.runtime.tools.offers import added, attached, names_of, wrapped
from agent_core.tools.base import Tool


class RefusedAgent(InvalidInput):
    """The definition of *agent*, one of several, is invalid."""

    def __init__(self, agent: str, error: InvalidInput) -> None:
        super().__init__(error.path, error.message, *error.faults[1:])
        self.agent = agent


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an agent would run with: *tools*, or only their names, *servers* of MCP, and *channels*.

    *looked_for* is the sentence on where tools come from, *include_render* holds for agents that say nothing, and
    *guard* refuses addresses of webhooks; without one all pass.
    """

    tools: Collection[str] | Mapping[str, Tool]
    servers: Servers = field(default_factory=NoServers)
    channels: Channels = field(default_factory=Channels)
    looked_for: str = ""
    include_render: bool = True
    guard: TargetGuard | None = None

    @property
    def only_names(self) -> bool:
        """Whether the tools are not known beyond their names."""
        return not isinstance(self.tools, Mapping)

    def named(self, definition: Definition) -> list[str]:
        """Return the tools that *definition* names, by name, by a glob or by a server."""
        return list(names_of(attached(definition, self.tools)))


def _fields(definition: Definition, around: Surroundings) -> None:
    render = added(definition, around.tools, include_render=around.include_render)
    check_fields(definition, render, around.named(definition))


def _servers(definition: Definition, around: Surroundings) -> None:
    check_servers(definition, around.servers.names)


def _tools(definition: Definition, around: Surroundings) -> None:
    check_tools(definition, around.tools, around.looked_for, around.servers.unreached)


def _hooks(definition: Definition, around: Surroundings) -> None:
    check_hooks(definition.hooks, around.channels)


def _addresses(definition: Definition, around: Surroundings) -> None:
    if around.guard is not None:
        check_addresses(definition.hooks, around.guard)


def _matchers(definition: Definition, around: Surroundings) -> None:
    """Where only names are known, a hook may name each of them: which of the agent's own wrap which is not known."""
    wraps = around.tools if around.only_names else wrapped(definition, around.tools)
    away = {*definition.mcp_servers} & {*around.servers.unreached}
    awaited = [hook.matcher for hook in definition.hooks if hook.matcher is not None and is_of(hook.matcher, away)]
    check_matchers(definition, [*around.named(definition), *wraps, *awaited])


CHECKS: Mapping[str, Callable[[Definition, Surroundings], None]] = {
    "fields": _fields,
    "servers": _servers,
    "tools": _tools,
    "hooks": _hooks,
    "addresses": _addresses,
    "matchers": _matchers,
}
"""Every check of an agent beside those of its models, each of which raises `InvalidInput`."""


def check_agent(definition: Definition, around: Surroundings) -> None:
    """Raise `InvalidInput` when *definition* could not run with what is *around* it; its models are not looked at."""
    for check in CHECKS.values():
        check(definition, around)
