"""`parley keys`, `parley revoke`, `parley actors` and `parley audit`: who may do what, and who did."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.client import ServerRefused, Unreachable, json_option
from app.cli.printing import AsJson, Column, age, connect, every, line, listed, request, row
from app.logs import say
from channels.text import exact, people, unmistakable

keys = typer.Typer(help="API keys: who may do what.", no_args_is_help=True)
actors = typer.Typer(help="People and programs that talk to agents.", no_args_is_help=True)
Days = Annotated[int | None, typer.Option("--days", min=1, max=36_500, help="It works for so many days.")]
Scopes = Annotated[
    list[str], typer.Option("--scope", help="read, run, approve, approvals:as or admin; give it again for more.")
]


@keys.command("list")
def list_keys(*, as_json: AsJson = False) -> None:
    """List the keys, the oldest first: scopes, when each was last used, and whether it still works."""
    columns = (
        Column("NAME", lambda each: each["name"]),
        Column("STATE", _state, whole=True),
        Column("SCOPES", lambda each: ", ".join(each["scopes"])),
        Column("LAST USED", lambda each: f"{age(each['used_at'])} ago" if each["used_at"] else "never used"),
        Column("ENDS", lambda each: each["expires_at"] or "no end"),
        Column("ID", lambda each: each["id"], whole=True),
    )
    listed(every("/v1/keys"), columns, as_json=as_json)


@keys.command("create")
def create_key(name: str, *, scope: Scopes, days: Days = None) -> None:
    """Make a key and print its secret, which is shown this once."""
    ends = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    _show_secret(request("POST", "/v1/keys", body={"name": name, "scopes": scope, "expires_at": ends}))


@keys.command("rotate")
def rotate_key(
    id: str,
    *,
    grace: Annotated[int, typer.Option(min=0, help="Seconds for which the old secret still works.")] = 24 * 3600,
) -> None:
    """Give a key another secret and print it; the old one works for a while."""
    _show_secret(request("POST", f"/v1/keys/{quote(id, safe='')}/rotate", body={"grace": grace}))


@keys.command("revoke")
def revoke_key(id: str) -> None:
    """Revoke a key for good; its open streams end. Keys of sites that it registered stay, and are named."""
    path = f"/v1/keys/{quote(id, safe='')}"
    signing, unread = list[dict[str, Any]](), None
    try:  # before: a key that revokes itself reads nothing after
        actor = request("GET", path)["actor"]
        signing = [each for each in every("/v1/web/keys") if each["created_by"]["id"] == actor]
    except (ServerRefused, Unreachable) as error:  # what cannot be listed keeps no key working
        unread = error
    request("DELETE", path)
    row(id, "revoked")
    if unread is not None:
        row("keys of sites that it registered could not be listed, see `parley web-keys list`:", str(unread))
    for each in signing:
        row(each["id"], "still signs", each["name"])


def revoke(
    *,
    token: Annotated[str | None, typer.Option(help="One token, by its id.")] = None,
    actor: Annotated[str | None, typer.Option(help="All tokens of this actor up to now.")] = None,
    session: Annotated[str | None, typer.Option(help="Visitors' access to this session.")] = None,
) -> None:
    """Revoke visitors' tokens, or their access to a session; open streams end."""
    body = {name: value for name, value in {"token": token, "actor": actor, "session": session}.items() if value}
    if len(body) != 1:
        raise typer.BadParameter("give one of --token, --actor and --session.", param_hint="--token/--actor/--session")
    done = request("POST", "/v1/web/revocations", body=body)
    row(done["id"], done["kind"], done["at"])


@actors.command("delete")
def delete_actor(id: str) -> None:
    """Delete one person's data: their sessions, their words in others', their name in the records."""
    done = request("DELETE", f"/v1/actors/{quote(id, safe='')}")
    for name in ("sessions", "messages", "facts", "approvals", "feedback", "places"):
        row(f"{name:<10}", str(done[name]))
    row("in records", done["pseudonym"])
    if done["remaining"]:
        row("busy", *done["remaining"])
        raise typer.Exit(1)


def audit(*, after: Annotated[int, typer.Option(min=0, help="Start after the line with this seq.")] = 0) -> None:
    """Print what operators did, as lines of JSON: who, which route, on what, and the status of the answer."""

    async def print_all() -> None:
        async with connect() as client:
            async for entry in client.lines("/v1/audit", after=after):
                line(entry)

    asyncio.run(print_all())


def _state(key: dict[str, Any]) -> str:
    ended = key["revoked_at"] is not None or (key["expires_at"] or "9") <= datetime.now(UTC).isoformat()
    return "revoked" if key["revoked_at"] else "expired" if ended else "active"


def _show_secret(key: dict[str, Any]) -> None:
    row(key["id"], ",".join(key["scopes"]), key["name"])
    say(key["secret"])
    say("(shown this once; only its hash is kept)")


