"""Kinds of defined tools: what makes a tool of a definition, and what a definition says of it in a spec."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from agent_core.agents import ToolDefinition, ToolSpec
from agent_core.tools.base import Tool


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
