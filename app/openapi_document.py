"""An OpenAPI document: read within bounds, and its references looked up."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from agent_core import schemas
from agent_core.errors import ConfigError
from agent_core.schemas import schema_problem
from app.bounded_yaml import InvalidYaml, parse_yaml

MAX_BYTES = 20_000_000
"""Bytes of a document; the largest that are published have ten million."""
_MAX_VALUES = 500_000
"""Values of a document in YAML, which is a hundred times slower to read than JSON."""
_MAX_CHAIN = 20
METHODS = ("get", "head", "post", "put", "patch", "delete")
Json = dict[str, Any]


class Unresolved(Exception):
    """A reference that leads nowhere in this document; the message names it."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a document holds."""

    root: Json
    resolver: Any

    @property
    def title(self) -> str:
        """Return the name of the API."""
        return str(_object(self.root.get("info")).get("title") or "api")

    def operations(self) -> Iterator[tuple[str, str, Json, Json]]:
        """Yield the path, the method, what is said of the path, and what of the operation."""
        for path, value in _object(self.root.get("paths")).items():
            item = self.resolved(value)
            for method in METHODS:
                if isinstance(operation := item.get(method), dict):
                    yield str(path), method, item, cast("Json", operation)

    def resolved(self, value: Any) -> Json:
        """Return the object *value*, or the one that it refers to with its own fields added; raises `Unresolved`."""
        schema, more = _object(value), dict[str, Any]()
        for _ in range(_MAX_CHAIN):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return {**schema, **more}
            more = {**{name: each for name, each in schema.items() if name != "$ref"}, **more}
            schema = self.looked_up(reference)
        raise Unresolved("a reference leads to a reference, and so on without end")

    def looked_up(self, reference: str) -> Json:
        """Return the object that *reference* names; raises `Unresolved`."""
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - only an import needs it

        try:
            return _object(self.resolver.lookup(reference).contents)
        except Unresolvable:
            why = "" if reference.startswith("#") else ", which is in another document; bundle them into one"
            raise Unresolved(f"there is no `{reference[:200]}`{why}") from None


def document_of(text: bytes, name: str) -> Document:
    """Return the document that *text* is, JSON or YAML; raises ConfigError."""
    from referencing import Registry  # noqa: PLC0415 - as above
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - as above

    root = _read(text, name)
    version = str(root.get("openapi", ""))
    if not version.startswith(("3.0", "3.1")):
        version_text = f"says {version or root.get('swagger') or 'nothing of a version'}"
        raise ConfigError(f"{name}: is no OpenAPI 3.0 or 3.1 document, it {version_text}; convert it first.")
    registry: Any = Registry().with_resource("", DRAFT202012.create_resource(root))
    return Document(root, registry.resolver())


def _read(text: bytes, name: str) -> Json:
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{name}: has more than {MAX_BYTES:,} bytes.")
    try:
        written = text.decode("utf-8-sig")
        content = json.loads(written) if written.lstrip().startswith("{") else parse_yaml(written, _MAX_VALUES)
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text.") from None
    except (InvalidYaml, ValueError) as error:
        raise ConfigError(f"{name}: cannot be read as JSON or YAML ({str(error)[:200]}).") from None
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{name}: is no OpenAPI document, but {type(content).__name__}.")
    return cast("Json", content)


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


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


@dataclass(frozen=True, slots=True)
class SchemeAccess:
    """What a request carries; *secrets* are the names to set, with what each is."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    oauth: Mapping[str, str] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])


def access_of(document: Document, operation: Json) -> SchemeAccess | None:
    """Return the first way in that an HTTP tool can take; None when there are ways in, and none of them."""
    listed: Any = operation.get("security", document.root.get("security"))
    ways: list[Any] = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if not ways:
        return SchemeAccess()
    return next((access for way in ways if (access := _way(document, way)) is not None), None)


def _way(document: Document, way: Mapping[str, Any]) -> SchemeAccess | None:
    schemes: Any = (document.root.get("components") or {}).get("securitySchemes") or {}
    access = SchemeAccess()
    for name, scopes in way.items():
        one = _scheme(document.resolved(schemes.get(name)), secret_name(document.title, name), scopes)
        if one is None or (access.oauth and one.oauth):
            return None
        secrets = {**access.secrets, **one.secrets}
        access = SchemeAccess(
            {**access.headers, **one.headers}, {**access.query, **one.query}, access.oauth or one.oauth, secrets
        )
    return access


def _scheme(scheme: Json, secret: str, scopes: Any) -> SchemeAccess | None:
    place = f"{{{{secret:{secret}}}}}"
    match scheme:
        case {"type": "http", "scheme": str() as kind} if kind.lower() == "bearer":
            return SchemeAccess({"Authorization": f"Bearer {place}"}, secrets={secret: "a bearer token"})
        case {"type": "http", "scheme": str() as kind} if kind.lower() == "basic":
            return SchemeAccess({"Authorization": f"Basic {place}"}, secrets={secret: "base64 of user:password"})
        case {"type": "apiKey", "in": "header", "name": str() as name}:
            return SchemeAccess({name: place}, secrets={secret: f"the header {name}"})
        case {"type": "apiKey", "in": "query", "name": str() as name}:
            return SchemeAccess(query={name: place}, secrets={secret: f"the query parameter {name}"})
        case {"type": "apiKey", "in": "cookie", "name": str() as name}:
            return SchemeAccess({"Cookie": f"{name}={place}"}, secrets={secret: f"the cookie {name}"})
        case {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": str() as url}}}:
            return _oauth(url, secret, scopes)
        case {"type": "oauth2" | "openIdConnect"}:
            return SchemeAccess({"Authorization": f"Bearer {place}"}, secrets={secret: "an access token"})
        case _:
            return None


def _oauth(url: str, secret: str, scopes: Any) -> SchemeAccess:
    client, own = f"{secret[:55]}_ID", f"{secret[:55]}_SECRET"
    oauth = {"token_url": url, "client_id": f"{{{{secret:{client}}}}}", "client_secret": f"{{{{secret:{own}}}}}"}
    if isinstance(scopes, list) and scopes:
        oauth["scope"] = " ".join(map(str, scopes))
    return SchemeAccess(oauth=oauth, secrets={client: "the OAuth client's id", own: "the OAuth client's secret"})


def secret_name(title: str, scheme: str) -> str:
    """Return the name of the secret for *scheme* of the API *title*, such as `SHOP_API_KEY`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", f"{title} {scheme}")
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper()
    return name[-64:].strip("_") or "API_KEY"
