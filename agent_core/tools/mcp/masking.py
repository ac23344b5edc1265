"""The private texts of an MCP server, masked in whatever it says and in what is said of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import msgspec

from agent_core.listings import strings_of
from agent_core.messages import Part, Text
from agent_core.secrets import scrubbed
from agent_core.servers import FilledServer, McpServer
from agent_core.tools.base import Done, Elicitation, Outcome, Pending, ToolError

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
