"""MCP servers and logins at them as they travel."""

from agent_core.listings import McpServerObject
from agent_core.runtime.discovery import LoginBegun
from agent_core.servers import LoginObject
from app.api.bodies.derived import wire_of
from app.api.bodies.wire import copied


class McpLoginAnswer(wire_of(LoginObject), frozen=True, kw_only=True):
    """How the login at an MCP server is: `none`, `ok`, `expired`, or `ended`, as *why* says; *remedy* is what to do.

    *expires_at* is when the access token ends, which is renewed by itself where the status stays `ok`.
    """


class McpLoginBegun(wire_of(LoginBegun), frozen=True, kw_only=True):
    """A login that has begun: an operator opens *url*, and *ticket* ends it with the address that this led to.

    *issuer* is who gives the tokens, which come from *token_endpoint*.
    """


class McpServerAnswer(wire_of(McpServerObject, without=("login",)), frozen=True, kw_only=True):
    """An MCP server with what is known of it; private texts are hidden.

    *tools* are those that agents may use, *changes* how what it says now differs from them: with `on_change: hold` a
    changed or added one waits until *digest* is accepted. *left_out* are tools that no model could be offered.
    *login* is how an operator's login there is, null where there is none and none is known to be needed.
    """

    login: McpLoginAnswer | None


def mcp_server_wire(server: McpServerObject) -> McpServerAnswer:
    """Return *server* as it travels."""
    login = None if server.login is None else copied(server.login, McpLoginAnswer)
    return copied(server, McpServerAnswer, login=login)


def mcp_login_wire(begun: LoginBegun) -> McpLoginBegun:
    """Return *begun* as it travels."""
    return copied(begun, McpLoginBegun)
