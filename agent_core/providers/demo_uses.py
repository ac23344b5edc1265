"""What a person has the demonstration use: `use lookup_order {"order": "A-1001"}`, for any tool of the agent."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from agent_core.agents import ToolSpec

MAX_USES = 16
"""How many uses of one message are read."""
LISTED = 20
"""How many tools a sentence lists."""
_USE = re.compile(r"\buse\s{1,3}(`?)(?P<tool>[A-Za-z0-9_-]{1,64})\1(?![\w`])[:\s]{0,3}", re.IGNORECASE)
_SAMPLES: Final[dict[object, Any]] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Use:
    """A tool by the name that was written, its arguments (None when what follows is no JSON object, as *fault* says).

    The text from *start* to *end* is about nothing else.
    """

    tool: str
    arguments: dict[str, Any] | None
    fault: str
    start: int
    end: int


def uses(text: str, tools: Sequence[ToolSpec]) -> Iterator[Use]:
    """Yield the uses in *text*; without arguments only of one of *tools*, or when the text says nothing else."""
    names, position = {tool.name for tool in tools}, 0
    for _ in range(MAX_USES):
        while (match := _USE.search(text, position)) is not None:
            position = match.end()
            if text.startswith("{", position) or match["tool"] in names or match.group().strip() == text.strip():
                break
        if match is None:
            return
        use = _read(text, match)
        yield use
        position = use.end


def without(text: str, uses: Sequence[Use]) -> str:
    """Return what *text* says beside its *uses*."""
    rest, position = "", 0
    for use in uses:
        rest += f"{text[position : use.start]} "
        position = use.end
    return rest + text[position:]


def fault_of(use: Use, tools: Sequence[ToolSpec]) -> str | None:
    """Return why *use* calls none of *tools*, in a sentence with what can be used; None when it does."""
    named = {tool.name: tool for tool in tools}
    if use.tool not in named:
        return f"There is no tool `{use.tool}`; {listed(tools)}"
    if use.arguments is None:
        return (
            f"What follows `use {use.tool}` is no JSON object ({use.fault}). Write it like this: "
            f"`{sample(named[use.tool])}`."
        )
    return None


def listed(tools: Sequence[ToolSpec]) -> str:
    """Return the names of *tools* as the end of a sentence."""
    names = [f"`{tool.name}`" for tool in tools[:LISTED]]
    more = f" and {len(tools) - LISTED} more" if len(tools) > LISTED else ""
    return f"I can use {', '.join(names)}{more}." if names else "this agent has no tools."


def sample(tool: ToolSpec) -> str:
    """Return what a person may write to use *tool*, with a value for each argument that it requires."""
    properties = cast("dict[str, Any]", tool.parameters.get("properties") or {})
    required = cast("list[str]", tool.parameters.get("required") or [])
    values = {name: _value(properties.get(name)) for name in required}
    return f"use {tool.name} {json.dumps(values, ensure_ascii=False)}"


def _value(schema: Any) -> Any:
    fields = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    if isinstance(listed := fields.get("enum"), list) and listed:
        return cast("list[Any]", listed)[0]
    return _SAMPLES.get(fields.get("type") if isinstance(fields.get("type"), str) else None, "…")


def _read(text: str, match: re.Match[str]) -> Use:
    """Return the use at *match*, with the JSON object after it; what cannot be read is taken up to the end."""
    start, end = match.end(), match.end()
    if not text.startswith("{", start):
        return Use(match["tool"], {}, "", match.start(), end)
    try:
        end = json.JSONDecoder().raw_decode(text, start)[1]
        arguments = msgspec.json.decode(text[start:end])
    except json.JSONDecodeError as error:
        return Use(match["tool"], None, f"{error.msg}, character {error.pos - start + 1}", match.start(), len(text))
    except (ValueError, RecursionError):  # what only Python takes for JSON, half a character, a thousand levels
        return Use(match["tool"], None, "it cannot be read", match.start(), len(text))
    return Use(match["tool"], arguments, "", match.start(), end)
