"""`parley mcp`: servers, what waits to be accepted, and logins."""

import asyncio
import secrets
import webbrowser
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlsplit

import typer

from app.cli.client import Client, ServerRefused
from app.cli.printing import AsJson, Column, age, connect, every, indented, line, listed, request, row, short
from app.logs import say
from channels.text import one_line, visible

mcp = typer.Typer(help="MCP servers.", no_args_is_help=True)
DEEP = "    "
"""Where a description of several lines goes on: beneath the lines of a tool, and beside none of them."""
_LOGINS = {"none": "not logged in", "ok": "ok", "expired": "expired", "ended": "log in again"}
Server = Annotated[str, typer.Argument(help="The server's name or id.", metavar="SERVER")]


@mcp.command("list")
def list_servers(*, as_json: AsJson = False) -> None:
    """List the MCP servers: how they are, and how many tools they give."""
    columns = (
        Column("NAME", lambda each: each["name"], whole=True),
        Column("STATUS", lambda each: each["status"], whole=True),
        Column("LOGIN", _login, whole=True),
        Column("TOOLS", lambda each: str(len(each["tools"]))),
        Column("ASKED", lambda each: f"{age(each['listed_at'])} ago" if each["listed_at"] else "never reached"),
        Column("WHERE", lambda each: each["url"] or each["command"] or ""),
        Column("ERROR", lambda each: short(each["error"] or "")),
    )
    listed(every("/v1/mcp-servers"), columns, as_json=as_json)


@mcp.command("show")
def show_server(name: Server, *, as_json: AsJson = False) -> None:
    """Show what a server says of itself and of its tools, and what of it waits to be accepted."""
    server = request("GET", path_of(name))
    if as_json:
        line(server)
        return
    for label, text in _facts(server):
        say(f"{label + ':':<13}{one_line(text)}")
    if server["info"] and server["info"]["instructions"]:
        say(f"\ninstructions:\n  {indented(server['info']['instructions'])}")
    for tool in server["tools"]:
        for text in _described(tool):
            say(text)
    for text in _changes(server):
        say(text)


@mcp.command("refresh")
def refresh_server(name: Server) -> None:
    """Ask a server now what it offers; the exit code is 1 when it cannot be reached."""
    server = request("POST", f"{path_of(name)}/refresh")
    row(server["name"], server["status"], server["error"] or f"{len(server['tools'])} tools")
    if server["error"]:
        raise typer.Exit(1)


