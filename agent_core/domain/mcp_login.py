"""The login of an operator at an MCP server: what it gave, how it is, and the one that is under way. Pure."""

from shlex import quote
from typing import Literal

import msgspec

from agent_core.domain.mcp import McpServer
from agent_core.errors import Conflict

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
