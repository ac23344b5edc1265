"""What of an HTTP tool's definition cannot work, found when it is saved. Pure but for what the guard may look at."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from agent_core.agents import SECRET, ToolDefinition
from agent_core.errors import InvalidInput
from agent_core.net.fetch import header_fault
from agent_core.net.targets import FetchRefused
from agent_core.tools.context_headers import PREFIX
from agent_core.tools.http.config import CONFIG, READS, RequestConfig
from agent_core.tools.http.places import PLACES, ArgumentPlace, authors_query, place_of
from agent_core.tools.http.template import Template, template_of

_SCALARS = ("string", "integer", "number", "boolean")
_SAMPLE = "x"
CheckUrl = Callable[[str], None]
"""Raises `FetchRefused` for a URL that can be seen to be refused without looking its name up."""


def check(definition: ToolDefinition, config: RequestConfig, check_url: CheckUrl) -> None:
    """Raise `InvalidInput`, with the path of the field, for a definition that no call of could work."""
    template = _url(config, check_url)
    properties, required = fields_of(definition, template)
    for name in template.arguments:
        _check_placeholder(name, definition, properties, required)
    for place, name in enumerate(config.slashes):
        if name not in template.arguments:
            raise InvalidInput(f"{CONFIG}.slashes[{place}]", f"`{name}` is no part of the path.")
    _check_texts(f"{CONFIG}.headers", config.headers.items())
    _check_texts(f"{CONFIG}.query", config.query.items())
    for name, value in config.headers.items():
        _check_header(f"{CONFIG}.headers.{name}", name, SECRET.sub(_SAMPLE, value))
    _check_targets(config, _check_places(config, template, properties), [*properties, *definition.preset])
    if config.method in READS and config.mode in ("json", "form"):
        raise InvalidInput(f"{CONFIG}.body", f"a {config.method} has no body; `query` or `none`.")
    if config.idempotency_header is not None:
        _check_header(f"{CONFIG}.idempotency_header", config.idempotency_header, _SAMPLE)
    for place, status in enumerate(config.ok):
        if not 200 <= status <= 599:  # noqa: PLR2004 - the statuses of answers
            raise InvalidInput(f"{CONFIG}.ok[{place}]", "a status between 200 and 599.")
    _check_oauth(config, check_url)


def fields_of(definition: ToolDefinition, template: Template) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the properties of the arguments, and the names of those that each call has."""
    schema: dict[str, Any] = definition.parameters or parameters_of(template)
    properties: Any = schema.get("properties")
    required: Any = schema.get("required", ())
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}, frozenset(required)


def parameters_of(template: Template) -> dict[str, Any]:
    """Return the schema of a definition that has none: the arguments in the path, as texts."""
    names = list(dict.fromkeys(template.arguments))
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _url(config: RequestConfig, check_url: CheckUrl) -> Template:
    path = f"{CONFIG}.url"
    try:
        template = template_of(config.url)
    except ValueError as error:
        raise InvalidInput(path, str(error)) from None
    first = template.pieces[0] if template.pieces else ""
    authority = first.partition("://")[2] if isinstance(first, str) else ""
    if not authority or (len(template.pieces) > 1 and not set("/?#") & set(authority)):
        raise InvalidInput(path, "begin with the scheme and the host themselves, such as `https://api.example.com/`.")
    if "#" in config.url:
        raise InvalidInput(path, "a part after `#` is never sent; leave it out.")
    before = template_of(config.url.partition("?")[0]).arguments
    if template.arguments != before:
        raise InvalidInput(path, "arguments are filled into the path only; send one in the query by `send`.")
    sample = template.filled(lambda _name: _SAMPLE, _Sample())
    if any(part in (".", "..") for part in urlsplit(sample).path.split("/")):
        raise InvalidInput(path, "a path without `.` and `..`.")
    _check_address(path, sample, check_url)
    return template


class _Sample(dict[str, str]):
    """Secrets that are all the same letter."""

    def __missing__(self, _name: str) -> str:
        return _SAMPLE


def _check_address(path: str, url: str, check_url: CheckUrl) -> None:
    try:
        check_url(url)
    except FetchRefused as error:
        raise InvalidInput(path, str(error)) from None


def _check_placeholder(
    name: str, definition: ToolDefinition, properties: dict[str, Any], required: frozenset[str]
) -> None:
    path = f"{CONFIG}.url"
    if name in definition.preset:
        if isinstance(definition.preset[name], dict | list) or definition.preset[name] in (None, ""):
            raise InvalidInput(f"preset.{name}", "it is a part of the path: a text that is not empty, or a number.")
    elif name not in properties:
        raise InvalidInput(path, f"`{{{name}}}` is no property of `parameters`.")
    elif name not in required:
        raise InvalidInput("parameters.required", f"`{name}` is a part of the path, so each call has to have it.")
    elif not _is_scalar(properties[name]):
        message = f"it is a part of the path; give it a `type` of {', '.join(_SCALARS)}."
        raise InvalidInput(f"parameters.properties.{name}", message)


