"""`parley tools` and `parley secrets`."""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from agent_core.errors import ConfigError
from agent_core.net.fetch import Bounds, Fetch, FetchFailed
from agent_core.tools.base import UNSHOWN
from app.cli.client import ServerRefused, Unreachable, json_option
from app.cli.mcp import is_server, show_server
from app.cli.printing import AsJson, Column, age, every, indented, line, listed, request, row, short, show
from app.logs import remark, say
from app.settings import load_settings
from channels.text import one_line

if TYPE_CHECKING:
    from app.openapi_import import Imported


def import_tools(
    document: Annotated[str, typer.Argument(help="An OpenAPI 3.0 or 3.1 document: a file, or a URL.")],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="GLOB", help="Operations by id or tag; give it again for more."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a file into this folder; without it, print the YAML.")
    ] = None,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="The API's address.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file of an import that was edited, or has other tools.")
    ] = False,
) -> None:
    """Write HTTP tools, as YAML, for the operations of an OpenAPI document."""
    from app.openapi_document import document_of
    from app.openapi_import import imported, written

    result = imported(document_of(_read(document), document), only=only or (), server=server, source=document)
    if not result.tools and not result.skipped:
        raise ConfigError(f"{document}: has no operation that fits; `--only` compares ids and tags.")
    text = written(result, document)
    if out is None:
        say(text)
    elif result.tools:
        say(f"wrote {_write(out, result, text, force=force)}: {len(result.tools)} tools")
    for each in result.skipped:
        remark(f"skipped {each}")
    for each in result.left_out:
        remark(f"left out of {each}")
    for name, what in sorted(result.secrets.items()):
        remark(f"parley secrets set {name}  # {what}")
    if not result.tools:
        raise typer.Exit(1)


def _read(document: str) -> bytes:

    if document.startswith(("http://", "https://")):
        return asyncio.run(_fetched(document))
    try:
        return Path(document).read_bytes()
    except OSError as error:
        raise ConfigError(f"{document}: cannot be read ({error.strerror}).") from None


async def _fetched(url: str) -> bytes:
    from app.openapi_document import MAX_BYTES

    fetch = Fetch(load_settings(serving=False).fetch_allow)
    try:
        answer = await fetch(url, bounds=Bounds(size=MAX_BYTES))
    except FetchFailed as error:
        raise ConfigError(f"{url}: {error}") from None
    finally:
        await fetch.close()
    if answer.status != 200:  # noqa: PLR2004 - HTTP's own number
        raise ConfigError(f"{url}: answered {answer.status}.")
    return answer.body


def _write(out: Path, result: "Imported", text: str, *, force: bool) -> Path:
    """Write *text* into the folder *out*; raise ConfigError rather than replace what another hand wrote.

    With *force* only a file that no import wrote is spared.
    """
    from app.openapi_import import HEADER, changed_since, file_name

    path = out / file_name(result.title)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.read_text("utf-8").startswith(HEADER):
            raise ConfigError(f"{path}: is there, and no import wrote it; move it, or choose another folder.")
        if path.exists() and not force and (why := changed_since(path, result)) is not None:
            raise ConfigError(f"{path}: {why}; give --force to replace it, or choose another folder.")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from None
    return path


tools = typer.Typer(help="Tools: what agents can do.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The tool's name or id.", metavar="NAME")]
CALLS = "Make the example calls of the definitions (`tests`) too; those of a tool that writes only when it is named."
CONTEXT = "Who asks, as a run would say it: a JSON object."


@tools.command("list")
def list_tools(*, as_json: AsJson = False) -> None:
    """List the tools of the server: what kind they are, whether they write, and where they come from."""
    catalog = every("/v1/tools")
    servers = _servers(catalog)
    columns = (
        Column("NAME", lambda each: each["name"], whole=True),
        Column("KIND", lambda each: each["kind"]),
        Column("EFFECT", lambda each: each["effect"]),
        Column("FROM", lambda each: _origin(each, servers)),
        Column("DESCRIPTION", lambda each: short(each["description"], 80)),
    )
    listed(catalog, columns, as_json=as_json)


