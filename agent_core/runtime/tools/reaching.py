"""Reaching tools that are not in the prompt: which of them a model may call, and what it reads of the others; pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from agent_core import events as e
from agent_core.agents import LIST_RESOURCES, SEARCH_TOOLS, Agent, ToolSpec, is_of_router
from agent_core.context import router
from agent_core.context.loading import loaded_in
from agent_core.context.window import Window
from agent_core.loop.state import RunState
from agent_core.loop.waiting import CallState
from agent_core.tools.base import Done
from agent_core.tools.toolset import unknown_tool


def unknown(agent: Agent, name: str) -> str:
    """Return the text for a model that calls a tool *name* that there is none of."""
    others = agent.tools.keys() - {name}
    if agent.snapshot.routed:
        return router.unknown(name, others, SEARCH_TOOLS if agent.snapshot.searches else LIST_RESOURCES)
    text = unknown_tool(name, others)
    return text[0].upper() + text[1:]


def unread(agent: Agent, call: CallState, state: RunState, window: Window) -> str | None:
    """Return the text for a model on a tool beside its prompt that it has not read, None for one that it may call.

    What a search found may be called as long as that is in the *window*; a resource is open until the run ends.
    """
    choice = (state.step.controls or {}).get("tool_choice")
    if not agent.snapshot.routed or call.step == 0 or choice == {"tool": call.name}:
        return None  # a call before the first step is of a person's message
    if not agent.snapshot.searches:
        return router.closed(agent, call.name, state.waiting.opened_for(call))
    is_routed = any(spec.name == call.name for spec in agent.snapshot.routed)
    return router.not_found_yet(call.name) if is_routed and call.name not in _loaded(window) else None


def _loaded(window: Window) -> frozenset[str]:
    return loaded_in(entry.message for entry in window.entries)


def with_loaded(spec: ToolSpec, outcome: Done, facts: Sequence[e.FactBody]) -> Sequence[e.FactBody]:
    """Return *facts*, of which the last one ends a call, with what a search of the router's own found."""
    end = facts[-1]
    if not outcome.loaded or not is_of_router(spec) or not isinstance(end, e.ToolCompleted):
        return facts
    return [*facts[:-1], replace(end, loaded=outcome.loaded)]
