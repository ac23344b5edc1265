"""`parley secrets`: what tools and MCP servers refer to as `{{secret:NAME}}`."""

import sys
from urllib.parse import quote

import typer

from app.cli.printing import AsJson, Column, age, every, listed, request, row

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
