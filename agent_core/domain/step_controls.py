"""The controls of a step: what it may do, and how a model's API gets that where the prompt has the router's tools."""

import msgspec
from msgspec.structs import replace

from agent_core.domain.agents import ALL_ROUTER_TOOLS, CALL_TOOL, Agent, is_of_router
from agent_core.domain.controls import Controls, Defaults, NamedTool, Override, merged, resolve


def controls(
    n: int,
    agent: Agent,
    model: str | None = None,
    *,
    override: Override | None = None,
    defaults: Defaults | None = None,
) -> Controls:
    """Return what step *n* (from 1) of a run of *agent* may do.

    *override* is for this step alone; below it are the rule for the step, the *defaults* of a resume, the run and the
    agent. *model* is a fallback that took over.
    """
    controls = merged(defaults, agent.overrides, agent.definition.controls)
    controls = replace(controls, model=model or agent.snapshot.model)
    chosen = resolve(n, controls, override, {name: spec.kind for name, spec in agent.tools.items()})
    active = chosen.active_tools
    if active is None or not agent.calls_by_name or agent.prompted.issuperset(active):
        return chosen
    ways = [name for name in ALL_ROUTER_TOOLS if is_of_router(agent.tools.get(name)) and name not in active]
    return replace(chosen, active_tools=(*active, *ways))


def as_prompted(sends: Controls, agent: Agent) -> Controls:
    """Return what a model's API gets of a step's controls, *sends*, in terms of the tools that the prompt has.

    A tool outside the prompt is called by `call_tool`; that no other is called is then seen to here, see `refusal`.
    """
    if not agent.calls_by_name:
        return sends
    prompted, active = agent.prompted, sends.active_tools
    if isinstance(sends.tool_choice, NamedTool) and sends.tool_choice.tool not in prompted:
        sends = replace(sends, tool_choice=NamedTool(CALL_TOOL))
    if active is None:
        return sends
    seen = tuple(name for name in active if name in prompted)
    return replace(sends, active_tools=None if len(seen) == len(prompted) else seen)


def forced_by_name(before: Controls | None, now: Controls, agent: Agent) -> str | None:
    """Return the note on a tool that must be called and is not in the prompt, with what the model has to know of it.

    None where none must, or the step *before* said so already.
    """
    choice = now.tool_choice
    if not isinstance(choice, NamedTool) or (before is not None and before.tool_choice == choice):
        return None
    spec = agent.tools.get(choice.tool)
    if spec is None or not agent.calls_by_name or spec.name in agent.prompted:
        return None
    prompted = msgspec.json.encode({"name": spec.name, "description": spec.description, "parameters": spec.parameters})
    return f"Call `{CALL_TOOL}` now, for this tool: {prompted.decode()}"
