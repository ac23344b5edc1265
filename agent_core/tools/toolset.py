"""Toolsets: where tools come from. A kind of tools is one toolset; toolsets are composed by wrapping."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

from msgspec import structs

from agent_core.agents import ToolSpec
from agent_core.controls import hint
from agent_core.tools.base import CallContext, Outcome, Tool


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
class Prefixed:
    """The tools of *inner*, each under a name that begins with *prefix*."""

    inner: Toolset
    prefix: str

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        tools = await self.inner.tools(scope)
        return {f"{self.prefix}{name}": _Renamed(tool, f"{self.prefix}{name}") for name, tool in tools.items()}


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


@dataclass(frozen=True, slots=True)
class _Renamed:
    """*inner* under another *name*."""

    inner: Tool
    name: str

    @property
    def spec(self) -> ToolSpec:
        return structs.replace(self.inner.spec, name=self.name)

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        return await self.inner.call(arguments, context)


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
