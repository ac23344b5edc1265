"""The commands of `parley`, and those of its groups that have no file of their own."""

import asyncio
import json
import logging
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer

from agent_core.agents import Controls
from agent_core.errors import ConfigError
from app import logs, storage
from app.cli.client import Client, ServerRefused
from app.cli.keys import actors, approvals, audit, cost, keys, revoke, web_keys
from app.cli.mcp import accept_server, mcp
from app.cli.printing import AsJson, Column, age, connect, every, indented, listed, request, row, short, show
from app.cli.tools import import_tools, secrets, tools
from app.logs import say
from app.settings import Settings, load_settings, web_address
from channels.text import as_json, one_line

Name = Annotated[str, typer.Argument(metavar="NAME", help="The new folder; `.` is the current one.")]
Sample = Annotated[bool, typer.Option("--sample", help="Add a small SQLite of customers and orders to try tools on.")]


def init(name: Name, *, sample: Sample = False) -> None:
    """Make a project: an agent, its tools, a page, tests, and what it takes to deploy them."""
    from app.project.create import create

    made = create(name, sample=sample, parent=Path(), version=installed())
    place = "This folder" if made.is_here else f"`{made.folder}`"
    say(f"{place} has a project; its {made.readme} leads on. Try:\n")
    say("\n".join(f"    {command}" for command in made.commands))


def dev() -> None:
    """Serve the project in this folder on this machine, and take up changes of agents and tools, until Ctrl-C."""
    from app.dev import dev as run

    run(_settings())


def installed() -> str:
    """Return the version of the installed Parley."""
    return version("parley")


def print_version(*, wanted: bool) -> None:
    """Print the version and end the command, when that is *wanted*."""
    if wanted:
        say(f"parley {installed()}")
        raise typer.Exit


ROUTE = "/parley-token"
widget = typer.Typer(help="The widget for web pages.", no_args_is_help=True)

Agent = Annotated[str, typer.Option(help="Id or name of the agent.")]
Server = Annotated[str | None, typer.Option(metavar="URL", help="Where browsers reach the server.")]
TokenUrl = Annotated[str, typer.Option(metavar="URL", help="The route of your site that makes visitors' tokens.")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Visitors without a name, where the agent allows them.")]
AsLauncher = Annotated[bool, typer.Option("--launcher", help="A bubble in a corner of the page, as one line.")]
AsFrame = Annotated[bool, typer.Option("--frame", help="An iframe, for pages that take no script of another origin.")]
Pinned = Annotated[bool, typer.Option("--pinned", help="This version for good, with its integrity.")]


@widget.callback()
def widget_commands() -> None:
    """Embed the widget."""


@widget.command()
def snippet(
    *,
    agent: Agent = "assistant",
    server: Server = None,
    token_url: TokenUrl = ROUTE,
    anonymous: Anonymous = False,
    launcher: AsLauncher = False,
    pinned: Pinned = False,
    frame: AsFrame = False,
) -> None:
    """Print the lines to write into a page."""
    from channels.web.frame_page import Snippet, UnknownScript

    if frame and (launcher or pinned):
        raise typer.BadParameter("An iframe goes without --launcher and --pinned.", param_hint="--frame")
    settings = load_settings(serving=False)
    try:
        place = web_address(server) if server is not None else settings.public_url or settings.url
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
    made = Snippet(
        server=(place or f"http://{settings.host}:{settings.port}").rstrip("/"),
        agent=agent,
        token_url=None if anonymous else token_url,
        launcher=launcher,
        pinned=pinned,
        frame=frame,
    )
    try:
        say(made.text())
    except UnknownScript as error:
        raise typer.BadParameter(str(error), param_hint="--pinned") from None


app = typer.Typer(
    help="One agent core, many places to talk to it.",
    no_args_is_help=True,
    add_completion=False,
    # Typer's own traces show what variables hold.
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)
agents = typer.Typer(help="Stored agents.", no_args_is_help=True)
runs = typer.Typer(help="Runs of agents.", no_args_is_help=True)
sessions = typer.Typer(help="Conversations.", no_args_is_help=True)
slack = typer.Typer(help="Receive from Slack by Socket Mode until Ctrl-C, or prepare to.", invoke_without_command=True)
app.add_typer(agents, name="agents")
app.add_typer(runs, name="runs")
app.add_typer(approvals, name="approvals")
app.add_typer(sessions, name="sessions")
app.add_typer(slack, name="slack")
app.add_typer(tools, name="tools")
app.add_typer(mcp, name="mcp")
tools.command("accept")(accept_server)
tools.command("import")(import_tools)
app.add_typer(keys, name="keys")
app.add_typer(web_keys, name="web-keys")
app.add_typer(actors, name="actors")
app.add_typer(secrets, name="secrets")
app.add_typer(widget, name="widget")
app.command("init")(init)
app.command("dev")(dev)
app.command("revoke")(revoke)
app.command("audit")(audit)
app.command("cost")(cost)

Limit = Annotated[int, typer.Option(min=1, max=100, help="How many to show at most.")]


@app.callback()
def parley(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version)
    ] = False,
) -> None:
    """One agent core, many places to talk to it."""


