"""Schemas of OpenAPI as those of tools: without references, in the draft that models' vendors read, and bounded."""

from typing import Any

import msgspec

from agent_core.domain import patterns
from agent_core.domain.schemas import schema_problem
from app.openapi_import.document import Document, Json

_KEPT = frozenset({
    "type", "format", "description", "enum", "const", "default", "required", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties",
})  # fmt: skip
_LISTS = ("anyOf", "oneOf", "prefixItems")
_DEPTHS = (10, 6, 4, 3, 2)
"""Levels that are kept, until a schema is small enough; what is below has its type alone."""
_MOST_BYTES, _MOST_PARTS = 24_000, 1_500


def bounded(document: Document, given: Json) -> Json:
    """Return the schema *given* for a tool, as deep as it may be; raises `Unresolved`."""
    found: Json = {}
    for depth in _DEPTHS:
        try:
            found = _Converter(document).schema(given, depth)
        except _TooLarge:
            continue
        if len(msgspec.json.encode(found)) <= _MOST_BYTES and schema_problem(found) is None:
            return found
    return found or _leaf(document.resolved(given))


class _TooLarge(Exception):
    """A schema of more parts than a tool may have."""


class _Converter:
    """Writes a schema out; one that contains itself ends at its second appearance."""

    def __init__(self, document: Document) -> None:
        self._document, self._open, self._parts = document, list[str](), 0

    def schema(self, given: Any, depth: int) -> Json:
        """Return *given* with *depth* more levels; raises `Unresolved`."""
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _TooLarge
        if not isinstance(given, dict):
            return {} if given is not False else {"not": {}}
        reference = given.get("$ref")
        if not isinstance(reference, str):
            return self._written(given, depth)
        if reference in self._open:
            return _leaf(self._document.resolved(given))
        self._open.append(reference)
        try:
            inner = self._document.looked_up(reference)
            return self.schema({**inner, **{name: each for name, each in given.items() if name != "$ref"}}, depth)
        finally:
            self._open.pop()

    def _written(self, given: Json, depth: int) -> Json:
        if depth <= 0:
            return _leaf(given)
        found = {name: value for name, value in given.items() if name in _KEPT}
        for part in given.get("allOf") or ():
            found = _merged(found, self.schema(part, depth))
        if isinstance(properties := given.get("properties"), dict):
            inner = {name: self.schema(each, depth - 1) for name, each in properties.items() if not _is_read_only(each)}
            found["properties"] = {**found.get("properties", {}), **inner}
        for name in _LISTS:
            if isinstance(forms := given.get(name), list) and forms:
                found[name] = [self.schema(each, depth - 1) for each in forms]
        if "items" in given:
            found["items"] = self.schema(given["items"], depth - 1)
        if isinstance(more := given.get("additionalProperties"), dict | bool):
            found["additionalProperties"] = more if isinstance(more, bool) else self.schema(more, depth - 1)
        return _in_draft(found, nullable=given.get("nullable") is True)


def _is_read_only(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("readOnly") is True


def _merged(one: Json, other: Json) -> Json:
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        both["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return {**both, **({"description": one["description"]} if "description" in one else {})}


def _leaf(schema: Json) -> Json:
    return {name: schema[name] for name in ("type", "description") if isinstance(schema.get(name), str)}


def _in_draft(found: Json, *, nullable: bool) -> Json:
    """Return what OpenAPI 3.0 says in its own way as JSON Schema says it."""
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(found.get(name), bool):
            strict = found.pop(name)
            if strict and bound in found:
                found[name] = found.pop(bound)
    if nullable and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
        if isinstance(found.get("enum"), list) and None not in found["enum"]:
            found["enum"] = [*found["enum"], None]
    if "pattern" in found and patterns.problem(str(found["pattern"])) is not None:
        del found["pattern"]
    if "properties" in found and isinstance(found.get("required"), list):
        found["required"] = [name for name in found["required"] if name in found["properties"]]
    return found
