"""The request of an HTTP tool: its definition, what of it is refused, and how arguments fill it."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from agent_core.agents import SECRET, ToolDefinition, filled
from agent_core.channels import misfit_in
from agent_core.errors import InvalidInput
from agent_core.net.fetch import header_fault
from agent_core.net.targets import FetchRefused
from agent_core.net.tokens import ClientAuth
from agent_core.tools.base import PREFIX

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
BodyMode = Literal["json", "form", "query", "none"]
READS = ("GET", "HEAD")
_IN_QUERY = ("GET", "HEAD", "DELETE")
CONFIG = "config"


class OAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """OAuth 2 client credentials: the request gets a token of *token_url*; *client_secret* refers to a secret.

    *auth* is how the client names itself there.
    """

    token_url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    audience: str | None = None
    auth: ClientAuth = "basic"


class RequestConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The request of a tool.

    *url* has arguments in its path, as `{order_id}`. *headers* and *query* are the author's own. *send* says where an
    argument goes that is not in the path, and under which name: `query`, `header:X-Name`, `body:name`, or `whole` for
    one that is the body. *body* is how the other arguments go; None: by the method. *ok* are statuses beyond 2xx that
    are no errors. *idempotency_header* carries the call's id with each call that writes; None: it is not sent.
    *html* says what the model reads of an HTML page. *slashes* are the arguments in the path whose values may have
    slashes, percent-encoded.
    Texts of *url*, *headers*, *query* and *oauth* may refer to secrets.
    """

    url: str
    method: Method = "GET"
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    send: dict[str, str] = {}
    body: BodyMode | None = None
    ok: tuple[int, ...] = ()
    idempotency_header: str | None = "Idempotency-Key"
    slashes: tuple[str, ...] = ()
    html: Literal["text", "source"] = "text"
    oauth: OAuth | None = None

    @property
    def mode(self) -> BodyMode:
        """Return how the arguments go that nothing else is said of."""
        return self.body or ("query" if self.method in _IN_QUERY else "json")

    @property
    def effect(self) -> Literal["read", "write"]:
        """Return the effect of a request with this method."""
        return "read" if self.method in READS else "write"


def config_of(config: dict[str, Any]) -> RequestConfig:
    """Return a definition's *config* with its types; raises `InvalidInput` with the field."""
    try:
        return msgspec.convert(config, RequestConfig)
    except msgspec.ValidationError as error:
        raise InvalidInput(*misfit_in(CONFIG, error, RequestConfig)) from None


_PLACE = re.compile(rf"{SECRET.pattern}|\{{([^{{}}]*)\}}")


@dataclass(frozen=True, slots=True)
class Argument:
    """The place of an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """The place of a secret."""

    name: str


Piece = str | Argument | SecretPlace


@dataclass(frozen=True, slots=True)
class Template:
    """A text as its pieces."""

    pieces: tuple[Piece, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of the arguments in it."""
        return tuple(piece.name for piece in self.pieces if isinstance(piece, Argument))

    def filled(self, argument: Callable[[str], str], secrets: Mapping[str, str]) -> str:
        """Return the text, with what is filled in percent-encoded, so that it stays within its segment."""
        return "".join(_text(piece, argument, secrets) for piece in self.pieces)


def template_of(text: str) -> Template:
    """Return *text* as its pieces: `{name}` is an argument, `{{secret:NAME}}` a secret.

    Raises ValueError for braces that are neither.
    """
    template = Template(tuple(_pieces(text)))
    for piece in template.pieces:
        if isinstance(piece, str) and ("{" in piece or "}" in piece):
            raise ValueError(f"a brace in `{piece[:60]}` belongs to no `{{name}}` and no `{{{{secret:NAME}}}}`.")
    return template


def _pieces(text: str) -> Iterator[Piece]:
    end = 0
    for match in _PLACE.finditer(text):
        if match.start() > end:
            yield text[end : match.start()]
        yield SecretPlace(match[1]) if match[1] is not None else Argument(match[2])
        end = match.end()
    if end < len(text):
        yield text[end:]


