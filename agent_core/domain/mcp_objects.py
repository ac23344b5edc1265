"""MCP servers as answers of the API show them."""

from typing import Any, Literal

import msgspec

from agent_core.domain.mcp import LeftOut, McpAnnotations, McpOAuth, OnChange
from agent_core.domain.mcp_login import LoginObject
from agent_core.domain.mcp_tools import McpChange

ServerStatus = Literal["new", "ok", "failing", "changed", "disabled"]


class ServedToolObject(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that agents may use, under its *name* for agents and as its server calls it, *tool*.

    *annotations* are what the server says of it; they count in *effect* and *idempotent* if the server is trusted.
    """

    name: str
    tool: str
    title: str | None
    description: str
    effect: Literal["read", "write"]
    idempotent: bool
    parameters: dict[str, Any]
    annotations: McpAnnotations | None = None


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself; no model reads it."""

    title: str | None
    version: str | None
    era: str
    instructions: str | None


class McpServerObject(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server: its definition, private texts hidden, and what is known of it.

    *tools* are those that agents may use, *changes* how what it says now differs from them: with `on_change: hold` a
    changed or added one waits until *digest* is accepted. *left_out* are tools that no model could be offered.
    *listed_at* is the last discovery that succeeded, *due_at* the next one. *error* says why the last one failed.
    *login* is how an operator's login there is, None where there is none and none is known to be needed.
    """

    id: str
    name: str
    transport: Literal["http", "stdio"]
    url: str | None
    command: str | None
    args: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    headers: dict[str, str]
    oauth: McpOAuth | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    trusted: bool
    untrusted: bool
    on_change: OnChange
    context: tuple[str, ...]
    timeout_s: float
    enabled: bool
    source: Literal["file", "api"]
    status: ServerStatus
    error: str | None
    login: LoginObject | None
    info: ServerInfo | None
    tools: tuple[ServedToolObject, ...]
    changes: tuple[McpChange, ...]
    left_out: tuple[LeftOut, ...]
    digest: str | None
    listed_at: int | None
    failed_at: int | None
    due_at: int | None
    created_at: int
    updated_at: int
