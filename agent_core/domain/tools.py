"""Definitions of tools that are stored, and the texts in them that name secrets. Pure."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote, quote_plus

import msgspec

from agent_core.domain.agents import RESULT_LIMIT, ToolSource

StoredKind = Literal["http", "mcp", "python"]
SECRET = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.-]{1,64})\s*\}\}")
"""How a definition refers to a stored secret: `{{secret:NAME}}`."""
_GLOB = frozenset("*?[")
MASK = "[secret {}]"
_SHORTEST, _SHORTEST_BASE64 = 4, 8
"""Characters of a secret from which on its value is looked for in results: shorter ones are in ordinary words too."""
_URL_SAFE = str.maketrans("+/", "-_")


class ToolDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool as its author writes it, in YAML or over HTTP.

    *config* is what its *kind* reads: of `http` the request, of `mcp` `{server, tool}`, of `python` `{tool}`; the last
    two give a tool that is there another name, *preset* or *output*. *preset* are arguments that the model neither sees
    nor can change. *output* is a JMESPath expression over the JSON that the tool returned, or `jq:` and a jq program.
    *context* are the keys of the caller's context that the tool's server gets as headers. *untrusted*: what it returns
    may have been written by strangers. *resource* groups it for the router, *pinned* keeps it in the prompt there.
    *timeout_s* is seconds, *result_limit* characters shown to the model; *effect* None is what the kind says.
    """

    name: str
    kind: StoredKind = "http"
    description: str = ""
    title: str | None = None
    parameters: dict[str, Any] | None = None
    effect: Literal["read", "write"] | None = None
    idempotent: bool = False
    concurrency_safe: bool | None = None
    timeout_s: float = 30.0
    result_limit: int = RESULT_LIMIT
    preset: dict[str, Any] = {}
    output: str | None = None
    context: tuple[str, ...] = ()
    untrusted: bool = False
    resource: str | None = None
    pinned: bool = False
    config: dict[str, Any] = {}


ToolOrigin = Literal["file", "api"]
"""Where a definition comes from: those of files are read-only over the API."""


class DefinedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A stored tool at its newest version; times are milliseconds since the epoch."""

    id: str
    version: int
    source: ToolOrigin
    definition: ToolDefinition
    created_at: int
    updated_at: int


class ToolVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a tool's definition, which is never changed."""

    version: int
    created_at: int
    definition: ToolDefinition


class ToolObject(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a process, defined or not, as operators see it.

    One without a stored definition has its name as *id*, no *version* and no *source*. *parameters* are all, those that
    have a *preset* too. *place* is the file that defines it. *available* is false while what it needs is not here.
    """

    id: str
    name: str
    title: str | None
    kind: ToolSource
    description: str
    parameters: dict[str, Any]
    effect: Literal["read", "write"]
    idempotent: bool
    concurrency_safe: bool
    timeout_s: float
    result_limit: int
    preset: dict[str, Any] = {}
    output: str | None = None
    context: tuple[str, ...] = ()
    untrusted: bool = False
    resource: str | None = None
    pinned: bool = False
    config: dict[str, Any] = {}
    version: int | None = None
    source: ToolOrigin | None = None
    place: str | None = None
    available: bool = True


def is_glob(name: str) -> bool:
    """Return whether *name*, of an agent's `tools` or a hook's `matcher`, is a glob over the names of tools."""
    return not _GLOB.isdisjoint(name)


def secrets_in(value: object) -> frozenset[str]:
    """Return the names of the secrets that a JSON *value* refers to, in keys too."""
    return frozenset(SECRET.findall(msgspec.json.encode(value).decode()))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return *text* with each reference replaced by the secret of that name in *values*; raises KeyError without."""
    return SECRET.sub(lambda found: values[found[1]], text)


def scrubbed(text: str, values: Mapping[str, str]) -> str:
    """Return *text* with each of the secret *values* (by name) in it masked.

    A value is found as it is, inside JSON, percent-encoded, and inside base64 such as that of basic credentials.
    """
    for name, value in _longest_first(values.items()):
        if len(value) >= _SHORTEST:
            for form in _forms(value):
                text = text.replace(form, MASK.format(name))
    return text


def _longest_first(values: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(values, key=lambda each: -len(each[1]))


def _forms(value: str) -> list[str]:
    """Return how *value* may stand in a text, the longest first."""
    written = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    forms = {value, *written, quote(value, safe=""), quote(value), quote_plus(value), *_inside_base64(value.encode())}
    return sorted((form for form in forms if len(form) >= _SHORTEST), key=lambda form: (-len(form), form))


def _inside_base64(value: bytes) -> Iterator[str]:
    """Yield what base64 of any text with *value* in it contains: it depends on where in a group of three it begins."""
    for shift in range(3):
        found = b64encode(bytes(shift) + value)[-(-shift * 8 // 6) : (shift + len(value)) * 8 // 6].decode()
        if len(found) >= _SHORTEST_BASE64:
            yield found
            yield found.translate(_URL_SAFE)
