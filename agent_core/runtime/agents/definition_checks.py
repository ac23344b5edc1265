"""What an agent's definition says, checked by itself and against the tools that are there; pure."""

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from agent_core import quotas
from agent_core.agents import (
    MAX_CONTRACT,
    MAX_IDLE,
    MAX_TOOL_LIMIT,
    PLAIN_DEFAULTS,
    RENDER_TOOLS,
    ROUTER_TOOLS,
    SEARCH_TOOLS,
    DeclaredTool,
    Definition,
    is_glob,
)
from agent_core.context.clock import OFF, is_zone
from agent_core.context.router import grows
from agent_core.controls import check as check_controls
from agent_core.errors import InvalidInput
from agent_core.runtime.mcp.offers import is_of
from agent_core.runtime.tools.checks import check_parameters
from agent_core.runtime.tools.offers import names_of
from agent_core.servers import PREFIX
from agent_core.tools.functions import NAME
from agent_core.tools.toolset import unknown_tool

MAX_NAME = 100
MAX_RUNS = 1_000_000
MAX_INSTRUCTIONS = 200_000
RESERVED = "agent_"
"""The prefix of ids, forbidden for names: an agent named like another's id would be found instead of it."""


class _Listed(Collection[str]):
    """The tools that *listed* names and globs may mean."""

    def __init__(self, listed: Sequence[str]) -> None:
        self._listed = listed

    def __contains__(self, name: object) -> bool:
        return any(fnmatchcase(str(name), each) for each in self._listed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


def check_fields(
    definition: Definition, added: Collection[str] = RENDER_TOOLS, named: Sequence[str] | None = None
) -> None:
    """Raise `InvalidInput` for what no process could run, whatever tools, models and channels it has.

    *added* are tools that the agent may have without naming them, *named* those that it names; without those its globs
    may mean any that they match.
    """
    _check_name(definition.name)
    if len(definition.instructions) > MAX_INSTRUCTIONS:
        raise InvalidInput("instructions", f"instructions have at most {MAX_INSTRUCTIONS} characters.")
    _check_prompt(definition)
    limit = definition.limits.max_context_messages
    if limit is not None and limit < 2:  # noqa: PLR2004 - a question and its answer
        raise InvalidInput("limits.max_context_messages", "at least 2, or null for all.")
    if definition.limits.max_runs is not None and not 1 <= definition.limits.max_runs <= MAX_RUNS:
        raise InvalidInput("limits.max_runs", f"between 1 and {MAX_RUNS}, or null for no bound.")
    for scope in quotas.SCOPES:
        quotas.check(scope, getattr(definition.limits, scope))
    check_router(definition)
    listed = names_of(definition.tools) if named is None else named
    if definition.controls.include_render is False:
        tools = [name for name in listed if name not in RENDER_TOOLS]
    else:
        tools = [*listed, *(name for name in added if name not in listed)]
    tools = [*tools, *_ways(definition)] if _may_route(definition, len(listed)) else tools
    check_controls(definition.controls, _Listed(tools))


def check_router(definition: Definition) -> None:
    """Raise `InvalidInput` for a router that cannot work."""
    limit = definition.tool_limit
    if limit is not None and not 0 <= limit <= MAX_TOOL_LIMIT:
        raise InvalidInput("tool_limit", f"between 0 and {MAX_TOOL_LIMIT}; 0: always.")


def check_tools(
    definition: Definition, tools: Collection[str], looked_for: str, awaited: Collection[str] | None = None
) -> None:
    """Raise `InvalidInput` for tools that are not among those *tools*, or that no model could be offered."""
    names: set[str] = set()
    for index, tool in enumerate(definition.tools):
        path = f"tools[{index}]"
        if isinstance(tool, str) and not is_glob(tool) and tool not in tools and not _may_come(tool, awaited):
            raise InvalidInput("tools", unknown_tool(tool, tools, looked_for))
        name = tool if isinstance(tool, str) else tool.name
        if name in ROUTER_TOOLS or (name == SEARCH_TOOLS and definition.router == "native"):
            raise InvalidInput(path, f"`{name}` is a name of the router's; give the tool another one.")
        if name in names:
            raise InvalidInput(path, f"the tool `{name}` is there twice; names are unique.")
        names.add(name)
        if not isinstance(tool, str):
            _check_declared(path, tool, tools)


def _may_come(tool: str, awaited: Collection[str] | None) -> bool:
    return tool.startswith(PREFIX) if awaited is None else is_of(tool, awaited)


def _ways(definition: Definition) -> Sequence[str]:
    """Return the router's tools that the prompt of *definition* may have; which of them its model decides."""
    return (*ROUTER_TOOLS, SEARCH_TOOLS) if definition.router == "native" else ROUTER_TOOLS


def _may_route(definition: Definition, listed: int) -> bool:
    """Return whether the prompt of an agent that lists so many tools may have those of the router."""
    own = definition.tool_limit
    limit = PLAIN_DEFAULTS.tool_limit if own is None else own
    return grows(definition) or (definition.router != "off" and listed > limit)


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME or {"/", "\0"} & set(name):
        raise InvalidInput("name", f"a name has 1 to {MAX_NAME} characters, no slash and no U+0000.")
    if name in {".", ".."}:
        raise InvalidInput("name", f"`{name}` cannot be part of a path; choose another name.")
    if name.startswith(RESERVED):
        raise InvalidInput("name", f"`{name}` begins with `{RESERVED}`, as ids do; choose another name.")


def _check_prompt(definition: Definition) -> None:
    """Raise `InvalidInput` for texts that are too long for a prompt, and a pause that is no time."""
    persona = {} if definition.persona is None else msgspec.structs.asdict(definition.persona)
    texts = {f"persona.{name}": text for name, text in persona.items()}
    for path, text in {"operating_contract": definition.operating_contract, **texts}.items():
        if len(text or "") > MAX_CONTRACT:
            raise InvalidInput(path, f"at most {MAX_CONTRACT} characters.")
    if definition.clock not in (None, OFF) and not is_zone(definition.clock):
        raise InvalidInput("clock", "the IANA name of a time zone, such as `Europe/Berlin`, or `off`.")
    idle = definition.idle_refreeze_s
    if idle is not None and not 0 <= idle <= MAX_IDLE:
        raise InvalidInput("idle_refreeze_s", f"between 0 and {MAX_IDLE} seconds.")


def _check_declared(path: str, tool: DeclaredTool, tools: Collection[str]) -> None:
    """Raise `InvalidInput` when a model could not be offered *tool*."""
    if not NAME.fullmatch(tool.name):
        raise InvalidInput(f"{path}.name", "a tool's name has 1 to 64 letters, digits, `_` and `-`.")
    if tool.name in tools:
        raise InvalidInput(f"{path}.name", f"`{tool.name}` is a tool of this server; choose another name.")
    if not tool.description.strip():
        raise InvalidInput(f"{path}.description", "say what the tool does, for the model to read.")
    check_parameters(tool.parameters, f"{path}.parameters")
