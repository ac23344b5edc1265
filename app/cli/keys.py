"""`parley keys`, `parley revoke`, `parley actors` and `parley audit`: who may do what, and who did."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.printing import AsJson, Column, age, connect, every, line, listed, request, row
from app.printer import say

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
    from app.cli.client import ServerRefused, Unreachable

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
