"""MCP servers on the command line: `parley mcp list`, `parley tools show SERVER` and `parley tools accept SERVER`."""

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.printing import AsJson, Column, age, every, indented, line, listed, request, row, short
from app.printer import say
from channels.text import one_line

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
    from app.cli.client import ServerRefused

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