@app.command()
def serve(
    *,
    web_only: Annotated[
        bool, typer.Option("--web-only", help="Drive no runs: `parley worker` does (Postgres).")
    ] = False,
) -> None:
    """Serve the API and the page until Ctrl-C."""
    settings = _settings()
    from app.main import serve as run

    run(settings, web_only=web_only)


@app.command()
def worker(
    *,
    health_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Answer /healthz, /readyz and /metrics on this port of HOST.")
    ] = None,
) -> None:
    """Drive runs, beside any number of others, until Ctrl-C (Postgres)."""
    settings = _settings()
    from app.main import work as run

    run(settings, health_port=health_port)


@app.command()
def migrate() -> None:
    """Bring the database up to date."""
    logs.configure()
    settings = load_settings(serving=False)
    say(storage.migrate(settings))


@app.command()
def doctor(*, offline: Annotated[bool, typer.Option("--offline", help="Ask no provider.")] = False) -> None:
    """Check what this deployment depends on; the exit code is 1 when a check fails."""
    from app.doctor import doctor as run

    raise typer.Exit(0 if run(offline=offline) else 1)


@app.command()
def chat(
    message: Annotated[str | None, typer.Argument(help="Ask this once; without it, talk until Ctrl-D.")] = None,
    *,
    agent: Annotated[
        str | None, typer.Option(help="The agent to talk to, by name or id; else `assistant`, or the only one.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Continue this conversation of yours (`/sessions` lists them).")
    ] = None,
    history: Annotated[bool, typer.Option("--history/--no-history", help="Keep what is typed, to recall it.")] = True,
    tool_context: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="""Who asks, for the tools: '{"customer": "C-1"}'; {} is no one."""),
    ] = None,
) -> None:
    """Talk to an agent in the terminal; the exit code is 1 when an answer or a command could not be completed."""
    from app.cli.chat.command import chat as run

    logs.configure(level=logging.WARNING)  # no start and stop of a core in this process between the answers
    raise typer.Exit(run(agent=agent, session=session, message=message, history=history, tool_context=tool_context))


@agents.command("list")
def list_agents(*, as_json: AsJson = False) -> None:
    """List the agents."""
    columns = (
        Column("NAME", lambda each: each["name"]),
        Column("VERSION", lambda each: f"v{each['version']}", whole=True),
        Column("FROM", lambda each: each["source"]),
        Column("MODEL", lambda each: each["model"] or "-"),
        Column("ID", lambda each: each["id"], whole=True),
    )
    listed(every("/v1/agents"), columns, as_json=as_json)


@agents.command("apply")
def apply_agents(path: Annotated[Path, typer.Argument(help="A YAML file, or a folder of them.")]) -> None:
    """Create or update agents from files."""
    from app.files import SUFFIXES, read_agent

    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or folder; name the agent's YAML.")
    files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
    definitions = []
    for file in files:
        # A file is the whole definition: what it leaves out is reset to its default, which an absent field is not.
        definition = msgspec.to_builtins(read_agent(file))
        controls = {**dict.fromkeys(Controls.__struct_fields__), **definition["controls"]}
        definitions.append({**definition, "controls": controls})
    asyncio.run(_apply_all(definitions))


