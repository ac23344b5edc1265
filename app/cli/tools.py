"""`parley tools`: list tools, show one, call one, and check their definitions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer

from agent_core.tools.base import UNSHOWN
from app.cli.client import ServerRefused, Unreachable
from app.cli.mcp_servers import is_server, show_server
from app.cli.printing import AsJson, Column, every, indented, line, listed, request, row, short, show
from app.printer import say
from channels.text import one_line

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
    from app.cli.client import ServerRefused

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
    from app.cli.json_option import json_object

    values = {} if arguments is None else json_object("ARGUMENTS", arguments, "write them as one JSON object.")
    values |= dict(_argument(each) for each in arg or ())
    context = None
    if tool_context is not None:
        context = json_object("--tool-context", tool_context, "write it as one JSON object.")
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
