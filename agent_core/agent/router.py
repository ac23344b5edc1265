"""The router: an agent with many tools has a few in its prompt, by which the model finds and calls the others. Pure.

The tools that the prompt lacks are frozen beside it. `list_resources` finds them by words, `use_resource` shows all of
those of one resource and opens it for the run, `call_tool` calls one of them by its name. With `router: native` there
is `search_tools` in place of the first two: where the model's API loads what it found, the model calls it directly.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec

from agent_core.agents import (
    CALL_TOOL,
    LIST_RESOURCES,
    RENDER_TOOLS,
    SEARCH_TOOLS,
    USE_RESOURCE,
    Agent,
    Definition,
    ToolSpec,
    is_glob,
)
from agent_core.controls import hint
from agent_core.listings import canonical, resource_of, singular, words_of
from agent_core.messages import LoadedTool

MAX_LISTED = 8_000
"""Characters of a list of resources."""
MAX_SHOWN = 40_000
"""Characters of the definitions that are shown at once: less than a result may have."""
FOUND = 5
"""How many tools a search finds unless it asks for more, as the vendors' own do."""
MAX_FOUND = 20
_SUMMARY = 80
_COMMON = "a i all an and any by can do find for from get how in is it list of on or show the to with"
_STOP_WORDS = frozenset(_COMMON.split())
_NAME, _DESCRIPTION, _BEGINNING = 4.0, 1.0, 0.5
"""What a word of a query counts for a tool: in its name, in its description; the last for a beginning of a name's."""
_SHORT = 3
_Words = tuple[frozenset[str], frozenset[str]]
_NAMED = {"type": "string", "description": "As `list_resources` gave it."}
_LISTS = ToolSpec(
    name=LIST_RESOURCES,
    title="Looking for the right tool",
    description=(
        "Find the tools that are not in your list. They are grouped by what they are about, their resource. Returns "
        "resources with the names of their tools. Then call `use_resource`."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words of what you want to do. Absent: all resources."}
        },
        "additionalProperties": False,
    },
    concurrency_safe=True,
    source="builtin",
    pinned=True,
)
_USES = ToolSpec(
    name=USE_RESOURCE,
    title="Getting tools ready",
    description=(
        "Get the definitions of the tools of a resource: names, descriptions and parameters. Until you have answered, "
        "they can then be called by `call_tool`."
    ),
    parameters={
        "type": "object",
        "properties": {
            "name": _NAMED,
            "tools": {"type": "array", "items": {"type": "string"}, "description": "These only. Absent: all of them."},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    concurrency_safe=True,
    source="builtin",
    pinned=True,
)
_CALL_PARAMETERS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool."},
        "arguments": {"type": "object", "description": "Its arguments, which fit its parameters."},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_CALLS = ToolSpec(
    name=CALL_TOOL,
    title="Calling a tool",
    description="Call a tool that is not in your list: one that `use_resource` has shown, or that a note announces.",
    parameters=_CALL_PARAMETERS,
    source="builtin",
    pinned=True,
)
_CALLS_NEW = msgspec.structs.replace(
    _CALLS, description="Call a tool that is not in your list, because it came later: one that a note announces."
)
_CALLS_FOUND = msgspec.structs.replace(
    _CALLS,
    description=(
        "Call a tool that is not in your list: one whose definition you have read but cannot call by its own name, or "
        "that a note announces."
    ),
)
_SEARCHES = ToolSpec(
    name=SEARCH_TOOLS,
    title="Looking for the right tool",
    description=(
        "Find tools that are not in your list, by words in their names and descriptions. Returns the definitions of "
        "those that fit best. Then call them by their names."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words of what you want to do, or names of tools."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "description": f"Absent: {FOUND}."},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    concurrency_safe=True,
    source="builtin",
    pinned=True,
)


class Offer(NamedTuple):
    """The tools of a new prompt, and those that are *routed*, frozen beside it."""

    prompt: Sequence[ToolSpec]
    routed: Sequence[ToolSpec] = ()


def offer_of(definition: Definition, tools: Sequence[ToolSpec], limit: int, *, searches: bool = False) -> Offer:
    """Return what a new prompt of *definition* has of the *tools* that it is offered; *limit* is its `tool_limit`.

    Tools are counted, and routed, that are not pinned, show no tables or charts, and have an executor. Without a router
    the prompt has `call_tool` where tools may come later: the definition names a server, or a glob. `native` is `meta`
    unless the model *searches*, and where a tool of the agent's own has the name of the search.
    """
    routed = [spec for spec in tools if _is_routed(spec)]
    if definition.router != "off" and routed and (len(routed) > limit or not limit):
        pinned = [spec for spec in tools if not _is_routed(spec)]
        if definition.router == "native" and searches and all(spec.name != SEARCH_TOOLS for spec in tools):
            return Offer((*pinned, _CALLS_FOUND, _SEARCHES), routed)
        return Offer((*pinned, _CALLS, _LISTS, _USES), routed)
    return Offer((*tools, _CALLS_NEW) if grows(definition) else tools)


def grows(definition: Definition) -> bool:
    """Return whether an agent may have more tools later, without a new version of it."""
    return bool(definition.mcp_servers) or any(isinstance(tool, str) and is_glob(tool) for tool in definition.tools)


def unwrapped(name: str, arguments: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the arguments that a call of `call_tool` means; None for any other call, or an unfit one.

    Arguments that are JSON in a text are taken too: some models write them so.
    """
    if name != CALL_TOOL or arguments is None or not arguments.keys() <= {"name", "arguments"}:
        return None
    tool, tool_arguments = arguments.get("name"), arguments.get("arguments", {})
    if isinstance(tool_arguments, str):
        tool_arguments = _decoded(tool_arguments)
    if not isinstance(tool, str) or tool == CALL_TOOL or not isinstance(tool_arguments, dict):
        return None
    return tool, cast("dict[str, Any]", tool_arguments)


def closed(agent: Agent, name: str, opened: Iterable[str]) -> str | None:
    """Return the text for a model that calls the tool *name* before its resource is among those *opened*, else None."""
    spec = next((spec for spec in agent.snapshot.routed if spec.name == name), None)
    if spec is None:
        return None
    resource = resource_of(spec)
    if any(canonical(each) == resource for each in opened):
        return None
    return (
        f"Not run: `{name}` is a tool of the resource `{resource}`, which you have not opened for this message. "
        f'Call `{USE_RESOURCE}` with {{"name": "{resource}"}} first, then call `{name}` again.'
    )


def not_found_yet(name: str) -> str:
    """Return the text for a model that calls a tool beside its prompt that no search in its window has found."""
    return (
        f"Not run: you have not read the definition of `{name}`. "
        f'Call `{SEARCH_TOOLS}` with {{"query": "{name}"}} first, then call `{name}` again.'
    )


def unknown(name: str, tools: Iterable[str], way: str = LIST_RESOURCES) -> str:
    """Return the text for a model that calls a tool that it does not have, without the names of all others."""
    return f"There is no tool `{name}`{hint(name, tools)}. `{way}` finds tools by words."


def listing(routed: Sequence[ToolSpec], query: str | None = None) -> str:
    """Return the resources of the tools *routed*, by name, or those that fit *query*, best first, in few characters."""
    groups = _groups(routed)
    wanted = _terms(query or "")
    if not wanted:
        return _written(f"{len(groups)} resources:", sorted(groups.items()))
    ranked = _ranked(groups, wanted)
    if not ranked:
        return _written(f"No tool fits `{query}`. All {len(groups)} resources:", sorted(groups.items()))
    return _written(f"Resources that fit `{query}`, best first:", ranked)


def search(routed: Sequence[ToolSpec], query: str, limit: int = FOUND) -> tuple[str, tuple[LoadedTool, ...]]:
    """Return the tools *routed* that fit *query*, the best first, and what a model reads that cannot load them.

    A tool that the query names comes before all others. Nothing is found beyond *limit*, nor what would be too long.
    """
    names = {word.strip("`'\",.;:") for word in query.split()}
    scores = _scores(_groups(routed), _terms(query))
    ranked = sorted(
        (spec for spec in routed if spec.name in names or scores[spec.name] > 0),
        key=lambda spec: (spec.name not in names, -scores[spec.name], spec.name),
    )
    tools: list[LoadedTool] = []
    shown: list[str] = []
    for spec in ranked[:limit]:
        text = _definition(spec)
        if shown and sum(map(len, shown)) + len(text) > MAX_SHOWN:
            break
        shown.append(text)
        tools.append(LoadedTool(spec.name, spec.description, spec.parameters))
    if not tools:
        return listing(routed, query), ()
    head = f"Tools that fit `{query}`, best first; those that are not in your list are called by `{CALL_TOOL}`:"
    return "\n".join((head, *shown)), tuple(tools)


def definitions(routed: Sequence[ToolSpec], name: str, only: Sequence[str] | None = None) -> str | None:
    """Return the definitions of the tools of the resource *name*, of *only* some if they are named; None without any.

    Those that would be too long at once are named, to be asked for.
    """
    group = [spec for spec in routed if resource_of(spec) == canonical(name)]
    chosen = [spec for spec in group if only is None or spec.name in only] or group
    if not chosen:
        return None
    shown: list[str] = []
    left: list[str] = []
    room = MAX_SHOWN
    for spec in chosen:
        text = _definition(spec)
        if shown and len(text) > room:
            left.append(spec.name)
            continue
        room -= len(text)
        shown.append(text)
    lines = [f"Tools of `{canonical(name)}`, for `{CALL_TOOL}`:", *shown]
    if left:
        lines.append(f"Not shown, ask for them by `tools`: {', '.join(left)}")
    return "\n".join(lines)


def no_resource(routed: Sequence[ToolSpec], name: str) -> str:
    """Return the text for a model that asks for a resource *name* that there is none of."""
    tool = next((spec for spec in routed if spec.name == name), None)
    if tool is not None:
        return f"`{name}` is a tool of the resource `{resource_of(tool)}`; call `{USE_RESOURCE}` with that name."
    names = {resource_of(spec) for spec in routed}
    return f"There is no resource `{name}`{hint(name, sorted(names))}. `{LIST_RESOURCES}` finds them by words."


def _definition(spec: ToolSpec) -> str:
    return msgspec.json.encode(
        {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    ).decode()


def _is_routed(spec: ToolSpec) -> bool:
    return not spec.pinned and spec.name not in RENDER_TOOLS and spec.source != "render" and spec.kind != "none"


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _groups(routed: Sequence[ToolSpec]) -> dict[str, list[ToolSpec]]:
    groups: dict[str, list[ToolSpec]] = {}
    for spec in routed:
        groups.setdefault(resource_of(spec), []).append(spec)
    return groups


def _written(head: str, groups: Sequence[tuple[str, Sequence[ToolSpec]]]) -> str:
    """Return *groups* with what their tools do, if there is room for all; else with names alone, as many as fit."""
    full = [f"- {name}: {'; '.join(map(_summary, tools))}" for name, tools in groups]
    if sum(map(len, full)) <= MAX_LISTED:
        return "\n".join((head, *full))
    lines: list[str] = []
    room = MAX_LISTED
    for name, tools in groups:
        line = f"- {name}: {', '.join(spec.name for spec in tools)}"[:MAX_LISTED]
        if len(line) > room:
            break
        room -= len(line)
        lines.append(line)
    more = len(groups) - len(lines)
    left = [f"And {more} more: ask with a `query`, words of what you want to do."] if more else []
    return "\n".join((head, *lines, *left))


def _summary(spec: ToolSpec) -> str:
    """Return a tool with the beginning of what it does."""
    first = spec.description.strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return f"{spec.name} ({first if len(first) <= _SUMMARY else f'{first[:_SUMMARY]}…'})" if first else spec.name


def _ranked(groups: Mapping[str, Sequence[ToolSpec]], wanted: Sequence[str]) -> list[tuple[str, Sequence[ToolSpec]]]:
    """Return the groups that have a word that is *wanted*, the best first, with the best of their tools first."""
    scores = _scores(groups, wanted)
    best = {name: max(scores[spec.name] for spec in tools) for name, tools in groups.items()}
    ranked = sorted((name for name in groups if best[name] > 0), key=lambda name: (-best[name], name))
    return [(name, sorted(groups[name], key=lambda spec: (-scores[spec.name], spec.name))) for name in ranked]


def _scores(groups: Mapping[str, Sequence[ToolSpec]], wanted: Sequence[str]) -> Mapping[str, float]:
    """Return how much each tool of *groups*, by its name, is about the words that are *wanted*."""
    words = {spec.name: _words(spec, name) for name, tools in groups.items() for spec in tools}
    rare = {term: _rarity(term, words.values()) for term in wanted}
    return {name: sum(rare[term] * _weight(term, own) for term in wanted) for name, own in words.items()}


def _words(spec: ToolSpec, resource: str) -> _Words:
    """Return the words of a tool's name, its resource among them, and of its description."""
    return _singulars(f"{spec.name} {resource}"), _singulars(f"{spec.title or ''} {spec.description}")


@lru_cache(maxsize=4_096)
def _singulars(text: str) -> frozenset[str]:
    return frozenset(map(singular, words_of(text)))


def _weight(term: str, words: _Words) -> float:
    """Return how much a tool with *words* is about *term*."""
    name, description = words
    total = _DESCRIPTION if term in description else 0.0
    if term in name:
        return total + _NAME
    is_like = any(word.startswith(term) or (len(word) > _SHORT and term.startswith(word)) for word in name)
    return total + _NAME * _BEGINNING if is_like else total


def _rarity(term: str, tools: Collection[_Words]) -> float:
    """Return how much *term* tells tools apart: less the more of them have it."""
    having = sum(term in name or term in text for name, text in tools)
    return math.log(1 + len(tools) / (1 + having))


def _terms(query: str) -> list[str]:
    """Return the words that *query* is about; all of them when they are nothing but common ones."""
    words = [singular(word) for word in words_of(query)]
    return list(dict.fromkeys(word for word in words if word not in _STOP_WORDS)) or list(dict.fromkeys(words))
