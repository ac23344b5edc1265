"""`parley web-keys`: the public keys by which sites sign tokens of their visitors themselves."""

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.printing import AsJson, Column, age, every, listed, request, row

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
def list_keys(*, as_json: AsJson = False) -> None:
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
