"""What commands share: a client of the running server, and how they print."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.cli.client import Client


def connect() -> "Client":
    """Return a client of the server that the settings lead to."""
    from app.cli.client import Client
    from app.settings import load_settings

    return Client(load_settings(serving=False))


def row(*cells: str) -> None:
    """Print a line of cells."""
    print("  ".join(cells))


def show(value: object) -> None:
    """Print *value* as JSON for people."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def line(value: object) -> None:
    """Print *value* as JSON on a line of its own, in signs that no terminal obeys."""
    print(json.dumps(value))


def short(text: str, width: int = 60) -> str:
    """Return *text* on one line of at most *width* characters."""
    one = " ".join(text.split())
    return one if len(one) <= width else one[: width - 1] + "…"
