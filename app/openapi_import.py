"""`parley tools import`: the operations of a document as definitions of HTTP tools."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import msgspec
import yaml

from agent_core.agents import ToolDefinition
from agent_core.errors import ConfigError, InvalidInput
from agent_core.net.targets import check_text
from agent_core.servers import PREFIX
from app.openapi_document import Document, Json, Unresolved, access_of, bounded
from app.own_tools import OfflineKinds, taken_names
from channels.text import one_line

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


HEADER = "# Made by `parley tools import`"
_DIGEST = "# digest: "
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Imported:
    """What was made of a document: *skipped* says of operations why there is no tool, *secrets* what to set.

    *left_out* says of operations which of their optional arguments a tool has not.
    """

    title: str
    tools: Sequence[ToolDefinition]
    skipped: Sequence[str]
    secrets: Mapping[str, str]
    left_out: Sequence[str]


def imported(document: Document, *, only: Collection[str], server: str | None, source: str) -> Imported:
    """Return the tools of the operations whose id, or one of whose tags, matches one of the globs *only* (none: all).

    *server* is the address of the API, *source* that of the document. Raises ConfigError.
    """
    tools: dict[str, ToolDefinition] = {}
    skipped: list[str] = []
    secrets: dict[str, str] = {}
    left_out: list[str] = []
    kinds, taken = OfflineKinds(check_text), taken_names()
    operations = list(document.operations())
    shorts = Counter(_plain(_without_route(_id(each), each[0], each[1])) for each in operations)
    for path, method, item, operation in operations:
        id = _id((path, method, item, operation))
        tags = operation.get("tags")
        short = _without_route(id, path, method)
        if only and not _matches(only, [id, short, *(map(str, tags) if isinstance(tags, list) else ())]):
            continue
        at = _server(document, item, operation, server, source)
        name = _name(short if shorts[_plain(short)] == 1 else id, {*tools, *taken})
        try:
            made = tool_of(document, name, path, method, item, operation, at)
            kinds.check(made.definition, {})
        except (NoTool, InvalidInput) as error:
            skipped.append(f"{method.upper()} {path}: {error}")
        else:
            tools[name] = made.definition
            secrets |= made.secrets
            left_out += [f"{method.upper()} {path}: {what}" for what in made.left_out]
    return Imported(document.title, list(tools.values()), skipped, secrets, left_out)


def written(result: Imported, source: str) -> str:
    """Return the tools as the text of a YAML file."""
    head = [f"{HEADER} from {source.splitlines()[0][:200]}: {len(result.tools)} tools of {_one_line(result.title)}."]
    head += [
        "# Read the descriptions before agents use them: they are the API's author's words, and models follow them."
    ]
    head += [f"# parley secrets set {name}  # {_one_line(what)}" for name, what in sorted(result.secrets.items())]
    items: list[Any] = [_without_defaults(each) for each in result.tools]
    body = yaml.dump(items, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)
    return _sealed("\n".join((*head, "", body)))


def _sealed(text: str) -> str:
    """Return *text* with its digest as the second line, by which an edit is seen."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{_DIGEST}{sha256(text.encode()).hexdigest()}\n{rest}"


def changed_since(path: Path, result: Imported) -> str | None:
    """Return why the file at *path*, which an import wrote, is not to be replaced by *result*; None if it may be.

    Raises OSError.
    """
    text = path.read_text("utf-8")
    first, *rest = text.split("\n", 2)
    if len(rest) != 2 or _sealed(f"{first}\n{rest[1]}") != text:  # noqa: PLR2004 - its digest, and all the rest
        return "was edited since it was imported"
    there = {str(each["name"]) for each in yaml.safe_load(text)}
    now = {each.name for each in result.tools}
    lost, new = sorted(there - now), sorted(now - there)
    changes = [f"{what} {', '.join(names[:5])}" for what, names in (("without", lost), ("with", new)) if names]
    return f"has other tools than would be written now ({'; '.join(changes)})" if changes else None


class _Plain(yaml.SafeDumper):
    """Writes what occurs twice twice, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's signature
        return True


def file_name(title: str) -> str:
    """Return the name of the file for the API *title*."""
    return f"{re.sub(r'[^a-z0-9]+', '_', title.lower()).strip('_')[:60] or 'api'}.yaml"


def _without_defaults(definition: ToolDefinition) -> Json:
    """Return a definition without the fields that are as they are anyway."""
    fields: Json = msgspec.to_builtins(definition)
    usual: Json = msgspec.to_builtins(ToolDefinition(name=""))
    return {name: value for name, value in fields.items() if name == "kind" or value != usual[name]}


def _one_line(text: str) -> str:
    """Return *text* as a comment can hold it: after a line end it would be a tool of the document's own writing."""
    return one_line(text)[:100]


def _matches(globs: Collection[str], names: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def _id(operation: tuple[str, str, Json, Json]) -> str:
    """Return the id of an operation, or its method and path where it has none."""
    path, method, _, described = operation
    return str(described.get("operationId") or f"{method}_{path.strip('/')}")


def _without_route(id: str, path: str, method: str) -> str:
    """Return the *id* of an operation without its path and method, which FastAPI writes after a function's name."""
    route = re.sub(r"\W", "_", path)
    return id.removesuffix(f"{route}_{method}") or id


def _plain(id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", id).strip("_")[:_MAX_NAME] or "operation"


def _name(id: str, taken: Collection[str]) -> str:
    plain = _plain(id)
    if plain.startswith(PREFIX):
        plain = f"api_{plain}"[:_MAX_NAME]
    name, n = plain, 2
    while name in taken:
        end = f"_{n}"
        name, n = plain[: _MAX_NAME - len(end)] + end, n + 1
    return name


def _server(document: Document, item: Json, operation: Json, server: str | None, source: str) -> str:
    """Return the address of the API; raises ConfigError when there is none."""
    if server is not None:
        return server
    servers = operation.get("servers") or item.get("servers") or document.root.get("servers") or [{}]
    first: Any = servers[0] if isinstance(servers, list) and isinstance(servers[0], dict) else {}
    url = str(first.get("url") or "/")
    for name, variable in (first.get("variables") or {}).items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    address = urljoin(source, url) if source.startswith(("http://", "https://")) else url
    if not urlsplit(address).netloc:
        raise ConfigError(f"The document names no server but `{url[:100]}`; give one with --server https://….")
    return address
