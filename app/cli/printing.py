"""What commands share: a client of the running server, and how they print."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from app.printer import say
from channels.legible import as_json, one_line

if TYPE_CHECKING:
    from app.cli.client import Client


@asynccontextmanager
async def connect() -> AsyncIterator["Client"]:
    """Give a client of the server that the settings name."""
    from app.cli.client import connected
    from app.settings import load_settings

    async with connected(load_settings(serving=False)) as client:
        yield client


def request(method: str, path: str, *, body: Any = None, **query: str | int | None) -> Any:
    """Make one request of a command that needs no other; return the answer's JSON."""

    async def call() -> Any:
        async with connect() as client:
            return await client.call(method, path, body=body, **query)

    return asyncio.run(call())


def row(*cells: str) -> None:
    """Print a line of cells."""
    say("  ".join(map(one_line, cells)))


def show(value: object) -> None:
    """Print *value* as JSON for people."""
    say(as_json(value, indent=2))


def line(value: object) -> None:
    """Print *value* as JSON on one line, in ASCII: no terminal acts on it."""
    say(json.dumps(value))


def short(text: str, width: int = 60) -> str:
    """Return *text* on one line of at most *width* characters."""
    one = one_line(text)
    return one if len(one) <= width else one[: width - 1] + "…"
