"""What is refused of a tool's or an agent's definition, on its own and with what there is beside it."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, cast

import msgspec

from agent_core import quotas
from agent_core.agent.router import grows
from agent_core.agent.snapshot import OFF, is_zone
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
    ToolDefinition,
    is_glob,
)
from agent_core.channels import Channels
from agent_core.controls import check as check_controls
from agent_core.errors import InvalidInput
from agent_core.hooks.rules import check as check_hooks
from agent_core.hooks.rules import check_addresses, check_matchers
from agent_core.net.targets import TargetGuard
from agent_core.runtime.offers import NoServers, Servers, added, attached, check_servers, is_of, names_of, wrapped
from agent_core.schemas import problems, schema_problem, unsendable
from agent_core.servers import PREFIX
from agent_core.tools.base import REPEATED, Tool, repeats
from agent_core.tools.functions import NAME
from agent_core.tools.output import OutputFailed, check_compiles, check_output, without
from agent_core.tools.toolset import KindFactory, unknown_tool

MAX_TIMEOUT = 3_600
"""Seconds of one call."""
MAX_LIMIT = 1_000_000
"""Characters of one result that a model may read."""
MAX_DESCRIPTION = 10_000
MAX_TITLE = 100
MAX_CONTEXT = 50
MAX_CONFIG = 64_000
"""Bytes of JSON, of `config`, of `preset` and of `tests`."""
MAX_TESTS = 20
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"tool_[A-Za-z0-9_-]{16}")


def check_definition(definition: ToolDefinition, factory: KindFactory, tools: Mapping[str, Tool]) -> None:
    """Raise `InvalidInput`, with the path of the field, for a definition that cannot work.

    *factory* is that of its kind, *tools* are the tools that need no definition. A schema takes up to a second.
    """
    _check_name(definition.name)
    _check_texts(definition)
    _check_bounds(definition)
    if definition.parameters is not None:
        check_parameters(definition.parameters)
    if definition.output is not None:
        try:
            check_output(definition.output)
        except ValueError as error:
            raise InvalidInput("output", str(error)) from None
    for name in ("config", "preset", "tests"):
        if len(msgspec.json.encode(getattr(definition, name))) > MAX_CONFIG:
            raise InvalidInput(name, f"at most {MAX_CONFIG:,} bytes of JSON.")
    factory.check(definition)
    tool = factory.tool(definition, tools)
    if tool is None and definition.kind == "python":  # an MCP server may be away now
        raise InvalidInput("config.tool", unknown_tool(str(definition.config.get("tool")), tools))
    if tool is not None:
        if not tool.spec.description.strip():
            raise InvalidInput("description", "say what the tool does, for the model to read.")
        check_preset(definition.preset, tool.spec.parameters)
        _check_tests(definition, tool.spec.parameters)


async def check_program(definition: ToolDefinition) -> None:
    """Raise `InvalidInput` for an `output` whose jq program cannot be compiled, which a process of its own tries."""
    try:
        await check_compiles(definition.output or "")
    except OutputFailed as error:
        raise InvalidInput("output", str(error)) from None


def check_parameters(parameters: dict[str, Any], path: str = "parameters") -> None:
    """Raise `InvalidInput`, at *path*, for what is no JSON Schema of an object, or refused by vendors of models."""
    if parameters.get("type") != "object":
        raise InvalidInput(path, 'a JSON Schema of an object: begin with `"type": "object"`.')
    if fault := schema_problem(parameters):
        fault = fault.within(path)
        raise InvalidInput(fault.path, f"no JSON Schema (draft 2020-12): {fault.message}")
    if fault := unsendable(parameters):
        fault = fault.within(path)
        raise InvalidInput(fault.path, fault.message)


def check_preset(preset: Mapping[str, Any], parameters: dict[str, Any]) -> None:
    """Raise `InvalidInput` for a preset of a parameter that *parameters* do not have, or that does not fit it."""
    named = parameters.get("properties")
    properties = cast("dict[str, Any]", named) if isinstance(named, dict) else {}
    for name, value in preset.items():
        path = f"preset.{name}"
        if name not in properties:
            listed = ", ".join(f"`{each}`" for each in properties) or "none"
            raise InvalidInput(path, f"there is no such parameter; the parameters are: {listed}.")
        # By the whole schema, since a reference leads to another part of it.
        alone = {key: each for key, each in parameters.items() if key in ("$defs", "definitions")}
        for fault in problems({**alone, "type": "object", "properties": {name: properties[name]}}, {name: value}, 1):
            raise InvalidInput(f"preset{fault.path.removeprefix('$')}", fault.message)


def _check_tests(definition: ToolDefinition, parameters: dict[str, Any]) -> None:
    """Refuse examples of calls that would end in another way than they say, before anything is called."""
    if len(definition.tests) > MAX_TESTS:
        raise InvalidInput("tests", f"at most {MAX_TESTS}.")
    seen = without(parameters, definition.preset)
    for place, example in enumerate(definition.tests):
        if example.outcome == "done" and (faults := problems(seen, example.arguments, 1)):
            fault = faults[0].within(f"tests[{place}].arguments")
            raise InvalidInput(fault.path, fault.message)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidInput("name", "a tool's name has 1 to 64 letters, digits, `_` and `-`.")
    if name.startswith(PREFIX):
        raise InvalidInput("name", f"`{PREFIX}` begins the names of MCP servers' tools; choose another name.")
    if _ID.fullmatch(name):
        raise InvalidInput("name", "a name that reads like the id of a tool; choose another one.")


def _check_texts(definition: ToolDefinition) -> None:
    if len(definition.description) > MAX_DESCRIPTION:
        raise InvalidInput("description", f"at most {MAX_DESCRIPTION:,} characters.")
    for name, title in (("title", definition.title), ("title_done", definition.title_done)):
        if title is not None and not 1 <= len(title.strip()) <= MAX_TITLE:
            raise InvalidInput(name, f"a title has 1 to {MAX_TITLE} characters; leave it out for none.")
    if definition.resource is not None and not _KEY.fullmatch(definition.resource):
        raise InvalidInput("resource", "a resource has 1 to 64 letters, digits, `_` and `-`.")
    if len(definition.context) > MAX_CONTEXT:
        raise InvalidInput("context", f"at most {MAX_CONTEXT} keys.")
    for place, key in enumerate(definition.context):
        if not _KEY.fullmatch(key):
            raise InvalidInput(f"context[{place}]", "a key has 1 to 64 letters, digits, `_` and `-`.")
        if repeats(key, definition.context[:place]):
            raise InvalidInput(f"context[{place}]", REPEATED)


def _check_bounds(definition: ToolDefinition) -> None:
    if not 0 < definition.timeout_s <= MAX_TIMEOUT:  # a NaN is refused too
        raise InvalidInput("timeout_s", f"seconds above 0, at most {MAX_TIMEOUT:,}.")
    if not 1 <= definition.result_limit <= MAX_LIMIT:
        raise InvalidInput("result_limit", f"between 1 and {MAX_LIMIT:,} characters.")


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
    _check_agent_name(definition.name)
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
    limit = definition.tool_limit
    if limit is not None and not 0 <= limit <= MAX_TOOL_LIMIT:
        raise InvalidInput("tool_limit", f"between 0 and {MAX_TOOL_LIMIT}; 0: always.")
    listed = names_of(definition.tools) if named is None else named
    if definition.controls.include_render is False:
        tools = [name for name in listed if name not in RENDER_TOOLS]
    else:
        tools = [*listed, *(name for name in added if name not in listed)]
    most = PLAIN_DEFAULTS.tool_limit if limit is None else limit
    if grows(definition) or (definition.router != "off" and len(listed) > most):  # its prompt may have the router's
        tools += (*ROUTER_TOOLS, SEARCH_TOOLS) if definition.router == "native" else ROUTER_TOOLS
    check_controls(definition.controls, _Listed(tools))


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


def _check_agent_name(name: str) -> None:
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
