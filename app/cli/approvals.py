"""`parley approvals`: list approvals, decide them, and print their record."""

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.printing import connect, line, row, short

approvals = typer.Typer(help="Approvals: questions to people about calls.", no_args_is_help=True)
Wanted = Annotated[str, typer.Option(help="open, approved, denied, expired, cancelled, or any.")]


@approvals.command("list")
def list_approvals(
    *,
    status: Wanted = "open",
    session: str | None = None,
    run: str | None = None,
    as_json: Annotated[bool, typer.Option("--json", help="Each as a line of JSON.")] = False,
) -> None:
    """List approvals, the oldest first: the call, who asked for it, and when the approval expires."""
    from channels.plain import exact, one_line

    wanted = None if status == "any" else status
    for asked in connect().every("/v1/approvals", status=wanted, session=session, run=run):
        if as_json:
            line(asked)
            continue
        asker = asked["asker"] or {"id": "-"}
        votes = f"{sum(vote['approved'] for vote in asked['votes'])}/{asked['quorum']}"
        call = f"{one_line(asked['tool'])} {short(exact(asked['arguments']))}"
        row(asked["id"], asked["status"], votes, asked["expires_at"], one_line(asker["id"]), call)


@approvals.command("decide")
def decide(
    id: str,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="The call may run.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="The call may not run.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why; the agent gets to read it.")] = None,
    arguments: Annotated[str | None, typer.Option(help="Run it with these instead: all of them, as JSON.")] = None,
    remember: Annotated[bool, typer.Option("--remember", help="For the rest of this conversation.")] = False,
    actor: Annotated[str | None, typer.Option("--as", help="Decide as the person with this id.")] = None,
) -> None:
    """Approve or deny a call; prints the status of the approval."""
    if approve == deny:
        raise typer.BadParameter("give either --approve or --deny.", param_hint="--approve/--deny")
    body = {
        "approved": approve,
        "reason": reason,
        "arguments": _arguments(arguments),
        "remember": remember,
        "actor": actor,
        "surface": "terminal",
    }
    found = connect().call("POST", f"/v1/approvals/{quote(id, safe='')}", body=body)
    yes = sum(vote["approved"] for vote in found["votes"])
    row(found["id"], found["status"], *([f"{yes} of {found['quorum']} said yes"] if found["status"] == "open" else ()))


@approvals.command("audit")
def audit(
    *,
    after: Annotated[int, typer.Option(min=0, help="Start after the line with this seq.")] = 0,
    approval: Annotated[str | None, typer.Option(help="Only this approval.")] = None,
) -> None:
    """Print the record of who was asked, where, and who decided what, as lines of JSON."""
    for entry in connect().lines("/v1/approvals/audit", after=after, approval=approval):
        line(entry)


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    from agent_core import InvalidInput

    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InvalidInput("--arguments", "write all of them as one JSON object.")
    return given