def _text(piece: Piece, argument: Callable[[str], str], secrets: Mapping[str, str]) -> str:
    match piece:
        case str():
            return piece
        case Argument(name):
            return quote(argument(name), safe="")
        case SecretPlace(name):
            return quote(secrets[name], safe="")


PlaceKind = Literal["query", "header", "body", "whole"]
PLACES = "`query`, `query:name`, `header:Name`, `body`, `body:name`, `whole`"


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """Where an argument goes, and its *name* there."""

    kind: PlaceKind
    name: str


def place_of(argument: str, spec: str) -> ArgumentPlace:
    """Return what *spec* says of *argument*; raises ValueError for what says nothing."""
    kind, colon, name = spec.partition(":")
    if (colon and not name) or kind not in ("query", "header", "body", "whole"):
        raise ValueError(spec)
    if (kind == "header") != bool(name) and kind in ("header", "whole"):
        raise ValueError(spec)
    return ArgumentPlace(kind, name or argument)


def authors_query(config: RequestConfig) -> frozenset[str]:
    """Return the names that the author's own query has."""
    written = parse_qsl(config.url.partition("?")[2], keep_blank_values=True)
    return frozenset((*config.query, *(name for name, _ in written)))


def declared_in(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the arguments that *schema* lists, in its alternatives too."""
    return frozenset(name for part in _parts(schema) for name in part.get("properties") or ())


def is_open(schema: Mapping[str, Any]) -> bool:
    """Return whether *schema* says that there may be arguments that it does not list; its silence does not say so."""
    return any(part.get(key) for part in _parts(schema) for key in ("additionalProperties", "patternProperties"))


def _parts(schema: object) -> Iterator[Mapping[str, Any]]:
    if not isinstance(schema, Mapping):
        return
    part = cast("Mapping[str, Any]", schema)
    yield part
    for key in ("allOf", "anyOf", "oneOf"):
        for each in part.get(key) or ():
            yield from _parts(each)
    for key in ("then", "else"):
        yield from _parts(part.get(key))


_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}
_DECODED = 3
"""How often the proxies and servers on the way may decode a path."""


class Unsendable(ValueError):
    """Arguments that fit the schema, and still cannot be sent; the message is for the model."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent; it holds secrets."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RequestMaker:
    """Makes the requests of one definition."""

    config: RequestConfig
    url: Template
    places: Mapping[str, ArgumentPlace]
    preset: Mapping[str, Any]
    declared: frozenset[str]
    more: bool
    """Whether the schema says itself that there may be other arguments than those it lists."""
    has_body: bool

    @classmethod
    def of(cls, definition: ToolDefinition, config: RequestConfig) -> "RequestMaker":
        """Return what makes the requests of a checked *definition*."""
        url = template_of(config.url)
        places = {name: place_of(name, spec) for name, spec in config.send.items()}
        schema = definition.parameters or {}
        declared = declared_in(schema) | set(definition.preset) | set(url.arguments)
        bodies = (declared - set(url.arguments) - set(places)) or [
            place for place in places.values() if place.kind in ("body", "whole")
        ]
        has_body = config.mode in _TYPES and bool(bodies)
        return cls(config, url, places, definition.preset, declared, is_open(schema), has_body)

    def made(self, arguments: Mapping[str, Any], secrets: Mapping[str, str], more: Mapping[str, str]) -> HttpRequest:
        """Return the request of a call with *arguments*, the *secrets* by name and *more* headers.

        Raises `Unsendable`.
        """
        query = [(name, filled(value, secrets)) for name, value in self.config.query.items()]
        headers = {name: filled(value, secrets) for name, value in self.config.headers.items()}
        fields: dict[str, Any] = {}
        whole: list[Any] = []
        for name, value in self._outside_path(arguments, secrets):
            place = self.places.get(name, self._rest(name))
            match place.kind:
                case "query":
                    query += _pairs(place.name, value)
                case "header":
                    headers[place.name] = _header(name, place.name, value)
                case "body":
                    fields[place.name] = value
                case "whole":
                    whole.append(value)
        body = self._body(fields, whole)
        if body and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = _TYPES[self.config.mode]
        headers |= more
        _check_headers(headers)
        return HttpRequest(self.config.method, self._address(arguments, secrets, query), headers, body)

    def _outside_path(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        """Yield what is not in the path; a preset is the author's, so that it may refer to secrets."""
        taken = self._taken() if arguments.keys() - self.declared else frozenset[ArgumentPlace]()
        for name, value in arguments.items():
            if name not in self.declared and (not self.more or self._rest(name) in taken):
                raise Unsendable(f"`{name[:60]}` is no argument of this tool.")
            if name not in self.url.arguments and not (self.config.mode == "none" and name not in self.places):
                yield name, _filled(value, secrets) if name in self.preset else value

    def _taken(self) -> frozenset[ArgumentPlace]:
        """Return where the author's texts and the declared arguments go."""
        own = {ArgumentPlace("query", name) for name in authors_query(self.config)}
        return frozenset(own | {self.places.get(name, self._rest(name)) for name in self.declared})

    def _rest(self, name: str) -> ArgumentPlace:
        return ArgumentPlace("body" if self.config.mode in _TYPES else "query", name)

    def _body(self, fields: dict[str, Any], whole: list[Any]) -> bytes:
        if not self.has_body and not fields:
            return b""
        if whole:
            return _json(whole[0])
        if self.config.mode == "form":
            return urlencode([pair for name, value in fields.items() for pair in _pairs(name, value)]).encode()
        # With a whole body that is optional and was left out there is none.
        return b"" if any(place.kind == "whole" for place in self.places.values()) else _json(fields)

    def _address(self, arguments: Mapping[str, Any], secrets: Mapping[str, str], query: list[tuple[str, str]]) -> str:
        def argument(name: str) -> str:
            value = arguments.get(name)
            value = _filled(value, secrets) if name in self.preset else value
            if value is None or value == "" or isinstance(value, dict | list):
                raise Unsendable(f"`{name}` is a part of the address, so it must be a text that is not empty.")
            text = _scalar(value)
            if name not in self.preset and name not in self.config.slashes and len(_segments(text)) > 1:
                raise Unsendable(f"`{name}` is one part of the address, so it must be a text without `/` and `\\`.")
            return text

        url = self.url.filled(argument, secrets)
        if _leads_elsewhere(urlsplit(url).path):
            raise Unsendable("A part of the address would be `.` or `..`, which names another place.")
        if not query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query, quote_via=quote, safe='')}"