web_keys = typer.Typer(help="Public keys of sites that sign their visitors' tokens.", no_args_is_help=True)
MAX_BYTES = 16_000
File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The public key: PEM, or a JWK as JSON.")
]


@web_keys.command("add")
def add_key(
    name: str,
    file: File,
    *,
    kid: Annotated[str | None, typer.Option(help="What the header of a token calls it; else the JWK's own.")] = None,
    agent: Annotated[
        list[str] | None, typer.Option(help="Id or name of an agent for which it signs; repeat for more. Else for all.")
    ] = None,
) -> None:
    """Register a public key; the tokens that its other half signs name visitors from now on."""
    body: dict[str, Any] = {"name": name, "key": _read(file)}
    more = {"kid": kid, "agents": agent or None}
    body |= {name: value for name, value in more.items() if value is not None}
    made = request("POST", "/v1/web/keys", body=body)
    row(made["id"], made["algorithm"], made["kid"], made["name"])


@web_keys.command("list")
def web_keys_list_keys(*, as_json: AsJson = False) -> None:
    """List the keys, the oldest first."""
    columns = (
        Column("NAME", lambda each: each["name"]),
        Column("SIGNS", lambda each: each["algorithm"], whole=True),
        Column("KID", lambda each: each["kid"]),
        Column("AGENTS", lambda each: "all" if each["agents"] is None else ", ".join(each["agents"])),
        Column("AGE", lambda each: age(each["created_at"]), whole=True),
        Column("ID", lambda each: each["id"], whole=True),
    )
    listed(every("/v1/web/keys"), columns, as_json=as_json)


@web_keys.command("remove")
def remove_key(id: str) -> None:
    """Remove a key; the tokens that it signed are refused, and their open streams end."""
    request("DELETE", f"/v1/web/keys/{quote(id, safe='')}")
    row(id, "removed")


def _read(file: Path) -> Any:
    """Return what the API takes for the key in *file*: a JWK as an object, everything else as text."""
    if file.stat().st_size > MAX_BYTES:
        raise typer.BadParameter(f"a public key has at most {MAX_BYTES:,} bytes.", param_hint="FILE")
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter("this is no text; give PEM, or a JWK as JSON.", param_hint="FILE") from None
    try:
        return json.loads(text) if text.lstrip().startswith("{") else text
    except ValueError:
        raise typer.BadParameter("this begins as JSON and is none.", param_hint="FILE") from None


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
def approvals_audit(
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
    return json_option("--arguments", text, "write all of them as one JSON object.")


class SumKey(StrEnum):
    """What sums are made by; `GET /v1/costs` knows the same."""

    DAY = "day"
    AGENT = "agent"
    ACTOR = "actor"
    CHANNEL = "channel"
    SESSION = "session"


def cost(
    *,
    by: Annotated[SumKey, typer.Option(help="What is summed by.")] = SumKey.DAY,
    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="The first day (UTC).")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="DAY", help="The day (UTC) before which sums end.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what was spent, by day, agent, actor, channel or session."""
    items = every("/v1/costs", by=by.value, **{"from": first}, to=end)
    columns = (
        Column(by.value.upper(), _name, whole=True),
        Column("RUNS", lambda each: f"{each['runs']:,}"),
        Column("CALLS", lambda each: f"{each['steps']:,}"),
        Column("UNCACHED", lambda each: _tokens(each, "input")),
        Column("READ", lambda each: _tokens(each, "cache_read")),
        Column("WRITTEN", lambda each: _tokens(each, "cache_write_short", "cache_write_long")),
        Column("OUTPUT", lambda each: _tokens(each, "output")),
        Column("COST", lambda each: _usd(each["cost"])),
        Column("SAVED", _saved),
        Column("NOT IN IT", _missing),
    )
    listed(items, columns, as_json=as_json)


def _name(item: dict[str, Any]) -> str:
    return item["name"] or item["key"] or "(deleted)"


def _tokens(item: dict[str, Any], *kinds: str) -> str:
    counts = [item["usage"][kind] for kind in kinds if item["usage"][kind] is not None]
    return f"{sum(counts):,}" if counts else "?"


def _usd(amount: str | None) -> str:
    return "?" if amount is None else f"${Decimal(amount):.4f}"


def _saved(item: dict[str, Any]) -> str:
    """Return which share of the cost without a prompt cache it saved."""
    if item["cost"] is None or not item["uncached_cost"] or not Decimal(item["uncached_cost"]):
        return "-"
    return f"{1 - Decimal(item['cost']) / Decimal(item['uncached_cost']):.0%}"


def _missing(item: dict[str, Any]) -> str:
    """Return how many calls the cost lacks, and why."""
    gaps = ((item["unpriced"], "without a price"), (item["unmeasured"], "without tokens"))
    return ", ".join(f"{count:,} {why}" for count, why in gaps if count) or "-"