@mcp.command("accept")
def accept_server(name: Server, *, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Accept what a server says now of its tools, after it was shown."""
    server = request("GET", path_of(name))
    if not server["changes"]:
        row(server["name"], "nothing waits to be accepted")
        return
    for text in _changes(server):
        say(text)
    if not yes:
        typer.confirm("Accept this?", abort=True)
    done = request("POST", f"{path_of(name)}/accept", body={"digest": server["digest"]})
    row(done["name"], done["status"], f"{len(done['tools'])} tools")


def is_server(name: str) -> bool:
    """Return whether there is an MCP server with this id or name."""
    try:
        request("GET", path_of(name))
    except ServerRefused as refused:
        if refused.status != 404:  # noqa: PLR2004 - not found
            raise
        return False
    return True


def path_of(name: str) -> str:
    """Return the route of the server *name*."""
    return f"/v1/mcp-servers/{quote(name, safe='')}"


def _login(server: dict[str, Any]) -> str:
    """Return in a word how the login at a server is, for a list."""
    login = server["login"]
    return "" if login is None else _LOGINS[login["status"]]


def _logged(server: dict[str, Any]) -> str:
    """Return how the login at a server is, and what is to be done."""
    login = server["login"]
    if login is None:
        return ""
    if login["remedy"]:
        return f"{login['why']}; {login['remedy']}"
    return f"at {login['issuer']}" + (f", for {login['scope']}" if login["scope"] else "")


def _facts(server: dict[str, Any]) -> list[tuple[str, str]]:
    info: dict[str, Any] = server["info"] or {}
    facts = [
        ("server", f"{server['name']} ({server['source']})"),
        ("where", server["url"] or server["command"] or ""),
        ("status", server["status"]),
        ("error", server["error"] or ""),
        ("login", _logged(server)),
        ("says it is", " ".join(filter(None, (info.get("title"), info.get("version"))))),
        ("protocol", info.get("era", "")),
        ("trusted", "its annotations are believed" if server["trusted"] else ""),
        ("tools", str(len(server["tools"]))),
        *(("left out", f"{each['tool']}: {each['why']}") for each in server["left_out"]),
    ]
    return [(label, text) for label, text in facts if text]


def _described(tool: dict[str, Any]) -> Iterator[str]:
    """Give what the model reads of a tool: its title, description and arguments, and its hints as they count."""
    hints = tool["effect"] + (", idempotent" if tool["idempotent"] else "")
    head = one_line(f"{tool['name']} {tool['title'] or ''}")
    yield f"\n{head} ({one_line(hints)}): {indented(tool['description'], DEEP)}"
    if tool.get("annotations"):
        yield f"  the server says: {_hints(tool['annotations'])}"
    required = tool["parameters"].get("required", [])
    for name, schema in tool["parameters"].get("properties", {}).items():
        definition: dict[str, Any] = schema if isinstance(schema, dict) else {}
        needed = ", required" if name in required else ""
        text = one_line(str(definition.get("description", "")))
        yield f"  {one_line(name)} ({one_line(str(definition.get('type', 'any')))}{needed}): {text}".rstrip(": ")


def _changes(server: dict[str, Any]) -> Iterator[str]:
    """Give what waits to be accepted: of each tool what was accepted, and what the server says now."""
    for change in server["changes"]:
        yield f"\n{one_line(change['change'])}: {one_line(change['tool'])}"
        for label, tool in (("accepted", change.get("before")), ("now", change.get("now"))):
            if tool is not None:
                yield f"  {label}: {indented(tool.get('description', ''), DEEP)}"
                yield f"  {label}, arguments: {one_line(str(tool.get('parameters')))}"
                yield f"  {label}, title: {one_line(tool.get('title') or 'none')}"
                yield f"  {label}, the server says: {_hints(tool.get('annotations') or {})}"


def _hints(annotations: dict[str, Any]) -> str:
    """Return what a server says of a tool's effect, as it says it."""
    hints = [f"{name.replace('_', ' ')}: {'yes' if each else 'no'}" for name, each in annotations.items()]
    return one_line(", ".join(hints)) or "nothing of its effect"


WAIT = 300.0
"""Seconds for which the page may stay open."""
_UNREADABLE = (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError)
_PASTE_HELP = (
    "For a browser on another machine: after you have logged in it shows a page that does not open. Copy the whole "
    "address of that page, http://127.0.0.1:…/callback?…, and paste it here."
)
_SCOPE_HELP = "What is asked for, blanks between, as 'read write'; else what is configured or the server names."
_PORT_HELP = "A fixed port of this machine, for clients that are registered with one; 0 takes a free one."
_PATH = "/callback"
_MAX_REQUEST = 16_384
_DONE = "Parley has the answer of this login. You may close this page, and go back to the terminal."


@mcp.command("login")
def login(
    name: Server,
    *,
    paste: Annotated[bool, typer.Option("--paste", help=_PASTE_HELP)] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help=_PORT_HELP)] = 0,
    scope: Annotated[str | None, typer.Option(help=_SCOPE_HELP)] = None,
) -> None:
    """Log in at a server by your browser; the tokens stay with the running Parley, sealed."""
    if paste:
        begun = asyncio.run(_begun_to_paste(name, port, scope))
        done = request("POST", f"{path_of(name)}/login/complete", body=_ended(begun, _pasted()))
    else:
        done = asyncio.run(_logged_in(name, port, scope))
    row(done["name"], "logged in", done["error"] or f"{len(done['tools'])} tools")
    if done["error"]:
        raise typer.Exit(1)


@mcp.command("logout")
def logout(name: Server) -> None:
    """Forget the login at a server, and have its authorization server forget it."""
    request("DELETE", f"{path_of(name)}/login")
    row(name, "logged out")


