"""The command `parley`: serve, and the API's own verbs as thin clients of the running server."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.approvals import approvals
from app.cli.printing import connect, row, short, show

if TYPE_CHECKING:
    from app.cli.client import Client
    from app.settings import Settings

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
slack = typer.Typer(help="Hear Slack by Socket Mode until Ctrl-C, or prepare to.", invoke_without_command=True)
app.add_typer(agents, name="agents")
app.add_typer(runs, name="runs")
app.add_typer(approvals, name="approvals")
app.add_typer(sessions, name="sessions")
app.add_typer(slack, name="slack")

Limit = Annotated[int, typer.Option(min=1, max=100, help="How many to show at most.")]


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
    from app import logs
    from app.settings import load_settings

    logs.configure()
    settings = load_settings()
    from app.storage.migrate import migrate as run

    print(run(settings))


@app.command()
def doctor(*, offline: Annotated[bool, typer.Option("--offline", help="Ask no provider.")] = False) -> None:
    """Look at what this deployment stands on; the exit code is 1 when something fails."""
    from app.doctor.checks import doctor as run

    raise typer.Exit(0 if run(offline=offline) else 1)


@app.command()
def chat(
    message: Annotated[str | None, typer.Argument(help="Ask this once; without it, talk until Ctrl-D.")] = None,
    *,
    agent: Annotated[str, typer.Option(help="The agent to talk to, by name or id.")] = "assistant",
    session: Annotated[str | None, typer.Option(help="Go on with this session (`parley sessions list`).")] = None,
) -> None:
    """Talk to an agent in the terminal; the exit code tells whether every answer was completed."""
    from app import logs
    from app.cli.chat import chat as run

    logs.configure(level=logging.WARNING)  # how a core in this process comes and goes is not what was asked
    raise typer.Exit(run(agent=agent, session=session, message=message))


@agents.command("list")
def list_agents() -> None:
    """List the agents."""
    for agent in connect().every("/v1/agents"):
        row(agent["id"], agent["name"], f"v{agent['version']}", agent["source"], agent["model"] or "-")


@agents.command("apply")
def apply_agents(path: Annotated[Path, typer.Argument(help="A YAML file, or a folder of them.")]) -> None:
    """Make or change agents as files say."""
    import msgspec

    from agent_core import ConfigError, Controls
    from app.agents import SUFFIXES, read_agent

    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or folder; name the agent's YAML.")
    files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
    client, definitions = connect(), [read_agent(file) for file in files]
    for definition in definitions:
        # A file says everything: what it leaves out goes back to its default, which absent would not do.
        given = msgspec.to_builtins(definition)
        controls = {**dict.fromkeys(Controls.__struct_fields__), **given["controls"]}
        agent = _apply(client, {**given, "controls": controls})
        row(agent["id"], agent["name"], f"v{agent['version']}")


@runs.command("list")
def list_runs(
    *, agent: str | None = None, session: str | None = None, status: str | None = None, limit: Limit = 20
) -> None:
    """List runs, the latest first, with what they cost where that is known."""
    query = {"agent": agent, "session": session, "status": status, "limit": limit}
    for run in connect().call("GET", "/v1/runs", **query)["items"]:
        cost = f"${run['cost']}" if run["cost"] else "-"
        row(run["id"], run["status"], run["session"], run["created_at"], cost, short(run["output"]["text"]))


@runs.command("show")
def show_run(id: str) -> None:
    """Show a run as JSON; `error.detail` says what to do about one that failed."""
    show(connect().call("GET", f"/v1/runs/{id}"))


@runs.command("cancel")
def cancel_run(id: str) -> None:
    """Stop a run; what it said so far is kept."""
    run = connect().call("POST", f"/v1/runs/{id}/cancel")
    row(run["id"], run["status"])


@runs.command("tail")
def tail_run(id: str) -> None:
    """Print a run's events until it ends or waits."""
    for seq, kind, data in connect().events(f"/v1/runs/{id}/events"):
        row(str(seq or "-"), kind, json.dumps(data, ensure_ascii=False))
        sys.stdout.flush()


@sessions.command("list")
def list_sessions(
    *, actor: str | None = None, agent: str | None = None, status: str | None = None, limit: Limit = 20
) -> None:
    """List sessions, the newest first."""
    query = {"actor": actor, "agent": agent, "status": status, "limit": limit}
    for session in connect().call("GET", "/v1/sessions", **query)["items"]:
        title = short(session["title"] or "-")
        row(session["id"], session["status"], session["actor"]["id"], session["last_activity_at"], title)


@sessions.command("show")
def show_session(id: str) -> None:
    """Show a session and its messages."""
    client = connect()
    show(client.call("GET", f"/v1/sessions/{id}"))
    for message in client.every(f"/v1/sessions/{id}/messages"):
        text = "\n".join(part["text"] for part in message["parts"] if part["type"] == "text")
        print(f"\n{message['role']}: {text}")


@slack.callback()
def listen_to_slack(context: typer.Context) -> None:
    """Hear Slack by Socket Mode until Ctrl-C (SLACK_APP_TOKEN); on SQLite `parley serve` does so too."""
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
    from app.settings import load_settings
    from channels.slack.manifest import manifest

    settings = load_settings(serving=False)
    show(manifest(None if settings.slack_app_token else settings.public_url))


@slack.command("simulate", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def simulate_slack(context: typer.Context) -> None:
    """Serve a stand-in of Slack on this machine, with a page to talk in; `-- --help` shows its options."""
    from channels.slack.testing.command import main as run

    run(context.args)


def _settings() -> "Settings":
    """Set up the logs of a process that keeps running, and return its settings."""
    from app import logs
    from app.settings import load_settings

    logs.configure()
    settings = load_settings()
    logs.configure(settings.log)
    return settings


def _apply(client: "Client", definition: dict[str, Any]) -> dict[str, Any]:
    from app.cli.client import Refused

    try:
        return client.call("PATCH", f"/v1/agents/{definition['name']}", body=definition)
    except Refused as refused:
        if refused.status != 404:  # noqa: PLR2004 - HTTP's own number
            raise
    return client.call("POST", "/v1/agents", body=definition)