@tools.command("show")
def show_tool(name: Name, *, as_json: AsJson = False) -> None:
    """Show a tool: what the model reads of it, what it takes, what is preset, its versions, and who has it.

    With the name of an MCP server: what that says of itself and of its tools.
    """
    try:
        tool = request("GET", f"/v1/tools/{quote(name, safe='')}")
    except ServerRefused as refused:
        if refused.status != 404 or not is_server(name):  # noqa: PLR2004 - not found
            raise
        show_server(name, as_json=as_json)
        return
    if as_json:
        line(tool)
        return
    for label, text in _facts(tool):
        say(f"{label + ':':<13}{one_line(text)}")
    say(f"\n  {indented(tool['description'])}\n")
    for label in ("parameters", "preset", "config", "tests"):
        if value := tool.get(label):  # a server of the version before has no `tests`
            say(f"{label}:")
            show(value)


@tools.command("call")
def call_tool(
    name: Name,
    arguments: Annotated[str | None, typer.Argument(help="The arguments, as a JSON object.")] = None,
    *,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="One argument; JSON, or else a text.")
    ] = None,
    tool_context: Annotated[str | None, typer.Option(metavar="JSON", help=CONTEXT)] = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool outside of any conversation: what it writes is written. The exit code is 1 when the call failed."""
    values = {} if arguments is None else json_option("ARGUMENTS", arguments, "write them as one JSON object.")
    values |= dict(_argument(each) for each in arg or ())
    context = None
    if tool_context is not None:
        context = json_option("--tool-context", tool_context, "write it as one JSON object.")
    body = {"arguments": values, "tool_context": context}
    done = request("POST", f"/v1/tools/{quote(name, safe='')}/call", body=body)
    if as_json:
        line(done)
    else:
        for each in done["progress"]:
            row("...", each)
        say("  " + indented(done["text"]))
        row(done["outcome"], f"{done['duration_ms']} ms", *(["cut"] if done["truncated"] else []))
    if done["outcome"] != "done":
        raise typer.Exit(1)


@tools.command("test")
def check_tools(
    names: Annotated[list[str] | None, typer.Argument(help="These; without any, all.", metavar="NAME")] = None,
    *,
    call: Annotated[bool, typer.Option("--call", help=CALLS)] = False,
    as_json: AsJson = False,
) -> None:
    """Check that tools can work, without calling them; the exit code is 1 when one cannot.

    Checked are the definition and what its calls need: secrets, addresses, servers.
    """
    well = True
    for name in names or [each["name"] for each in every("/v1/tools")]:
        result = request("POST", f"/v1/tools/{quote(name, safe='')}/test")
        if call and not result["faults"]:
            result |= _tried(name, is_named=bool(names))
        well = well and not result["faults"]
        if as_json:
            line(result)
        else:
            row(result["name"], *(result["faults"] or ["ok", *_summary(result)]))
    if not well:
        raise typer.Exit(1)


def _servers(listed_tools: list[dict[str, Any]]) -> dict[str, str]:
    """Return the MCP servers of *listed_tools*, by the tools' names; none are asked for without need."""
    if all(tool["kind"] != "mcp" for tool in listed_tools):
        return {}
    return {tool["name"]: server["name"] for server in every("/v1/mcp-servers") for tool in server["tools"]}


def _origin(tool: dict[str, Any], servers: Mapping[str, str]) -> str:
    """Return where *tool* comes from: a file, the API with the version, one of *servers* by tool, or Parley itself."""
    version = "" if tool["version"] is None else f" v{tool['version']}"
    away = "" if tool["available"] else ", not available"
    if tool["place"]:
        return f"{tool['place']}{version}{away}"
    if tool["source"]:
        return f"{tool['source']}{version}{away}"
    if tool["kind"] == "mcp":
        return f"the MCP server {servers[tool['name']]}" if tool["name"] in servers else "an MCP server"
    return "Parley" if tool["kind"] in {"builtin", "render"} else "Python"


