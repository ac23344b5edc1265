"""One operation of a document as a definition of an HTTP tool."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from agent_core.agents import ToolDefinition
from app.openapi_import.document import Document, Json, Unresolved
from app.openapi_import.schema import bounded
from app.openapi_import.security import access_of

_MAX_TEXT = 1_000
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_IGNORED_HEADERS = ("accept", "content-type", "authorization")
"""Which OpenAPI itself says are not parameters."""
_FORM = "application/x-www-form-urlencoded"
_IDEMPOTENCY = re.compile(r"(x-)?idempotency-?key", re.IGNORECASE)
"""Headers with the key of a call, which is Parley's to make."""
_USUAL_KEY = "idempotency-key"
_STYLES = {"query": "form", "header": "simple", "path": "simple"}
"""How a value is written where nothing else is said; the only ones that are sent."""
_BODIES = ("post", "put", "patch", "delete")


class NoTool(Exception):
    """An operation that no HTTP tool can be made of; the message says why."""


@dataclass(frozen=True, slots=True)
class ToolOfOperation:
    """A definition, and the secrets that it needs, with what each is; *left_out* says what of it cannot be sent."""

    definition: ToolDefinition
    secrets: Mapping[str, str]
    left_out: Sequence[str]


@dataclass
class _Arguments:
    """What the model is asked for: one flat object, and where each field goes."""

    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    required: list[str] = field(default_factory=list[str])
    send: dict[str, str] = field(default_factory=dict[str, str])
    path: dict[str, str] = field(default_factory=dict[str, str])
    idempotency_header: str | None = None
    left_out: list[str] = field(default_factory=list[str])

    def add(self, name: str, schema: Json, *, required: bool, suffix: str = "") -> str:
        """Take one more field, and return its name: that of another gets the *suffix*, and a number if need be."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_.-")[:56] or "value"
        own, n = plain if plain not in self.properties else f"{plain}{suffix}", 2
        while own in self.properties:
            own, n = f"{plain}{suffix}_{n}", n + 1
        self.properties[own] = schema
        if required:
            self.required.append(own)
        return own


def tool_of(
    document: Document, name: str, path: str, method: str, item: Json, operation: Json, server: str
) -> ToolOfOperation:
    """Return the tool *name* for an operation; raises `NoTool`."""
    try:
        access = access_of(document, operation)
        if access is None:
            raise NoTool("none of its security schemes can be sent; write the header yourself")
        arguments = _Arguments()
        for parameter in _parameters(document, item, operation):
            with _optional(arguments, is_required=_is_required(parameter)):
                _take_parameter(document, arguments, parameter, method)
        mode = _take_body(document, arguments, operation, method)
    except Unresolved as error:
        raise NoTool(str(error)) from None
    if missing := [each for each in _PLACEHOLDER.findall(path) if each not in arguments.path]:
        raise NoTool(f"`{{{missing[0]}}}` of its path is no parameter")
    config: Json = {"method": method.upper(), "url": server.rstrip("/") + _path(path, arguments.path)}
    optional = {"body": mode, "headers": dict(access.headers), "query": dict(access.query), "send": arguments.send}
    optional["idempotency_header"] = arguments.idempotency_header
    config |= {key: value for key, value in optional.items() if value}
    if access.oauth is not None:
        config["oauth"] = dict(access.oauth)
    parameters = bounded(document, {
        "type": "object",
        "properties": arguments.properties,
        "required": arguments.required,
        "additionalProperties": False,
    })  # fmt: skip
    tags = operation.get("tags")
    definition = ToolDefinition(
        name=name,
        description=_text(operation, f"{method.upper()} {path}"),
        parameters=parameters,
        effect="read" if method in ("get", "head") else "write",
        resource=_resource(tags[0]) if isinstance(tags, list) and tags else None,
        config=config,
    )
    return ToolOfOperation(definition, access.secrets, arguments.left_out)


@contextmanager
def _optional(arguments: _Arguments, *, is_required: bool) -> Iterator[None]:
    """Leave out what cannot be sent, and say so, unless the API has no call without it."""
    try:
        yield
    except NoTool as error:
        if is_required:
            raise
        arguments.left_out.append(str(error))


def _is_required(parameter: Json) -> bool:
    return parameter.get("required") is True or parameter.get("in") == "path"


def _text(operation: Json, otherwise: str) -> str:
    """Return what the document says of *operation*; one that it says nothing of is called *otherwise*."""
    texts = [str(operation.get(key) or "").strip() for key in ("summary", "description")]
    text = "\n\n".join(dict.fromkeys(filter(None, texts)))[:_MAX_TEXT] or otherwise[:_MAX_TEXT]
    return f"Deprecated. {text}" if operation.get("deprecated") is True else text


def _resource(tag: Any) -> str | None:
    return re.sub(r"[^a-z0-9]+", "_", str(tag).lower()).strip("_")[:64] or None


def _path(path: str, names: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: f"{{{names[match[1]]}}}", path)


def _parameters(document: Document, item: Json, operation: Json) -> Iterator[Json]:
    """Yield the parameters; those of the operation come in place of the same ones of its path."""
    parameters: dict[tuple[str, str], Json] = {}
    for entry in [*(item.get("parameters") or ()), *(operation.get("parameters") or ())]:
        parameter = document.resolved(entry)
        parameters[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    yield from parameters.values()


def _take_parameter(document: Document, arguments: _Arguments, parameter: Json, method: str) -> None:
    name, place = str(parameter.get("name")), parameter.get("in")
    if place == "header" and name.lower() in _IGNORED_HEADERS:
        return
    if place == "header" and _IDEMPOTENCY.fullmatch(name):
        arguments.idempotency_header = None if name.lower() == _USUAL_KEY else name
        return
    if place not in ("path", "query", "header"):
        raise NoTool(f"its {place} parameter `{name}` cannot be sent")
    content: Any = parameter.get("content") or {}
    original = parameter.get("schema") or next((each.get("schema") for each in content.values()), None) or {}
    schema = bounded(document, original)
    if not content:
        _check_style(parameter, f"its {place} parameter `{name}`", place, schema)
    if description := parameter.get("description"):
        schema = {**schema, "description": str(description)[:_MAX_TEXT]}
    if place == "path" and "type" not in schema:
        schema["type"] = "string"
    own = arguments.add(name, schema, required=_is_required(parameter), suffix=f"_{place}")
    if place == "path":
        arguments.path[name] = own
    elif place == "header":
        arguments.send[own] = f"header:{name}"
    elif own != name or method in ("post", "put", "patch"):
        arguments.send[own] = "query" if own == name else f"query:{name}"


def _check_style(definition: Json, what: str, place: str, schema: Json) -> None:
    """Raise `NoTool` for *what*, a value in a *place* of this *schema*, if it is written in a way that is not sent."""
    style = definition.get("style", _STYLES[place])
    if style != _STYLES[place]:
        raise NoTool(f"{what} has the style `{style}`, which is not sent")
    if _may_be(schema, "object", "properties"):
        raise NoTool(f"{what} is an object, and its fields are not sent one by one")
    if _may_be(schema, "array", "items") and (place != "query" or definition.get("explode") is False):
        raise NoTool(f"{what} is a list with commas, which is not sent (`explode: false`)")


def _may_be(schema: Any, kind: str, mark: str) -> bool:
    """Return whether a value of *schema* may be of the type *kind*, of which the keyword *mark* tells too."""
    if not isinstance(schema, dict):
        return False
    types: Any = schema.get("type")
    if types == kind or (isinstance(types, list) and kind in types) or (types is None and mark in schema):
        return True
    return any(_may_be(form, kind, mark) for name in ("anyOf", "oneOf") for form in schema.get(name) or ())


def _take_body(document: Document, arguments: _Arguments, operation: Json, method: str) -> str | None:
    """Take the fields of the body, and return its mode; None is that of the method."""
    body = document.resolved(operation.get("requestBody"))
    content: Any = body.get("content") or {}
    if not content or method not in _BODIES:
        return None
    kind, mode = _kind(content)
    original = document.resolved(content[kind].get("schema"))
    schema = bounded(document, original)
    is_required = body.get("required") is True
    properties: Any = schema.get("properties")
    required = schema.get("required", ()) if is_required else ()
    if mode == "form":
        always = schema.get("required", ())  # a form without such a field is no form, also where none has to be sent
        properties = dict(_sent_fields(arguments, content[kind].get("encoding"), properties or {}, always))
    if not properties or "anyOf" in schema or "oneOf" in schema or schema.get("type", "object") != "object":
        if mode == "form":
            raise NoTool("its form has no fields that are known beforehand")
        own = arguments.add("body", schema, required=is_required)
        arguments.send[own] = "whole"
        return _mode(mode, method)
    for name, each in properties.items():
        own = arguments.add(name, each, required=name in required, suffix="_body")
        if own != name:
            arguments.send[own] = f"body:{name}"
    return _mode(mode, method)


def _sent_fields(
    arguments: _Arguments, encoding: Any, properties: Json, required: Collection[str]
) -> Iterator[tuple[str, Any]]:
    """Yield those fields of a form that are written in a way that is sent."""
    for name, schema in properties.items():
        encoded = encoding.get(name) if isinstance(encoding, dict) else None
        with _optional(arguments, is_required=name in required):
            if isinstance(encoded, dict) and ("style" in encoded or "explode" in encoded):
                _check_style(cast("Json", encoded), f"the field `{name}` of its form", "query", schema)
            yield name, schema


def _mode(mode: str, method: str) -> str | None:
    return mode if mode == "form" or method == "delete" else None


def _kind(content: Mapping[str, Any]) -> tuple[str, str]:
    for kind in content:
        plain = kind.lower().partition(";")[0].strip()
        if plain in ("application/json", "*/*", "application/*") or plain.endswith("+json"):
            return kind, "json"
    if (form := next((kind for kind in content if kind.lower().startswith(_FORM)), None)) is not None:
        return form, "form"
    raise NoTool(f"its body is {', '.join(content)}; JSON and forms are sent")
