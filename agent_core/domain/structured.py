"""Structured answers: the JSON Schema that a run's final answer has to fit, and the answer read by it. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from agent_core.domain.schemas import problems, schema_problem

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n```\s*", re.DOTALL | re.IGNORECASE)
_CLOSED = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "title",
        "description",
    }
)
Json = Mapping[str, Any]


def output_problem(schema: dict[str, Any]) -> str | None:
    """Return why *schema* cannot be used for answers, None when it can."""
    fault = schema_problem(schema)
    return f"no JSON Schema (draft 2020-12): {fault}" if fault else None


def read_answer(schema: dict[str, Any], text: str) -> tuple[Any, Sequence[str]]:
    """Return *text* parsed as JSON, and how it fails *schema*; a code fence around it is ignored."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError as error:
        return None, [f"it is no JSON: {error}"]
    except RecursionError:
        return None, ["it is nested too deeply"]
    return value, [str(fault) for fault in problems(schema, value)]


def is_closed(schema: Any, *, whole: bool = False) -> bool:
    """Return whether a model's API can enforce *schema* exactly: each object lists all properties that it may have.

    *whole*: and all of them are required.
    """
    if not isinstance(schema, dict):
        return False
    fields = cast("dict[str, Any]", schema)
    if not fields.keys() <= _CLOSED:
        return False
    properties: Json = fields.get("properties", {})
    if properties or "object" in _types(fields):
        missing = properties.keys() - set(fields.get("required", ()))
        if fields.get("additionalProperties") is not False or (whole and missing):
            return False
    inner = [*properties.values(), *fields.get("$defs", {}).values(), *fields.get("anyOf", ())]
    inner += [fields["items"]] if "items" in fields else []
    return all(is_closed(each, whole=whole) for each in inner)


def _types(schema: Json) -> Sequence[str]:
    types: str | list[str] = schema.get("type", [])
    return [types] if isinstance(types, str) else types
