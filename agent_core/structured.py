"""Structured answers: the JSON Schema that a run's final answer has to fit, and the answer read by it. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from agent_core.schemas import problems, schema_problem

MAX_SCHEMA = 32_000
"""Bytes of an output schema's JSON: it is part of requests, and of the log."""
_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n```\s*", re.DOTALL | re.IGNORECASE)
_REFERENCES = ("$ref", "$dynamicRef")
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
    """Say why no answer could be held to *schema*, None when one can."""
    try:
        if len(msgspec.json.encode(schema)) > MAX_SCHEMA:
            return f"at most {MAX_SCHEMA:,} bytes of JSON."
        if problem := schema_problem(schema):
            return f"no JSON Schema (draft 2020-12): {problem}"
        for part in _parts(schema):
            if part is not schema and isinstance(part.get("$id"), str):
                return "`$id` can stand at its top alone."
            refs = [ref for ref in map(part.get, _REFERENCES) if isinstance(ref, str)]
            if foreign := [ref for ref in refs if not _leads(schema, ref)]:
                return f"`{foreign[0]}` leads nowhere in the schema; refer to what is in it, as `#/$defs/…`."
        problems(schema, {})
    except RecursionError:
        return "it is nested too deeply, or refers to itself without end."
    return None


def read_answer(schema: dict[str, Any], text: str) -> tuple[Any, Sequence[str]]:
    """Return the value that *text* is, and how it misses *schema*; a code fence around it is passed over."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError as error:
        return None, [f"it is no JSON: {error}"]
    except RecursionError:
        return None, ["it is nested too deeply"]
    try:
        return value, [str(fault) for fault in problems(schema, value)]
    except RecursionError:
        return None, ["it cannot be checked: the schema refers to itself without end"]


def is_closed(schema: Any, *, whole: bool = False) -> bool:
    """Tell whether a model's API can hold an answer to *schema* word by word: objects name all that they may have.

    *whole*: and all of that is required.
    """
    if not isinstance(schema, dict):
        return False
    found = cast("dict[str, Any]", schema)
    if not found.keys() <= _CLOSED:
        return False
    properties: Json = found.get("properties", {})
    if properties or "object" in _types(found):
        missing = properties.keys() - set(found.get("required", ()))
        if found.get("additionalProperties") is not False or (whole and missing):
            return False
    inner = [*properties.values(), *found.get("$defs", {}).values(), *found.get("anyOf", ())]
    inner += [found["items"]] if "items" in found else []
    return all(is_closed(each, whole=whole) for each in inner)


def _types(schema: Json) -> Sequence[str]:
    given: str | list[str] = schema.get("type", [])
    return [given] if isinstance(given, str) else given


def _parts(part: Any) -> Iterator[dict[str, Any]]:
    """Give every object in *part*, itself first."""
    if isinstance(part, dict):
        found = cast("dict[str, Any]", part)
        yield found
        part = list(found.values())
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _parts(each)


def _leads(schema: dict[str, Any], reference: str) -> bool:
    """Tell whether *reference* is a JSON pointer to something in *schema*: nothing is fetched from elsewhere."""
    if not reference.startswith("#") or (reference[1:] and reference[1] != "/"):
        return False
    here: Any = schema
    for step in reference[2:].split("/") if reference[1:] else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(here, dict) or name not in here:
            return False
        here = cast("dict[str, Any]", here)[name]
    return True
