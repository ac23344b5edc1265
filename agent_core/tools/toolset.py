"""Toolsets of an agent, the kinds of defined tools, and tools that wrap another."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from agent_core.agents import ToolDefinition, ToolSource, ToolSpec, secrets_in
from agent_core.channels import misfit_in
from agent_core.controls import hint
from agent_core.errors import InvalidInput
from agent_core.mcp.served import ServedTool
from agent_core.servers import PREFIX
from agent_core.tools.base import CallContext, Outcome, Tool


class KindFactory(Protocol):
    """Makes the tools of one kind of definitions.

    Presets, the `output` mapping and the bounds of a call are added around what it makes, for every kind alike.
    """

    def check(self, definition: ToolDefinition) -> None:
        """Raise `InvalidInput`, with the path of the field such as `config.url`, for what cannot work anywhere.

        It is called in a thread, before `tool`; what all kinds have in common has been checked by then.
        """
        ...

    def tool(self, definition: ToolDefinition, tools: Mapping[str, Tool], /) -> Tool | None:
        """Return the tool of a checked *definition*; None while something that it needs is not here.

        Its spec (`spec_of`) has all parameters, those with a preset too, and its `call` gets them merged. *tools* are
        the tools that are not defined: those that ship, of Python files, and of MCP servers. It does no I/O.
        """
        ...

    async def faults(self, definition: ToolDefinition, /) -> Sequence[str]:
        """Return what keeps its calls from working now, a sentence with the remedy each, without calling it.

        For `parley tools test` and `parley doctor`: a missing secret, an address that the guard refuses, a server that
        does not answer. It ends within seconds.
        """
        ...


def spec_of(
    definition: ToolDefinition,
    *,
    parameters: dict[str, Any],
    effect: Literal["read", "write"],
    description: str | None = None,
    concurrency_safe: bool | None = None,
) -> ToolSpec:
    """Return the spec of *definition*; the other arguments are what its kind says where it is silent.

    *concurrency_safe* None: reads are, writes are not.
    """
    effect = definition.effect or effect
    safe = definition.concurrency_safe if definition.concurrency_safe is not None else concurrency_safe
    return ToolSpec(
        name=definition.name,
        description=definition.description or description or "",
        parameters=parameters if definition.parameters is None else definition.parameters,
        effect=effect,
        concurrency_safe=effect == "read" if safe is None else safe,
        idempotent=definition.idempotent,
        timeout=definition.timeout_s,
        result_limit=definition.result_limit,
        title=definition.title,
        title_done=definition.title_done,
        source=definition.kind,
        untrusted=definition.untrusted,
        resource=definition.resource,
        pinned=definition.pinned,
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """For whom tools are asked for: the id of an agent, None while its definition is still being checked."""

    agent: str | None = None


class Toolset(Protocol):
    """Tools by name.

    It is asked when an agent is checked, when a session is opened or loaded, and when a step calls tools. What the
    model is offered is frozen in the session's snapshot; a tool that has gone since then fails when it is called.
    """

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        """Return the tools of *scope*, each under the name in its spec.

        An error ends the request, or the segment of the run, which the engine then tries again: a kind that may be away
        for a while gives tools whose calls fail.
        """
        ...


@runtime_checkable
class Refreshable(Protocol):
    """A toolset whose tools other processes change too."""

    async def refresh(self) -> None:
        """Take up what they have changed now; without it that takes up to a second."""
        ...


@dataclass(frozen=True, slots=True)
class Static:
    """The same tools for every scope."""

    by_name: Mapping[str, Tool]

    async def tools(self, _scope: Scope, /) -> Mapping[str, Tool]:
        return self.by_name


@dataclass(frozen=True, slots=True)
class Merged:
    """The tools of several *sets*; of two with one name the earlier set's is taken, so that none is replaced."""

    sets: tuple[Toolset, ...]

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        tools: dict[str, Tool] = {}
        for each in self.sets:
            tools = {**await each.tools(scope), **tools}
        return tools


@dataclass(frozen=True, slots=True)
class Only:
    """The tools of *inner* whose names match one of the globs *allow*."""

    inner: Toolset
    allow: tuple[str, ...]

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        tools = await self.inner.tools(scope)
        return {name: tool for name, tool in tools.items() if any(fnmatchcase(name, glob) for glob in self.allow)}


@dataclass(frozen=True, slots=True)
class Noted:
    """The tools of *inner*; *note* gets the names of all that were returned."""

    inner: Toolset
    note: Callable[[Collection[str]], None]

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        tools = await self.inner.tools(scope)
        self.note(tools)
        return tools

    async def refresh(self) -> None:
        if isinstance(self.inner, Refreshable):
            await self.inner.refresh()


