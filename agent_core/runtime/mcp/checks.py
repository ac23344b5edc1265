"""What can be seen to be wrong with the definition of an MCP server before it is asked; pure."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from agent_core.agents import secrets_in
from agent_core.errors import Fault, InvalidInput
from agent_core.servers import McpOAuth, McpServer
from agent_core.tools.base import REPEATED, repeats

NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
MAX_TIMEOUT = 600.0
MAX_ENTRIES = 100
MAX_TEXT = 8_000
SETTING = "PARLEY_MCP_STDIO"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_OF_THE_PROTOCOL = frozenset(
    ["host", "content-length", "content-type", "accept", "connection", "transfer-encoding", "upgrade", "last-event-id"]
)
"""Headers that the transport writes itself, as it does all that begin with `mcp-`."""
CheckUrl = Callable[[str], None]
"""Raises `ParleyError` for an address that is not asked."""


def check_server(server: McpServer, *, check_url: CheckUrl, stdio: bool, secrets: Collection[str] | None) -> None:
    """Raise `InvalidInput`, with the field, for a *server* that could not work.

    *stdio* says whether one may be a program; *secrets* are the names of those that are stored, None when they may come
    later.
    """
    if not NAME.fullmatch(server.name):
        raise InvalidInput("name", "a server's name has 1 to 32 letters, digits, `_` and `-`.")
    faults = [*_place(server, check_url, stdio=stdio), *_lists(server)]
    if not 0 < server.timeout_s <= MAX_TIMEOUT:
        faults.append(Fault("timeout_s", f"above 0 and at most {MAX_TIMEOUT:g} seconds."))
    if secrets is not None:
        faults += _missing(server, secrets)
    if faults:
        first, *more = faults
        raise InvalidInput(first.path, first.message, *more)


def check_filed(servers: Sequence[McpServer], *, check_url: CheckUrl) -> None:
    """Raise `InvalidInput`, with the field in the file, for one of the operator's own *servers* that could not work.

    Secrets that they refer to may be stored later.
    """
    for server in servers:
        try:
            check_server(server, check_url=check_url, stdio=True, secrets=None)
        except InvalidInput as error:
            raise InvalidInput(f"mcpServers.{server.name}.{error.path}", error.message) from None


def _missing(server: McpServer, secrets: Collection[str]) -> Iterator[Fault]:
    """Give the fields that refer to secrets which are not among *secrets*."""
    fields: dict[str, object] = {
        "url": server.url,
        **{f"headers.{name[:100]}": text for name, text in server.headers.items()},
        **{f"env.{name[:100]}": text for name, text in server.env.items()},
        **{f"args[{place}]": text for place, text in enumerate(server.args)},
        "oauth.client_secret": None if server.oauth is None else server.oauth.client_secret,
    }
    fields["server"] = None if secrets_in(list(fields.values())) >= secrets_in(server) else server
    for path, text in fields.items():
        if listed := ", ".join(sorted(secrets_in(text) - set(secrets))):
            yield Fault(path, f"there is no secret {listed}; store it first, with `parley secrets set`.")


def _place(server: McpServer, check_url: CheckUrl, *, stdio: bool) -> Iterator[Fault]:
    """Give what is wrong with where the server is."""
    if server.transport == "stdio":
        yield from _program(server, stdio=stdio)
        return
    for name in ("command", "args", "env", "cwd"):
        if getattr(server, name):
            yield Fault(name, "a server over http has none: it is not started here.")
    if not server.url:
        yield Fault("url", "a server over http has a `url`, such as https://example.com/mcp.")
    else:
        yield from _address("url", server.url, check_url)
    yield from _headers(server)
    if server.oauth is not None:
        yield from _oauth(server, server.oauth, check_url)


def _oauth(server: McpServer, oauth: McpOAuth, check_url: CheckUrl) -> Iterator[Fault]:
    is_login = oauth.grant == "authorization_code"
    for name in ("client_id", "client_secret"):
        value = getattr(oauth, name)
        if value is None and not is_login:
            text = "client credentials have one; or log in by a browser, with `grant: authorization_code`."
            yield Fault(f"oauth.{name}", text)
        elif value is not None and not value.strip():
            yield Fault(f"oauth.{name}", "it is empty.")
    if is_login and oauth.client_secret and not oauth.client_id:
        yield Fault("oauth.client_id", "a client with a secret has an id.")
    if is_login and any(name.lower() == "authorization" for name in server.headers):
        yield Fault("headers.Authorization", "the login sets it; leave one of the two out.")
    if isinstance(oauth.resource, str) and not oauth.resource.strip():
        yield Fault("oauth.resource", "it is empty; `false` asks for no resource.")
    for name in ("issuer", "token_url"):
        if (url := getattr(oauth, name)) is not None:
            yield from _address(f"oauth.{name}", url, check_url)


def _program(server: McpServer, *, stdio: bool) -> Iterator[Fault]:
    if not stdio:
        text = f"programs are started for the API only with {SETTING}=on; set it, or write the server in mcp.json."
        yield Fault("transport", text)
    if not server.command or not server.command.strip() or "\0" in server.command:
        yield Fault("command", "a server over stdio has a `command`: the program to start.")
    for name in ("url", "headers", "oauth", "context"):
        if getattr(server, name):
            yield Fault(name, "a server over stdio has none: it gets no HTTP requests. Use `args` and `env`.")
    for name, value in server.env.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value or len(value) > MAX_TEXT:
            yield Fault(f"env.{name[:100]}", "a variable has letters, digits and `_` in its name, and no U+0000.")
    for place, value in enumerate(server.args):
        if "\0" in value or len(value) > MAX_TEXT:
            yield Fault(f"args[{place}]", f"at most {MAX_TEXT:,} characters, without U+0000.")


def _address(path: str, url: str, check_url: CheckUrl) -> Iterator[Fault]:
    try:
        check_url(url)
    except Exception as error:  # noqa: BLE001 - what a guard raises is its own; its text says what is wrong
        yield Fault(path, str(error))


def _headers(server: McpServer) -> Iterator[Fault]:
    seen: set[str] = set()
    for name, value in server.headers.items():
        path = f"headers.{name[:100]}"
        if not _HEADER.fullmatch(name):
            yield Fault(path, "no name of a header.")
        elif name.lower() in _OF_THE_PROTOCOL or name.lower().startswith("mcp-"):
            yield Fault(path, "the protocol sets it itself; leave it out.")
        elif name.lower() in seen:
            yield Fault(path, "it is there twice.")
        elif not (value.isascii() and value.isprintable()) or len(value) > MAX_TEXT:
            yield Fault(path, f"its value is at most {MAX_TEXT:,} printable ASCII characters.")
        seen.add(name.lower())


def _lists(server: McpServer) -> Iterator[Fault]:
    for name in ("allow", "deny", "context", "args", "headers", "env"):
        if len(getattr(server, name)) > MAX_ENTRIES:
            yield Fault(name, f"at most {MAX_ENTRIES}.")
    for name in ("allow", "deny"):
        for place, glob in enumerate(getattr(server, name)):
            if not glob or len(glob) > 128:  # noqa: PLR2004 - as long as a tool's own name may be
                yield Fault(f"{name}[{place}]", "a glob over the server's own names, 1 to 128 characters.")
    for place, key in enumerate(server.context):
        if not _KEY.fullmatch(key):
            yield Fault(f"context[{place}]", "a key of the caller's context: letters, digits, `_`, `.` and `-`.")
        elif repeats(key, server.context[:place]):
            yield Fault(f"context[{place}]", REPEATED)
