"""What went wrong with an MCP server, as a sentence that names it and the remedy, and no secret."""

import re
from typing import cast

import httpx2
import mcp_types as wire
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from agent_core.messages import visible
from agent_core.net.targets import FetchRefused
from agent_core.servers import McpServer, remedy_of, uses_login
from agent_core.tools.mcp.marks import CallMark
from agent_core.tools.mcp.masking import masked
from agent_core.tools.mcp.port import McpUnavailable

_MAX_TEXT = 2_000
_STATUSES = {
    401: "refuses the credentials (HTTP 401); look at its `headers` or `oauth`",
    403: "does not allow this (HTTP 403); its credentials lack a permission",
    404: "has no MCP endpoint at this URL (HTTP 404); look at its `url`",
    405: "has no MCP endpoint at this URL (HTTP 405); look at its `url`",
    429: "has had too many requests (HTTP 429); try again later",
}
_UNAUTHORIZED = 401
_CREDENTIALS = (401, 403)
_NOT_SENT = (
    McpUnavailable,
    FetchRefused,
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.LocalProtocolError,
)
_SERVER_FAULT = 500
_BEFORE_WORK = frozenset({401, 403, 405, 406, 413, 415, 429})
"""Statuses by which a request is refused before anything is done for it, by whatever gateway."""
_LOST = ("Connection closed", "SSE stream ended", "SSE stream failed")
_LATE = re.compile(r"Request '[^']*' timed out")
NOT_RUN = frozenset({wire.UNSUPPORTED_PROTOCOL_VERSION, wire.METHOD_NOT_FOUND, wire.INVALID_REQUEST})
"""Errors by which a server says that it did not understand the request; tools may end with them as well."""
_UNREADABLE = ("Unexpected content type: ", "Failed to parse ", "Redirect to ", "server answered a request with 202")


def leaf(error: BaseException) -> BaseException:
    """Return the first error in the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def may_have_run(error: BaseException, mark: CallMark) -> bool:
    """Return whether a call that failed so may have done on the server what it was to do."""
    error = leaf(error)
    if not mark.sent or isinstance(mark.failure, _NOT_SENT):
        return False
    if mark.failure is not None or (mark.status or 0) >= _SERVER_FAULT:
        return True
    if is_lost(error) or is_late(error) or is_unreadable(error):
        return True
    return not (is_own(error) or mark.status in _BEFORE_WORK)


def is_lost(error: BaseException) -> bool:
    """Return whether the SDK made *error*, as the connection or the stream ended; servers use its code for theirs."""
    return isinstance(error, MCPError) and error.code == wire.CONNECTION_CLOSED and error.message.startswith(_LOST)


def is_unreadable(error: BaseException) -> bool:
    """Return whether the SDK made *error*, as what came is no answer: another type, a redirect, broken JSON."""
    return (
        isinstance(error, MCPError)
        and error.code in (wire.PARSE_ERROR, wire.INVALID_REQUEST)
        and error.message.startswith(_UNREADABLE)
    )


def is_late(error: BaseException) -> bool:
    """Return whether the SDK made *error*, as no answer came in time; servers use its code for their own."""
    return (
        isinstance(error, MCPError)
        and error.code == wire.REQUEST_TIMEOUT
        and _LATE.fullmatch(error.message) is not None
    )


def failure(server: McpServer, error: BaseException, mark: CallMark, words: str = "") -> McpUnavailable:
    """Return *error* as it is shown; *words* are the last that a child process wrote."""
    error = leaf(error)
    if isinstance(error, McpUnavailable):
        return McpUnavailable(masked(server, str(error))[:_MAX_TEXT], error.status)
    said = masked(server, visible(f"The MCP server `{server.name}` {_said(server, error, mark, words)}."))
    return McpUnavailable(said[:_MAX_TEXT], mark.status)


def _said(server: McpServer, error: BaseException, mark: CallMark, words: str) -> str:
    refusal = mark.failure
    if isinstance(refusal, McpUnavailable):
        return str(refusal).removesuffix(".")
    if isinstance(refusal, FetchRefused):
        return f"may not be reached: {str(refusal).removesuffix('.')}"
    if refusal is not None:
        return f"cannot be reached ({type(refusal).__name__}: {refusal})"
    if mark.remedy is not None:
        return f"does not allow this (HTTP 403): its credentials lack a scope; {mark.remedy}"
    if mark.status == _UNAUTHORIZED and uses_login(server):
        return f"refuses the credentials (HTTP 401); {remedy_of(server.name)}, or look at its `headers` or `oauth`"
    if mark.status is not None and (mark.status in _CREDENTIALS or not is_own(error)):
        known = _STATUSES.get(mark.status)
        return known or f"answered with HTTP {mark.status}" + (
            ", its own fault" if mark.status >= _SERVER_FAULT else ""
        )
    last = f"; its last words: {words}" if words else ""
    match error:
        case _ if isinstance(error, TimeoutError) or is_late(error):
            return f"did not answer in time{last}"
        case MCPError():
            return _answered(error, last)
        case FileNotFoundError() | PermissionError() if server.transport == "stdio":
            return f"cannot be started: {error.strerror} (`{server.command}`)"
        case ValidationError():
            places = ", ".join(".".join(map(str, each["loc"])) for each in error.errors()[:3])
            return f"answered what the protocol does not allow ({places or error.title})"
        case _:
            return f"cannot be used ({type(error).__name__}: {error}){last}"


def _answered(error: MCPError, last: str) -> str:
    if is_lost(error):
        return f"ended the connection before it answered ({error.message}){last}"
    if is_unreadable(error):
        return f"gave an answer that cannot be read ({error.message.splitlines()[0]})"
    return f"answered with the error {error.code}: {error.message}"


def is_own(error: BaseException) -> bool:
    """Return whether *error* is a JSON-RPC error that the server itself worded, at whatever HTTP status."""
    return isinstance(error, MCPError) and error.message not in {
        "Server returned an error response",
        "Session terminated",
        "Not Found",
    }
