"""MCP servers: how one is reached, and what it offers. Pure."""

from typing import Any, Literal

import msgspec

OnChange = Literal["hold", "adopt"]
PREFIX = "mcp__"
"""What the names of all tools of MCP servers begin with: `mcp__{server}__{tool}`."""


class McpOAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The operator's connection to a server by OAuth 2; *client_secret* may refer to a secret.

    *grant* `client_credentials` needs a client and its secret; `authorization_code` a login, in which an operator
    consents in their browser. There a client that is not named is registered where the authorization server lets it.
    *issuer* is the authorization server that a client's secret may be sent to, and *token_url* its endpoint; without
    both they are found by the server's own metadata. *auth* is how the client names itself there: in a header, or in
    the form. The token is asked for an *audience* where one is named (by credentials alone), and for a *resource*
    (RFC 8707): the address of the server, which client credentials leave out where the endpoint refuses it; or what is
    written here, as it is; False is none.
    """

    client_id: str | None = None
    client_secret: str | None = None
    grant: Literal["client_credentials", "authorization_code"] = "client_credentials"
    issuer: str | None = None
    token_url: str | None = None
    scope: str | None = None
    audience: str | None = None
    auth: Literal["basic", "post"] = "basic"
    resource: bool | str = True


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An MCP server as the operator writes it, in `mcp.json` or over HTTP.

    Texts of *headers*, *env*, *args* and *url* may refer to secrets, `{{secret:NAME}}`. *allow* and *deny* are globs
    over the server's own names of its tools: a tool is taken that one of *allow* matches and none of *deny*. *trusted*:
    its annotations are believed, `readOnlyHint` and `idempotentHint` become `effect` and `idempotent`. *untrusted*:
    what its tools return may have been written by strangers. *on_change*: a changed tool is held back until an operator
    accepts it, or adopted. *context* are the keys of the caller's context that it gets as headers. *timeout_s* is
    seconds for one call.
    """

    name: str
    transport: Literal["http", "stdio"] = "http"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    headers: dict[str, str] = {}
    oauth: McpOAuth | None = None
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    trusted: bool = False
    untrusted: bool = False
    on_change: OnChange = "hold"
    context: tuple[str, ...] = ()
    timeout_s: float = 30.0
    enabled: bool = True


class FilledServer(McpServer, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server as it is connected to: its references are filled in with *secrets*, by name. It is never stored."""

    secrets: dict[str, str]


class McpAnnotations(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server says of a tool; None where it says nothing."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class McpTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool as its server lists it, under the server's own *name*; *resource* is the server's own mark (`_meta`)."""

    name: str
    description: str
    parameters: dict[str, Any]
    title: str | None = None
    annotations: McpAnnotations = McpAnnotations()
    resource: str | None = None


class LeftOut(msgspec.Struct, frozen=True):
    """A tool that no model could be offered, and why."""

    tool: str
    why: str


class McpListing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server said at a discovery: its *tools* sorted by name, and what it says of itself.

    *era* is the protocol version that both sides speak, *left_out* are entries that are no tools.
    """

    tools: tuple[McpTool, ...]
    era: str
    title: str | None = None
    version: str | None = None
    instructions: str | None = None
    left_out: tuple[LeftOut, ...] = ()
