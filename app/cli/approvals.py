"""`parley approvals`: list approvals, decide them, and print their record."""

import asyncio
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.printing import AsJson, Column, age, connect, every, line, listed, request, row
from channels.text import exact, people, unmistakable

approvals = typer.Typer(help="Approvals: questions to people about calls.", no_args_is_help=True)
Wanted = Annotated[str, typer.Option(help="open, approved, denied, expired, cancelled, or any.")]


@approvals.command("list")
def list_approvals(
    *,
    status: Wanted = "open",
    session: str | None = None,
    run: str | None = None,
    as_json: AsJson = False,
) -> None:
    """List approvals, the oldest first: since when, who asks, the exact call, who may decide, and the id."""
    wanted = None if status == "any" else status
    items = every("/v1/approvals", status=wanted, session=session, run=run)
    listed(
        items,
        COLUMNS if status == "open" else (*COLUMNS, Column("STATUS", lambda each: each["status"], True)),
        as_json=as_json,
    )


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
    approval = request("POST", f"/v1/approvals/{quote(id, safe='')}", body=body)
    yes = sum(vote["approved"] for vote in approval["votes"])
    progress = [f"{yes} of {approval['quorum']} said yes"] if approval["status"] == "open" else []
    row(approval["id"], approval["status"], *progress)


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


def _asker(approval: dict[str, Any]) -> str:
    asker = approval["asker"]
    return unmistakable(asker.get("name") or asker["id"]) if asker else "-"


def _deciders(approval: dict[str, Any]) -> str:
    yes, quorum = sum(vote["approved"] for vote in approval["votes"]), approval["quorum"]
    return people(approval["responders"]) + (f" ({yes} of {quorum} said yes)" if quorum > 1 else "")


COLUMNS = (
    Column("AGE", lambda each: age(each["requested_at"]), whole=True),
    Column("ASKS", _asker),
    Column("TOOL", lambda each: unmistakable(each["tool"])),
    Column("WHAT", lambda each: exact(each["arguments"])),
    Column("FOR", _deciders),
    Column("ID", lambda each: each["id"], whole=True),
)


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    from app.cli.json_option import json_object

    return json_object("--arguments", text, "write all of them as one JSON object.")