async def _logged_in(name: str, port: int, scope: str | None) -> Any:
    async with connect() as client, _listening(port) as listener:
        begun = await _begun(client, name, listener.address, scope)
        body = _ended(begun, await _returned(begun["url"], listener))
        return await client.call("POST", f"{path_of(name)}/login/complete", body=body)


async def _begun_to_paste(name: str, port: int, scope: str | None) -> dict[str, Any]:
    """Begin a login whose page leads to an address that nothing listens at, here or where the browser is."""
    async with connect() as client:
        async with _listening(port) as listener:
            address = listener.address
        return await _begun(client, name, address, scope)


async def _begun(client: Client, name: str, address: str, scope: str | None) -> dict[str, Any]:
    """Begin a login, and print its page."""
    wanted = {"redirect_uri": address} | ({} if scope is None else {"scope": scope})
    begun = await client.call("POST", f"{path_of(name)}/login", body=wanted)
    say(f"Log in at {visible(begun['issuer'])}; its tokens come from {visible(begun['token_endpoint'])}.")
    say(f"Open this page:\n\n{one_line(begun['url'])}\n")
    return begun


def _ended(begun: dict[str, Any], redirected: str) -> dict[str, str]:
    return {"ticket": begun["ticket"], "redirected": redirected}


def _pasted() -> str:
    """Return the address that is pasted.

    It is read in the main thread, outside the event loop: one that waits in a thread keeps Ctrl-C waiting for a line.
    """
    say("The page ends at an address that does not open, http://127.0.0.1:…/callback?…: paste it here, whole.")
    try:
        redirected = input("Address: ").strip()
    except EOFError:
        redirected = ""
    if not redirected:
        say("No address was pasted: nothing is stored; log in again.")
        raise typer.Exit(1)
    return redirected


async def _returned(page: str, listener: "_Listener") -> str:
    """Return the address that *page* led the browser to."""
    listener.state = parse_qs(urlsplit(page).query).get("state", [""])[-1]
    if not await asyncio.to_thread(webbrowser.open, page):
        say("No browser opens here; where yours is on another machine, end this and use --paste.")
    try:
        async with asyncio.timeout(WAIT):
            return await listener.returned
    except TimeoutError:
        say(f"The page did not lead back within {WAIT / 60:g} minutes; log in again.")
        raise typer.Exit(1) from None


class _Listener:
    """What the page leads back to: *returned* is its address, once it has the *state* of this login."""

    def __init__(self) -> None:
        self.address, self.state = "", ""
        self.returned: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                is_ours = self._take(head.split(" ")[1] if head.startswith("GET ") else "")
                status, text = ("200 OK", _DONE) if is_ours else ("404 Not Found", "This is no page of this login.")
                lines = (f"HTTP/1.1 {status}", "Content-Type: text/plain; charset=utf-8", "Connection: close")
                writer.write("\r\n".join((*lines, f"Content-Length: {len(text)}", "", text)).encode())
                await writer.drain()
        except _UNREADABLE:  # a browser may end what it began
            return
        finally:
            writer.close()

    def _take(self, target: str) -> bool:
        """Keep the address with the path *target* if it is that of this login; other pages may ask here too."""
        parts = urlsplit(target)
        state = parse_qs(parts.query).get("state", [""])[-1]
        is_ours = bool(self.state) and secrets.compare_digest(state.encode(), self.state.encode())
        if parts.path != _PATH or not is_ours:
            return False
        if not self.returned.done():
            self.returned.set_result(f"{self.address}?{parts.query}")
        return True


@asynccontextmanager
async def _listening(port: int) -> AsyncIterator[_Listener]:
    """Give what the page leads back to, on this machine alone."""
    listener = _Listener()
    try:
        server = await asyncio.start_server(listener.answer, "127.0.0.1", port, limit=_MAX_REQUEST)
    except OSError as error:
        raise typer.BadParameter(f"port {port} cannot be opened here ({error.strerror}); use another, or 0.") from None
    async with server:
        listener.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{_PATH}"
        yield listener
