"""The router's own tools as a run calls them; what they show is what the session's snapshot has frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.agents import CALL_TOOL, LIST_RESOURCES, SEARCH_TOOLS, USE_RESOURCE, Agent, ToolSpec
from agent_core.context import router
from agent_core.messages import Text
from agent_core.tools.base import CallContext, Done, Outcome, Tool, ToolError


@dataclass(frozen=True, slots=True)
class ListResources:
    """Find the resources of the tools *routed*."""

    spec: ToolSpec
    routed: Sequence[ToolSpec]

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:  # noqa: ARG002 - the port has it
        return Done((Text(router.listing(self.routed, arguments.get("query"))),))


@dataclass(frozen=True, slots=True)
class UseResource:
    """Show the tools of a resource of those *routed*; that it is open then is folded from the log."""

    spec: ToolSpec
    routed: Sequence[ToolSpec]

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:  # noqa: ARG002 - the port has it
        text = router.definitions(self.routed, arguments["name"], arguments.get("tools"))
        return ToolError(router.no_resource(self.routed, arguments["name"])) if text is None else Done((Text(text),))


@dataclass(frozen=True, slots=True)
class SearchTools:
    """Find tools of those *routed*, for the model's API to load; what is loaded is folded from the log."""

    spec: ToolSpec
    routed: Sequence[ToolSpec]

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:  # noqa: ARG002 - the port has it
        text, tools = router.search(self.routed, arguments["query"], arguments.get("limit", router.FOUND))
        return Done((Text(text),), loaded=tools)


@dataclass(frozen=True, slots=True)
class CallTool:
    """What is left of `call_tool`: a call that means no other tool; one that does is recorded as a call of that."""

    spec: ToolSpec

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:  # noqa: ARG002 - the port has it
        return ToolError(f"Name the tool that you want to call, not `{CALL_TOOL}`.")


def router_tools(agent: Agent) -> Mapping[str, Tool]:
    """Return those of the router's tools that the prompt of *agent* has."""
    if not agent.calls_by_name:
        return {}
    routed = agent.snapshot.routed
    tools: dict[str, Tool] = {CALL_TOOL: CallTool(agent.tools[CALL_TOOL])}
    if agent.snapshot.searches:
        tools[SEARCH_TOOLS] = SearchTools(agent.tools[SEARCH_TOOLS], routed)
    elif routed:
        tools[LIST_RESOURCES] = ListResources(agent.tools[LIST_RESOURCES], routed)
        tools[USE_RESOURCE] = UseResource(agent.tools[USE_RESOURCE], routed)
    return tools
