"""Where an argument goes in a request, as `send` says it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import parse_qsl

from agent_core.tools.http.config import RequestConfig

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