def _is_scalar(schema: Any) -> bool:
    match schema:
        case {"type": str() as kind}:
            return kind in _SCALARS
        case {"type": [*kinds]} if kinds:
            return all(kind in _SCALARS for kind in kinds)
        case {"enum": [*values]} if values:
            return all(isinstance(value, str | int | float) for value in values)
        case {"const": value}:
            return isinstance(value, str | int | float)
        case {"anyOf": [*forms]} | {"oneOf": [*forms]} if forms:
            return all(map(_is_scalar, forms))
        case _:
            return False


def _check_texts(path: str, texts: Iterable[tuple[str, str]]) -> None:
    for name, value in texts:
        if "{{" in SECRET.sub("", value):
            raise InvalidInput(f"{path}.{name}", "`{{` begins a reference to a secret; write `{{secret:NAME}}`.")


def _check_header(path: str, name: str, value: str) -> None:
    if fault := header_fault(name, value):
        raise InvalidInput(path, fault)
    if name.lower().startswith(PREFIX.lower()):
        raise InvalidInput(path, f"headers that begin with `{PREFIX}` are those of `context`.")


def _check_places(
    config: RequestConfig, template: Template, properties: dict[str, Any]
) -> dict[str, ArgumentPlace | None]:
    """Return where each argument of `send` goes, and None for one that is in the path."""
    places: dict[str, ArgumentPlace] = {}
    for name, spec in config.send.items():
        path = f"{CONFIG}.send.{name}"
        try:
            place = places[name] = place_of(name, spec)
        except ValueError:
            raise InvalidInput(path, f"one of {PLACES}.") from None
        if name not in properties:
            raise InvalidInput(path, f"`{name}` is no property of `parameters`.")
        if name in template.arguments:
            raise InvalidInput(path, f"`{name}` is in the path already.")
        _check_place(path, place, config)
    rest = properties.keys() - places.keys() - set(template.arguments)
    if config.mode == "none" and rest:
        raise InvalidInput(f"{CONFIG}.body", f"with `none`, `{min(rest)}` goes nowhere; say where in `send`.")
    whole = [name for name, place in places.items() if place.kind == "whole"]
    bodies = [name for name, place in places.items() if place.kind == "body"]
    if whole and (len(whole) > 1 or bodies or rest):
        other = min([*bodies, *rest, *whole[1:]])
        raise InvalidInput(f"{CONFIG}.send.{whole[0]}", f"it is the whole body, and `{other}` would be in it too.")
    return {**places, **dict.fromkeys(template.arguments)}


def _check_targets(config: RequestConfig, places: Mapping[str, ArgumentPlace | None], names: Iterable[str]) -> None:
    """Refuse a name in the request that two have: which of them a server takes is its own affair."""
    rest = "body" if config.mode in ("json", "form") else "query"
    taken = {("query", name): "the author's query" for name in authors_query(config)}
    for name in dict.fromkeys(names):
        place = places.get(name, ArgumentPlace(rest, name))
        if place is None:
            continue
        target = place.kind, place.name.lower() if place.kind == "header" else place.name
        if target in taken:
            path = f"{CONFIG}.send.{name}" if name in config.send else f"parameters.properties.{name}"
            raise InvalidInput(path, f"`{place.name}` in the {place.kind} is taken already, by {taken[target]}.")
        taken[target] = f"`{name}`"


def _check_place(path: str, place: ArgumentPlace, config: RequestConfig) -> None:
    match place.kind:
        case "header":
            _check_header(path, place.name, _SAMPLE)
            if place.name.lower() in {name.lower() for name in config.headers}:
                raise InvalidInput(path, f"the header `{place.name}` is in `headers` already.")
        case "body" | "whole" if config.mode not in ("json", "form"):
            raise InvalidInput(path, f"with the body mode `{config.mode}` there is no body.")
        case "whole" if config.mode == "form":
            raise InvalidInput(path, "a form has fields; only a JSON body can be one value.")
        case _:
            pass


def _check_oauth(config: RequestConfig, check_url: CheckUrl) -> None:
    if config.oauth is None:
        return
    path = f"{CONFIG}.oauth"
    if not SECRET.search(config.oauth.client_secret):
        raise InvalidInput(
            f"{path}.client_secret", "refer to a secret, `{{secret:NAME}}`, so that it is stored sealed."
        )
    texts = {"client_id": config.oauth.client_id, "client_secret": config.oauth.client_secret}
    _check_texts(path, texts.items())
    if not config.oauth.client_id.strip():
        raise InvalidInput(f"{path}.client_id", "must not be empty.")
    if any(name.lower() == "authorization" for name in config.headers):
        raise InvalidInput(f"{CONFIG}.headers.Authorization", "with `oauth` it is the token's; leave it out.")
    _check_address(f"{path}.token_url", config.oauth.token_url, check_url)