def _facts(tool: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("name", tool["name"]),
        ("title", " / ".join(filter(None, (tool["title"], tool["title_done"])))),
        ("id", tool["id"] if tool["id"] != tool["name"] else ""),
        ("kind", tool["kind"]),
        ("from", _origin(tool, _servers([tool]))),
        ("effect", tool["effect"] + (", idempotent" if tool["idempotent"] else "")),
        ("bounds", f"{tool['timeout_s']:g} s, {tool['result_limit']:,} characters"),
        ("output", tool["output"] or ""),
        ("context", ", ".join(tool["context"])),
        ("untrusted", "what it returns may have been written by strangers" if tool["untrusted"] else ""),
        ("versions", ", ".join(f"v{each['version']} {each['created_at'][:16]}" for each in tool["versions"])),
        ("agents", ", ".join(tool["agents"]) or "none"),
    ]
    return [(label, text) for label, text in facts if text]


def _argument(option: str) -> tuple[str, Any]:
    """Return the name and the value of an option `--arg name=value`."""
    name, equals, text = option.partition("=")
    if not equals or not name:
        raise typer.BadParameter("write NAME=VALUE.", param_hint="--arg")
    try:
        return name, json.loads(text)
    except (ValueError, RecursionError):
        return name, text


def _tried(name: str, *, is_named: bool) -> dict[str, Any]:
    """Return how many example calls of the tool *name* were made, how many were not, and their faults.

    Those of a tool that writes are made only if it *is_named* by the operator.
    """
    path = f"/v1/tools/{quote(name, safe='')}"
    tool = request("GET", path)
    if tool["effect"] == "write" and not is_named:
        return {"calls": 0, "skipped": len(tool["tests"])}
    faults = list[str]()
    for place, example in enumerate(tool["tests"]):
        body = {"arguments": example["arguments"], "tool_context": example["tool_context"]}
        try:
            done = request("POST", f"{path}/call", body=body)
        except (ServerRefused, Unreachable) as error:  # the other examples are tried all the same
            faults.append(f"tests[{place}]: {error}")
        else:
            faults += (f"tests[{place}]: {fault}" for fault in _differences(example, done))
    return {"faults": faults, "calls": len(tool["tests"]), "skipped": 0}


def _summary(result: dict[str, Any]) -> Sequence[str]:
    """Return what people read of the calls that were made, and of those that were not."""
    calls, skipped = result.get("calls", 0), result.get("skipped", 0)
    lines = [f"{calls} calls as expected" if calls != 1 else "1 call as expected"] if calls else []
    return [*lines, f"{skipped} not made, as it writes: name it"] if skipped else lines


def _differences(example: dict[str, Any], done: dict[str, Any]) -> Iterator[str]:
    if done["outcome"] != example["outcome"]:
        yield f"{done['outcome']}, and not {example['outcome']}: {short(done['text'], 200)}"
        return
    if done["text"].startswith(UNSHOWN) and not example["contains"]:  # its author is to see an `output` that fails
        yield short(done["text"], 200)
    for text in example["contains"]:
        if text not in done["text"]:
            yield f"the result has no `{short(text)}`: {short(done['text'], 200)}"


secrets = typer.Typer(help="Secrets of tools and MCP servers.", no_args_is_help=True)


@secrets.command("set")
def set_secret(name: str) -> None:
    """Store a secret, or give it a new value, read from standard input: it is no argument, which others could see."""
    stored = request("PUT", f"/v1/secrets/{quote(name, safe='')}", body={"value": _value(name)})
    row(stored["name"], "set")


@secrets.command("list")
def list_secrets(*, as_json: AsJson = False) -> None:
    """List the secrets, without their values."""
    columns = (
        Column("NAME", lambda each: each["name"]),
        Column("CHANGED", lambda each: f"{age(each['updated_at'])} ago", whole=True),
    )
    listed(every("/v1/secrets"), columns, as_json=as_json)


@secrets.command("delete")
def delete_secret(name: str) -> None:
    """Delete a secret that no tool and no MCP server refers to."""
    request("DELETE", f"/v1/secrets/{quote(name, safe='')}")
    row(name, "deleted")


def _value(name: str) -> str:
    """Return the value: asked for without showing it, or what a pipe holds, less a line end."""
    if sys.stdin.isatty():
        return typer.prompt(f"Value of {name}", hide_input=True)
    value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise typer.BadParameter(f"standard input is empty; try: printf %s VALUE | parley secrets set {name}")
    return value