def _leads_elsewhere(path: str) -> bool:
    """Return whether *path* goes up for a server that decodes it before it looks where it leads."""
    # What is after a `;` is a parameter of its segment to some servers.
    return any(part.partition(";")[0].strip() in (".", "..") for part in _segments(path))


def _segments(path: str) -> list[str]:
    """Return the parts of *path* for a server that decodes it before it looks where it leads, also twice."""
    for _ in range(_DECODED):
        path = unquote(path)
    return re.split(r"[/\\]", path)


def _filled(value: Any, secrets: Mapping[str, str]) -> Any:
    match value:
        case str():
            return filled(value, secrets)
        case [*items]:
            return [_filled(item, secrets) for item in items]
        case {**fields}:
            return {name: _filled(each, secrets) for name, each in fields.items()}
        case _:
            return value


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    """Return an argument as pairs of a query or form: a list repeats the name, an object is JSON, null is left out."""
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [(name, _scalar(each)) for each in values if each is not None]


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _header(argument: str, name: str, value: Any) -> str:
    text = "" if value is None else _scalar(value)
    if header_fault(name, text):
        raise Unsendable(f"`{argument}` is sent in a header, which takes plain ASCII characters of one line.")
    return text


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if header_fault(name, value):  # the value may be a secret
            raise Unsendable(f"The header `{name}` cannot be sent: its value has a line end, or no plain characters.")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


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