def toolset_of(tools: Toolset | Mapping[str, Tool]) -> Toolset:
    """Return *tools* as a toolset; a mapping gives the same tools for every scope."""
    return Static(tools) if isinstance(tools, Mapping) else tools


async def tools_with(toolset: Toolset, scope: Scope, names: Iterable[str]) -> Mapping[str, Tool]:
    """Return the tools of *scope*; if one of *names* is not among them, another process may have just made it."""
    tools = await toolset.tools(scope)
    if isinstance(toolset, Refreshable) and any(name not in tools for name in names):
        await toolset.refresh()
        tools = await toolset.tools(scope)
    return tools


def unknown_server(name: str, servers: Collection[str]) -> str:
    """Return the sentence on a *name* that no MCP server has, with the likely one."""
    listed = ", ".join(f"`{each}`" for each in sorted(servers)) or "none"
    return f"there is no MCP server `{name[:100]}`{hint(name, servers)}; the servers are: {listed}."


def unknown_tool(name: str, tools: Collection[str], looked_for: str = "") -> str:
    """Return what is wrong with the *name* of a tool that is not among *tools*, with the likely one if there is one.

    *looked_for* is a sentence on where tools come from.
    """
    text = f"there is no tool `{name}`{hint(name, tools)}; the tools are: {', '.join(sorted(tools)) or 'none'}."
    return f"{text} {looked_for}" if looked_for else text


class PythonConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The name of a tool of this process that needs no definition."""

    tool: str


class McpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool of an MCP server, under the server's own name of it."""

    server: str
    tool: str


class Wrapping:
    """The kind of definitions whose tool is one that is there; *config* names it.

    *servers* returns the names of the MCP servers that are defined; None where that is not known.
    """

    def __init__(
        self, config: type[PythonConfig] | type[McpConfig], servers: Callable[[], Collection[str]] | None = None
    ) -> None:
        self._config, self._servers = config, servers

    def check(self, definition: ToolDefinition) -> None:
        """Raise `InvalidInput` for a `config` that names no tool, and for what such a tool has of its own."""
        try:
            config = self._read(definition)
        except msgspec.ValidationError as error:
            raise InvalidInput(*misfit_in("config", error, self._config)) from None
        servers = None if self._servers is None else self._servers()
        if isinstance(config, McpConfig) and servers is not None and config.server not in servers:
            raise InvalidInput("config.server", unknown_server(config.server, servers))
        if definition.parameters is not None:
            raise InvalidInput("parameters", "the tool that it names has them; leave them out.")
        if secrets_in(definition.preset):
            raise InvalidInput("preset", "secrets are filled into HTTP tools only; let the tool that it names read it.")
        if definition.context:
            raise InvalidInput("context", "the tool that it names, or its server, says it; leave it out.")

    def tool(self, definition: ToolDefinition, tools: Mapping[str, Tool], /) -> Tool | None:
        config = self._read(definition)
        inner = tools.get(config.tool) if isinstance(config, PythonConfig) else _served(config, tools)
        return None if inner is None else Wrapped(_spec(definition, inner.spec), inner)

    async def faults(self, definition: ToolDefinition, /) -> Sequence[str]:  # noqa: ARG002 - of the port
        return ()

    def _read(self, definition: ToolDefinition) -> PythonConfig | McpConfig:
        return msgspec.convert(definition.config, self._config)


def _served(config: McpConfig, tools: Mapping[str, Tool]) -> Tool | None:
    """Return the tool that *config* names; the name that agents have it by may end in a hash."""
    likely = tools.get(f"{PREFIX}{config.server}__{config.tool}")
    return next((each for each in (likely, *tools.values()) if _is(each, config)), None)


def _is(tool: Tool | None, config: McpConfig) -> bool:
    return isinstance(tool, ServedTool) and (tool.server.name, tool.tool) == (config.server, config.tool)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """The tool *inner* under another *spec*."""

    spec: ToolSpec
    inner: Tool

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        return await self.inner.call(arguments, context)


def _spec(definition: ToolDefinition, inner: ToolSpec) -> ToolSpec:
    source: ToolSource = "mcp" if definition.kind == "mcp" else "python"
    made = spec_of(
        definition,
        parameters=inner.parameters,
        effect=inner.effect,
        description=inner.description,
        concurrency_safe=inner.concurrency_safe,
    )
    return replace(
        made,
        title=made.title or inner.title,
        title_done=made.title_done or (None if made.title else inner.title_done),
        idempotent=made.idempotent or inner.idempotent,
        untrusted=made.untrusted or inner.untrusted,
        resource=made.resource or inner.resource,
        pinned=made.pinned or inner.pinned,
        source=source,
        wraps=inner.name,
    )
