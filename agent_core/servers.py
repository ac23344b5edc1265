"""MCP servers as they are defined, and logins at them."""

from shlex import quote
from typing import Any, Literal

import msgspec

from agent_core.errors import Conflict

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


LoginStatus = Literal["none", "ok", "expired", "ended"]
_SECRET_FIELDS = frozenset({"access_token", "refresh_token", "secret", "verifier", "state"})
"""Fields of a login that its `repr` leaves out: what it shows may come into a log or a trace."""


class LoginFailed(Conflict):
    """A login cannot begin, or did not end in a token; the message holds no secret."""

    code = "login_failed"


class LoginClient(msgspec.Struct, frozen=True, kw_only=True):
    """The client that logged in; *secret* is that of one which was registered, a configured one's is in its server.

    Its `repr`, and that of logins, holds no secret.
    """

    id: str
    auth: Literal["basic", "post", "none"]
    secret: str | None = None
    is_configured: bool = False

    def __repr__(self) -> str:
        return _shown(self)


class McpLogin(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a server, which are stored sealed; *url* is the address that they are for, and no other.

    *until* and *given_at* are milliseconds; *until* None is a life that is not known. *resource* and *scope* are what
    the token was asked for.
    """

    url: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None
    client: LoginClient
    resource: str | None
    scope: str | None
    access_token: str
    refresh_token: str | None
    given_at: int
    until: int | None

    def __repr__(self) -> str:
        return _shown(self)


class PendingLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login between its page and its token, which its caller keeps, sealed, as the ticket that ends it.

    *verifier* is that of PKCE, *state* what the page must come back with, and *names_issuer* whether it must name its
    issuer (RFC 9207). It is of no more use after *until*, in milliseconds.
    """

    url: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None
    client: LoginClient
    resource: str | None
    scope: str | None
    redirect_uri: str
    state: str
    verifier: str
    names_issuer: bool
    until: int

    def __repr__(self) -> str:
        return _shown(self)


class LoginState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a login without its tokens; *ended* says why it is of no more use.

    *lacks* is the scope that it would need for what the server has refused.
    """

    issuer: str
    scope: str | None
    since: int
    expires_at: int | None
    renewable: bool
    ended: str | None = None
    lacks: str | None = None


class LoginObject(msgspec.Struct, frozen=True, kw_only=True):
    """How the login at an MCP server is; *remedy* is what an operator has to do, None when nothing.

    *expires_at* is when the access token ends, which is renewed by itself where the status stays `ok`.
    """

    status: LoginStatus
    issuer: str | None
    scope: str | None
    since_at: int | None
    expires_at: int | None
    why: str | None
    remedy: str | None


def uses_login(server: McpServer) -> bool:
    """Return whether *server* may be logged in to: it has no other access that is configured."""
    if server.transport != "http":
        return False
    if server.oauth is not None:
        return server.oauth.grant == "authorization_code"
    return not any(name.lower() == "authorization" for name in server.headers)


def login_object(server: McpServer, state: LoginState | None, now: int) -> LoginObject | None:
    """Return how the login at *server* is at *now*, None where it has none and needs none that is known of."""
    if not uses_login(server) or (state is None and server.oauth is None):
        return None
    status = status_of_login(state, now)
    if status == "ok" and state is not None and state.lacks is not None:
        remedy, why = remedy_of(server.name, state.lacks), f"calls were refused, which need the scope `{state.lacks}`"
    else:
        remedy, why = None if status == "ok" else remedy_of(server.name), None
    whys = {"none": "not logged in", "expired": "the login has expired", "ok": None}
    return LoginObject(
        status=status,
        issuer=state and state.issuer,
        scope=state and state.scope,
        since_at=state and state.since,
        expires_at=state and state.expires_at,
        why=state.ended if state is not None and state.ended else why or whys[status],
        remedy=remedy,
    )


def remedy_of(server: str, scope: str | None = None) -> str:
    """Return the command that logs in at *server*, for *scope* where one is needed."""
    return f"run `parley mcp login {server}{f' --scope {quote(scope)}' if scope else ''}`"


def status_of_login(state: LoginState | None, now: int) -> LoginStatus:
    """Return how a login is at *now*."""
    if state is None:
        return "none"
    if state.ended is not None:
        return "ended"
    is_over = state.expires_at is not None and state.expires_at <= now and not state.renewable
    return "expired" if is_over else "ok"


def state_of(login: McpLogin) -> LoginState:
    """Return what may be known of *login*."""
    return LoginState(
        issuer=login.issuer,
        scope=login.scope,
        since=login.given_at,
        expires_at=login.until,
        renewable=login.refresh_token is not None,
    )


def _shown(value: msgspec.Struct) -> str:
    """Return *value* as its `repr` without secrets."""
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__ if name not in _SECRET_FIELDS)
    return f"{type(value).__name__}({', '.join(f'{name}={each!r}' for name, each in fields)})"
