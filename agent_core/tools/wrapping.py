"""Definitions that give a tool that is there another name, presets or an output: kinds `python` and `mcp`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core.agents import ToolDefinition, ToolSource, ToolSpec, secrets_in
from agent_core.channels import misfit_in
from agent_core.errors import InvalidInput
from agent_core.servers import PREFIX
from agent_core.tools.base import CallContext, Outcome, Tool
from agent_core.tools.kinds import spec_of
from agent_core.tools.mcp.served import ServedTool
from agent_core.tools.toolset import unknown_server


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
