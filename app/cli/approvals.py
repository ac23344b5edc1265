"""`parley approvals`: list approvals, decide them, and print their record."""

import asyncio
import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.printing import connect, line, request, row, short
from channels.legible import exact, unmistakable

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
    """List approvals, the oldest first: the call, its asker, and when the approval expires."""
    write = line if as_json else _row

    async def print_all() -> None:
        async with connect() as client:
            wanted = None if status == "any" else status
            async for approval in client.items("/v1/approvals", status=wanted, session=session, run=run):
                write(approval)

    asyncio.run(print_all())


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
    found = request("POST", f"/v1/approvals/{quote(id, safe='')}", body=body)
    yes = sum(vote["approved"] for vote in found["votes"])
    row(found["id"], found["status"], *([f"{yes} of {found['quorum']} said yes"] if found["status"] == "open" else ()))


@approvals.command("audit")
def audit(
    *,
    after: Annotated[int, typer.Option(min=0, help="Start after the line with this seq.")] = 0,
    approval: Annotated[str | None, typer.Option(help="Only this approval.")] = None,
) -> None:
    """Print the audit record, as lines of JSON: requests, votes and decisions, with where and by whom."""

    async def print_all() -> None:
        async with connect() as client:
            async for entry in client.lines("/v1/approvals/audit", after=after, approval=approval):
                line(entry)

    asyncio.run(print_all())


def _row(approval: dict[str, Any]) -> None:
    asker = approval["asker"] or {"id": "-"}
    votes = f"{sum(vote['approved'] for vote in approval['votes'])}/{approval['quorum']}"
    call = f"{unmistakable(approval['tool'])} {short(exact(approval['arguments']))}"
    row(approval["id"], approval["status"], votes, approval["expires_at"], unmistakable(asker["id"]), call)


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
