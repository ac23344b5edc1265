"""The request of one call: the author's texts, the arguments, and the secrets, each read once. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, unquote, urlencode, urlsplit

from agent_core.agents import ToolDefinition, filled
from agent_core.net.fetch import header_fault
from agent_core.tools.http.config import RequestConfig
from agent_core.tools.http.places import ArgumentPlace, authors_query, declared_in, is_open, place_of
from agent_core.tools.http.template import Template, template_of

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
