"""Schemas of OpenAPI as those of tools: without references, in the draft that models' vendors read, and bounded."""

from typing import Any

import msgspec

from agent_core import schemas
from agent_core.schemas import schema_problem
from app.openapi_import.document import Document, Json

_KEPT = frozenset({
    "type", "format", "description", "enum", "const", "default", "required", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties",
})  # fmt: skip
_LISTS = ("anyOf", "oneOf", "prefixItems")
_DEPTHS = (10, 6, 4, 3, 2)
"""Levels that are kept, until a schema is small enough; what is below has its type alone."""
_MAX_BYTES, _MAX_PARTS = 24_000, 1_500


def bounded(document: Document, original: Json) -> Json:
    """Return the schema *original* for a tool, as deep as it may be; raises `Unresolved`."""
    schema: Json = {}
    for depth in _DEPTHS:
        try:
            schema = _Converter(document).schema(original, depth)
        except _TooLarge:
            continue
        if len(msgspec.json.encode(schema)) <= _MAX_BYTES and schema_problem(schema) is None:
            return schema
    return schema or _leaf(document.resolved(original))


class _TooLarge(Exception):
    """A schema of more parts than a tool may have."""


class _Converter:
    """Writes a schema out; one that contains itself ends at its second appearance."""

    def __init__(self, document: Document) -> None:
        self._document, self._open, self._parts = document, list[str](), 0

    def schema(self, node: Any, depth: int) -> Json:
        """Return *node* with *depth* more levels; raises `Unresolved`."""
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise _TooLarge
        if not isinstance(node, dict):
            return {} if node is not False else {"not": {}}
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return self._written(node, depth)
        if reference in self._open:
            return _leaf(self._document.resolved(node))
        self._open.append(reference)
        try:
            inner = self._document.looked_up(reference)
            return self.schema({**inner, **{name: each for name, each in node.items() if name != "$ref"}}, depth)
        finally:
            self._open.pop()

    def _written(self, node: Json, depth: int) -> Json:
        if depth <= 0:
            return _leaf(node)
        schema = {name: value for name, value in node.items() if name in _KEPT}
        for part in node.get("allOf") or ():
            schema = _merged(schema, self.schema(part, depth))
        if isinstance(properties := node.get("properties"), dict):
            inner = {name: self.schema(each, depth - 1) for name, each in properties.items() if not _is_read_only(each)}
            schema["properties"] = {**schema.get("properties", {}), **inner}
        for name in _LISTS:
            if isinstance(forms := node.get(name), list) and forms:
                schema[name] = [self.schema(each, depth - 1) for each in forms]
        if "items" in node:
            schema["items"] = self.schema(node["items"], depth - 1)
        if isinstance(more := node.get("additionalProperties"), dict | bool):
            schema["additionalProperties"] = more if isinstance(more, bool) else self.schema(more, depth - 1)
        return _in_draft(schema, nullable=node.get("nullable") is True)


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


def _in_draft(schema: Json, *, nullable: bool) -> Json:
    """Return what OpenAPI 3.0 says in its own way as JSON Schema says it."""
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(name), bool):
            strict = schema.pop(name)
            if strict and bound in schema:
                schema[name] = schema.pop(bound)
    if nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    if "pattern" in schema and schemas.problem(str(schema["pattern"])) is not None:
        del schema["pattern"]
    if "properties" in schema and isinstance(schema.get("required"), list):
        schema["required"] = [name for name in schema["required"] if name in schema["properties"]]
    return schema
