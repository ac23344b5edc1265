"""The ports of MCP: connections, logins, and the masking of a server's secrets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from agent_core.errors import ParleyError
from agent_core.listings import strings_of
from agent_core.messages import Part, Text
from agent_core.secrets import scrubbed
from agent_core.servers import FilledServer, McpListing, McpLogin, McpServer
from agent_core.tools.base import CallContext, Done, Elicitation, Outcome, Pending, ToolError


class ServerLogins(Protocol):
    """The logins of servers, by the servers' names; all processes have the same ones."""

    async def login(self, server: str, /) -> McpLogin | None:
        """Return the login as this process knows it, None without one."""
        ...

    async def claim(self, server: str, spent: McpLogin, /) -> McpLogin | bool | None:
        """Return a login that came after *spent*; None when there is none any more.

        Else whether this process alone may renew it now, and says so by `put`, `end` or `release`.
        """
        ...

    async def put(self, server: str, spent: McpLogin, new: McpLogin, /) -> bool:
        """Keep *new* in the place of *spent*, unless that is another one by now, or none; return whether it is kept."""
        ...

    async def lack(self, server: str, login: McpLogin, scope: str, /) -> None:
        """Note that *login* was refused something that needs *scope*."""
        ...

    async def end(self, server: str, spent: McpLogin, why: str, /) -> None:
        """Drop *spent*, unless it is another one by now: an operator has to log in again."""
        ...

    async def release(self, server: str, spent: McpLogin, /) -> None:
        """Let the next one renew *spent*."""
        ...


class McpUnavailable(ParleyError):
    """A server cannot be reached, or does not speak the protocol; the message names the server and the remedy.

    *status* is the HTTP status, if that is what it answered with.
    """

    code = "mcp_unavailable"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class McpConnections(Protocol):
    """Connections to MCP servers, pooled: they outlive runs and come back after a server's restart."""

    def attach(self, logins: ServerLogins) -> None:
        """Use *logins* for servers that are logged in to; called before any other."""
        ...

    async def discover(self, server: McpServer) -> McpListing:
        """Return what *server* offers now; raises `McpUnavailable`, within seconds."""
        ...

    async def call(
        self,
        server: McpServer,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        headers: Mapping[str, str],
        *,
        repeatable: bool = False,
    ) -> Outcome:
        """Call *tool*, by the server's own name, with *headers* beside the server's; its failures are outcomes.

        A server that asks the person something gives `Elicitation`, and is called again with the answer in *context*.
        Servers of before 2026-07-28 ask in the middle of a call: that can be made again only if it is *repeatable*, as
        it reads or is idempotent. Another one waits for the answer, for minutes and in this process; once it waits no
        more, its end is unknown.
        """
        ...

    def follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        """Call *changed* whenever *server* says that its list of tools has changed, until `forget`."""
        ...

    async def forget(self, name: str) -> None:
        """Close the connections to the server *name*."""
        ...

    async def close(self) -> None:
        """Close all connections; no task or process of theirs is left."""
        ...


Change = Callable[[str], str]
HIDDEN = "[hidden]"
_SHORTEST, _SHORTEST_WORD = 4, 8
"""Characters from which on a value is masked, and an argument: shorter ones are words such as `stdio` or `info`."""


def masked(server: McpServer, text: str) -> str:
    """Return *text* without the secrets of *server*, nor other values of its headers, environment, args and URL.

    Mask before you cut: what is left of a secret is found no more.
    """
    if isinstance(server, FilledServer):
        text = scrubbed(text, server.secrets)
    for value in sorted(set(_hidden(server)), key=lambda each: (-len(each), each)):
        text = text.replace(value, HIDDEN)
    return text


def _hidden(server: McpServer) -> Iterator[str]:
    secrets = server.secrets.values() if isinstance(server, FilledServer) else ()
    client = (server.oauth.client_secret,) if server.oauth and server.oauth.client_secret else ()
    for text in (*server.headers.values(), *server.env.values(), *client):
        yield from _long(_pieces(text), _SHORTEST)
    for text in server.args:
        if "=" in text or not text.startswith("-"):  # the name of an option hides nothing
            yield from _long(_pieces(text), _SHORTEST_WORD)
    for text in secrets:  # of several lines, of which each may come alone
        yield from _long(text.splitlines(), _SHORTEST_WORD)
    for text in (server.url or "", *server.args, *server.env.values()):
        yield from _of_url(text)


def _long(texts: Iterator[str] | list[str], shortest: int) -> Iterator[str]:
    return (text for text in texts if len(text) >= shortest)


def _pieces(text: str) -> Iterator[str]:
    """Yield *text* and what of it may come alone: its lines, what follows `NAME=`, and what follows `Bearer`."""
    yield text
    yield from text.splitlines()
    yield text.partition("=")[2]
    yield (text.split() or [""])[-1]


def _of_url(text: str) -> Iterator[str]:
    """Yield the password and the values of the query, if *text* is a URL or `NAME=` and a URL."""
    start = text.find("://")
    try:
        found = urlsplit(text if start < 0 else text[text.rfind("=", 0, start) + 1 :])
        password = found.password or ""
    except ValueError:
        return
    if found.scheme and found.netloc:
        yield from _long([password, unquote(password)], _SHORTEST)
        for pair in found.query.split("&"):
            value = pair.partition("=")[2] or pair
            yield from _long([value, unquote(value)], _SHORTEST_WORD)


def changed_outcome(outcome: Outcome, plain: Change) -> Outcome:
    """Return *outcome* with its texts as *plain* makes them."""
    match outcome:
        case Done(parts, renders, data):
            shown = tuple(
                replace(each, text=plain(each.text), payload=strings_of(each.payload, plain)) for each in renders
            )
            said = None if data is None else plain(data)
            return Done(tuple(_plain_part(part, plain) for part in parts), shown, said)
        case ToolError(message):
            return replace(outcome, message=plain(message))
        case Elicitation(title, schema, detail):
            more = None if detail is None else plain(detail)
            return replace(outcome, title=plain(title), detail=more, schema=strings_of(schema, plain))
        case Pending():
            return outcome


def _plain_part(part: Part, plain: Change) -> Part:
    return msgspec.structs.replace(part, text=plain(part.text)) if isinstance(part, Text) else part
