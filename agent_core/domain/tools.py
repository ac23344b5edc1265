"""Definitions of tools that are stored, and the texts in them that name secrets. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agent_core.domain.agents import RESULT_LIMIT, ToolSource

StoredKind = Literal["http", "mcp", "python"]
SECRET = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.-]{1,64})\s*\}\}")
"""How a definition refers to a stored secret: `{{secret:NAME}}`."""
_GLOB = frozenset("*?[")


class ToolExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A call of a tool by which its author tests it: how it has to end, and the texts that its result must contain.

    *tool_context* is who asks, as a run would bring it.
    """

    arguments: dict[str, Any] = {}
    tool_context: dict[str, Any] | None = None
    outcome: Literal["done", "failed", "unknown"] = "done"
    contains: tuple[str, ...] = ()


class ToolDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool as its author writes it, in YAML or over HTTP.

    *config* is what its *kind* reads: of `http` the request, of `mcp` `{server, tool}`, of `python` `{tool}`; the last
    two give a tool that is there another name, *preset* or *output*. *preset* are arguments that the model neither sees
    nor can change. *output* is a JMESPath expression over the JSON that the tool returned, or `jq:` and a jq program.
    *context* are the keys of the caller's context that the tool's server gets as headers. *untrusted*: what it returns
    may have been written by strangers. *resource* groups it for the router, *pinned* keeps it in the prompt there.
    *title* says to people what it does while it runs, *title_done* afterwards. *timeout_s* is seconds, *result_limit*
    characters shown to the model; *effect* None is what the kind says. *tests* are calls that are only made on demand.
    """

    name: str
    kind: StoredKind = "http"
    description: str = ""
    title: str | None = None
    title_done: str | None = None
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
    tests: tuple[ToolExample, ...] = ()


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
    title_done: str | None = None
    config: dict[str, Any] = {}
    tests: tuple[ToolExample, ...] = ()
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
    return SECRET.sub(lambda match: values[match[1]], text)
