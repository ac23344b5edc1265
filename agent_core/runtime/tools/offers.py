"""Offers: the tools in an agent's prompt, those that show tables and charts among them without being named; pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import cast

import structlog
from msgspec.structs import replace

from agent_core.agents import (
    RENDER_TOOLS,
    ROUTER_TOOLS,
    Agent,
    DeclaredTool,
    Definition,
    ToolSpec,
    chain,
    is_glob,
    is_of_router,
)
from agent_core.context.router import grows
from agent_core.context.snapshot import variant
from agent_core.runtime.mcp.offers import is_of, served_by
from agent_core.tools.base import Tool

_log = structlog.get_logger("parley.agents")
_OWN_SETTINGS = frozenset({*RENDER_TOOLS, *ROUTER_TOOLS})


def offered(definition: Definition, tools: Mapping[str, Tool], *, include_render: bool) -> Sequence[ToolSpec]:
    """Return the specs of the tools that a new session's prompt has, of the *tools* of this process.

    *include_render* is what holds for agents that say nothing; it takes out no tool that an agent names.
    """
    listed = [
        tools[tool].spec if isinstance(tool, str) else tool.spec
        for tool in attached(definition, tools)
        if isinstance(tool, DeclaredTool) or (tool in tools and not _is_taken_out(tool, definition))
    ]
    return [*listed, *(tools[name].spec for name in added(definition, tools, include_render=include_render))]


def attached(definition: Definition, tools: Collection[str] | Mapping[str, Tool]) -> Sequence[str | DeclaredTool]:
    """Return what the agent's `tools` name, with each glob replaced by those of *tools* that it matches, sorted.

    The tools of its MCP servers are among them, if *tools* are tools and not only names.

    A tool is there once, an exact name before any glob. No glob matches the render tools or those of the router: they
    come by settings of their own.
    """
    listed = [tool for tool in definition.tools if isinstance(tool, DeclaredTool) or not is_glob(tool)]
    globs = [tool for tool in definition.tools if isinstance(tool, str) and is_glob(tool)]
    taken = {*_OWN_SETTINGS, *(tool if isinstance(tool, str) else tool.name for tool in listed)}
    more = {name for name in tools if name not in taken and any(fnmatchcase(name, glob) for glob in globs)}
    more.update(name for name in served_by(definition.mcp_servers, tools) if name not in taken)
    return [*listed, *sorted(more)]


def names_of(tools: Iterable[str | DeclaredTool]) -> Sequence[str]:
    """Return the names of *tools*."""
    return [tool if isinstance(tool, str) else tool.name for tool in tools]


def wrapped(definition: Definition, available: Collection[str] | Mapping[str, Tool]) -> Sequence[str]:
    """Return the names of the tools that others of the agent wrap, which hooks may name; none of names alone."""
    if not isinstance(available, Mapping):
        return []
    tools = cast("Mapping[str, Tool]", available)
    specs = [tools[name].spec for name in names_of(attached(definition, tools)) if name in tools]
    return sorted({spec.wraps for spec in specs if spec.wraps is not None})


def unmatched_globs(definition: Definition, tools: Collection[str]) -> Sequence[str]:
    """Return the globs of the agent's `tools` that match none of *tools*."""
    globs = [tool for tool in definition.tools if isinstance(tool, str) and is_glob(tool)]
    return [glob for glob in globs if not any(fnmatchcase(name, glob) for name in tools)]


def warn_of_offer(definition: Definition, tools: Collection[str], *, searches: bool) -> None:
    """Log what an agent's author has written of its tools and has no effect here; *searches*: its model can."""
    for glob in unmatched_globs(definition, tools):
        remedy = "correct it, unless such tools will be added later"
        _log.warning("agent.glob_matches_nothing", agent=definition.name, glob=glob, remedy=remedy)
    warn_of_router(definition, searches=searches)


def warn_of_router(definition: Definition, *, searches: bool) -> None:
    """Log that an agent with `router: native` has the router's three tools: its model, which does not, *searches*."""
    if definition.router == "native" and not searches:
        remedy = "name a model whose provider loads tools, or set `router: meta`, which is what it has meanwhile"
        _log.warning("agent.router_not_native", agent=definition.name, remedy=remedy)


