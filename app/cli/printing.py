"""What commands share: a client of the running server, and how they print."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_core.messages import shorten
from app.cli.client import Client, connected
from app.logs import say
from app.settings import load_settings
from channels.text import as_json, one_line, visible

AsJson = Annotated[bool, typer.Option("--json", help="Each as a line of JSON.")]
GAP, MIN_WIDTH = 2, 14
"""Columns of the terminal between two of a table, and the least that one takes whose text may be divided."""


class Column(NamedTuple):
    """A column of a list: the text of an item in it, on one line; one that is *whole* is never divided."""

    title: str
    text: Callable[[dict[str, Any]], str]
    whole: bool = False


@asynccontextmanager
async def connect() -> AsyncIterator[Client]:
    """Give a client of the server that the settings name."""
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


def indented(text: str, margin: str = "  ") -> str:
    """Return *text* visible, each line but the first after *margin*: none can pass for a line of the command's own."""
    return visible(text).replace("\n", f"\n{margin}")


def listed(items: Sequence[dict[str, Any]], columns: Sequence[Column], *, as_json: bool) -> None:
    """Print *items* as a table, or each as a line of JSON.

    On a terminal long texts go on in their column; where the columns have no room each item is a paragraph of its own.
    In a pipe an item is a line, and no item no output.
    """
    if as_json:
        for item in items:
            line(item)
        return
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    rows = [[one_line(column.text(item)) for column in columns] for item in items]
    if room and not rows:
        say("(none)")
    elif room and _least(columns, rows) > room:
        for cells in rows:
            say("\n".join(f"{column.title:<8} {cell}" for column, cell in zip(columns, cells, strict=True)) + "\n")
    elif rows:
        _draw(columns, rows, room)


def every(path: str, **query: str | int | None) -> list[dict[str, Any]]:
    """Return all items of a list."""

    async def call() -> list[dict[str, Any]]:
        async with connect() as client:
            return [item async for item in client.items(path, **query)]

    return asyncio.run(call())


def age(time: str) -> str:
    """Return for how long *time* has passed, in its largest unit."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return time
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:

    return [
        max(cell_len(text) for text in (column.title, *cells)) for column, *cells in zip(columns, *rows, strict=True)
    ]


def _least(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """Return how many columns of a terminal the table needs."""
    widths = _widths(columns, rows)
    least = (width if column.whole else min(width, MIN_WIDTH) for column, width in zip(columns, widths, strict=True))
    return sum(least) + GAP * (len(columns) - 1)


def _draw(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None) -> None:

    widths = _widths(columns, rows)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        least = width if column.whole else min(width, MIN_WIDTH)
        table.add_column(Text(column.title), min_width=least, no_wrap=column.whole, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=room or sum(widths) + GAP * len(widths), color_system=None, _environ={})
    with console.capture() as drawn:
        console.print(table)
    for drawn_line in drawn.get().splitlines():
        say(drawn_line.rstrip())


def show(value: object) -> None:
    """Print *value* as JSON for people."""
    say(as_json(value, indent=2))


def line(value: object) -> None:
    """Print *value* as JSON on one line, in ASCII: no terminal acts on it."""
    say(json.dumps(value))


def short(text: str, width: int = 60) -> str:
    """Return *text* on one line of at most *width* characters."""
    return shorten(one_line(text), width)