@runs.command("list")
def list_runs(
    *,
    agent: str | None = None,
    session: str | None = None,
    status: str | None = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, the latest first, with what they cost where that is known."""
    columns = (
        Column("AGE", lambda each: age(each["created_at"]), whole=True),
        Column("STATUS", lambda each: each["status"]),
        Column("COST", lambda each: f"${each['cost']}" if each["cost"] else "-"),
        Column("ANSWER", lambda each: short(each["output"]["text"])),
        Column("SESSION", lambda each: each["session"], whole=True),
        Column("ID", lambda each: each["id"], whole=True),
    )
    query = {"agent": agent, "session": session, "status": status, "limit": limit}
    listed(request("GET", "/v1/runs", **query)["items"], columns, as_json=as_json)


@runs.command("show")
def show_run(id: str) -> None:
    """Show a run as JSON; `error.detail` says what to do about one that failed."""
    show(request("GET", f"/v1/runs/{quote(id, safe='')}"))


@runs.command("cancel")
def cancel_run(id: str) -> None:
    """Stop a run; what it said so far is kept."""
    run = request("POST", f"/v1/runs/{quote(id, safe='')}/cancel")
    row(run["id"], run["status"])


@runs.command("tail")
def tail_run(id: str) -> None:
    """Print a run's events until it ends or waits."""

    async def print_all() -> None:
        async with connect() as client:
            async for frames in client.frames(f"/v1/runs/{quote(id, safe='')}/events"):
                for frame in frames:
                    row(str(frame.id or "-"), frame.type, as_json(json.loads(frame.data)))

    asyncio.run(print_all())


@sessions.command("list")
def list_sessions(
    *,
    actor: str | None = None,
    agent: str | None = None,
    status: str | None = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List sessions, the newest first."""
    columns = (
        Column("LAST USED", lambda each: f"{age(each['last_activity_at'])} ago", whole=True),
        Column("STATUS", lambda each: each["status"]),
        Column("WHO", lambda each: each["actor"]["id"]),
        Column("TITLE", lambda each: short(each["title"] or "-")),
        Column("ID", lambda each: each["id"], whole=True),
    )
    query = {"actor": actor, "agent": agent, "status": status, "limit": limit}
    listed(request("GET", "/v1/sessions", **query)["items"], columns, as_json=as_json)


@sessions.command("show")
def show_session(id: str) -> None:
    """Show a session and its messages."""

    async def print_all() -> None:
        async with connect() as client:
            show(await client.call("GET", f"/v1/sessions/{quote(id, safe='')}"))
            async for message in client.items(f"/v1/sessions/{quote(id, safe='')}/messages"):
                text = "\n".join(part["text"] for part in message["parts"] if part["type"] == "text")
                say(f"\n{one_line(message['role'])}: {indented(text)}")

    asyncio.run(print_all())


@sessions.command("refreeze")
def refreeze_session(id: str) -> None:
    """Let a session take up the newest version of its agent, prompt included, with its next message."""
    session = request("POST", f"/v1/sessions/{quote(id, safe='')}/refreeze")
    row(session["id"], session["status"])


@slack.callback()
def listen_to_slack(context: typer.Context) -> None:
    """Receive from Slack by Socket Mode until Ctrl-C (SLACK_APP_TOKEN); on SQLite `parley serve` does so too."""
    if context.invoked_subcommand is not None:
        return
    settings = _settings()
    from app.main import listen as run

    run(settings, channel="slack")


@slack.command("manifest")
def slack_manifest() -> None:
    """Print the manifest of the Slack app for the settings in force, as JSON.

    With PARLEY_PUBLIC_URL and without SLACK_APP_TOKEN Slack sends requests there; else the app is for Socket Mode.
    """
    from channels.slack.manifest import manifest

    settings = load_settings(serving=False)
    show(manifest(None if settings.slack_app_token else settings.public_url))


@slack.command("simulate")
def simulate_slack(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 4020,
    app_url: Annotated[str, typer.Option(metavar="URL", help="Where the app listens.")] = "http://127.0.0.1:8000",
    signing_secret: Annotated[str | None, typer.Option(metavar="SECRET", help="Signs what is sent.")] = None,
    socket_mode: Annotated[
        bool, typer.Option("--socket-mode", help="Send through WebSockets, not to --app-url.")
    ] = False,
) -> None:
    """Serve a stand-in of Slack on this machine, with a page to talk in, until Ctrl-C."""
    from channels.slack.testing.page import simulate as run

    run(port=port, app_url=app_url, signing_secret=signing_secret, socket_mode=socket_mode)


def _settings() -> Settings:
    """Set up the logs of a process that keeps running, and return its settings."""
    logs.configure()
    settings = load_settings()
    logs.configure(settings.log)
    return settings


async def _apply_all(definitions: list[dict[str, Any]]) -> None:
    async with connect() as client:
        for definition in definitions:
            agent = await _apply(client, definition)
            row(agent["id"], agent["name"], f"v{agent['version']}")


async def _apply(client: Client, definition: dict[str, Any]) -> dict[str, Any]:

    try:
        return await client.call("PATCH", f"/v1/agents/{quote(definition['name'], safe='')}", body=definition)
    except ServerRefused as refused:
        if refused.status != 404:  # noqa: PLR2004 - HTTP's own number
            raise
    return await client.call("POST", "/v1/agents", body=definition)