def lacking(definition: Definition, tools: Collection[str], servers: Collection[str] = ()) -> Sequence[str]:
    """Return the exact names in the agent's `tools` that are not among *tools*, nor of one of the MCP *servers*."""
    exact = [tool for tool in definition.tools if isinstance(tool, str) and not is_glob(tool)]
    return [tool for tool in exact if tool not in tools and not is_of(tool, servers)]


def added(definition: Definition, tools: Collection[str], *, include_render: bool) -> Sequence[str]:
    """Return the render tools that an agent has without naming them, of the *tools* of this process."""
    wanted = definition.controls.include_render
    if not (include_render if wanted is None else wanted):
        return []
    listed = names_of(definition.tools)
    return [name for name in RENDER_TOOLS if name in tools and name not in listed]


def with_renders(agent: Agent, *, include: bool) -> Agent:
    """Return *agent* as a run has it that brings `include_render`: with its render tools in the prompt, or without."""
    frozen = agent.snapshot.tools
    names = {spec.name for spec in frozen}
    if include:
        more = [spec for spec in agent.render_tools if spec.name not in names]
        wanted = [*frozen, *more]
        tools = {**agent.tools, **{spec.name: spec for spec in more}}
    else:
        wanted = [spec for spec in frozen if spec.kind != "function" or spec.name not in RENDER_TOOLS]
        gone = names - {spec.name for spec in wanted}
        tools = {name: spec for name, spec in agent.tools.items() if name not in gone}
    if len(wanted) == len(frozen):
        return agent
    snapshot = variant(agent.snapshot, agent.definition, tools=wanted)
    return replace(agent, snapshot=snapshot, tools=tools)


def with_later(agent: Agent, tools: Mapping[str, Tool]) -> Agent:
    """Return *agent* with the tools that came after its prompt was frozen, of the *tools* of now.

    They are what its definition names now, a tool that is gone aside; its prompt must have the router's `call_tool`.
    """
    if not (agent.calls_by_name and grows(agent.definition)):
        return agent
    definition, frozen = agent.definition, {spec.name for spec in agent.snapshot.frozen}
    here = replace(definition, tools=tuple(each for each in definition.tools if _is_here(each, tools)))
    now = offered(here, tools, include_render=False)
    later = {spec.name: guarded(spec, definition) for spec in now if spec.name not in frozen}
    before = {name: spec for name, spec in agent.tools.items() if name in frozen}
    return replace(agent, tools={**before, **later}) if later or len(before) < len(agent.tools) else agent


def current(frozen: ToolSpec, tools: Mapping[str, Tool]) -> ToolSpec:
    """Return the spec of a tool with what the model sees of it *frozen*, and the rest as it is now."""
    tool = tools.get(frozen.name)
    if tool is None or frozen.kind != "function" or is_of_router(frozen):
        return frozen
    return replace(tool.spec, description=frozen.description, parameters=frozen.parameters)


def offer_the_same(before: Mapping[str, Tool], now: Mapping[str, Tool]) -> bool:
    """Return whether two looks at a toolset give tools with equal specs: some kinds build their tools at each look."""
    return before == now or (
        before.keys() == now.keys() and all(tool.spec == now[name].spec for name, tool in before.items())
    )


def guarded(spec: ToolSpec, definition: Definition) -> ToolSpec:
    """Return *spec* as one that writes if people approve its calls: a call that was approved once runs once."""
    asks = definition.hooks and not is_of_router(spec)
    hooks = chain(definition.hooks, "PreToolUse", spec.names) if asks else ()
    return replace(spec, effect="write") if any(hook.hook.type == "approval" for hook in hooks) else spec


def _is_here(tool: str | DeclaredTool, tools: Collection[str]) -> bool:
    """Return whether *tool* of a definition is a glob, or here: it may have gone since the prompt was frozen."""
    return not isinstance(tool, str) or is_glob(tool) or tool in tools


def _is_taken_out(tool: str, definition: Definition) -> bool:
    return tool in RENDER_TOOLS and definition.controls.include_render is False
