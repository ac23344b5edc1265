"""Where an argument goes in a request, as `send` says it. Pure."""

from dataclasses import dataclass
from typing import Literal

PlaceKind = Literal["query", "header", "body", "whole"]
PLACES = "`query`, `query:name`, `header:Name`, `body`, `body:name`, `whole`"


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """Where an argument goes, and its *name* there."""

    kind: PlaceKind
    name: str


def place_of(argument: str, said: str) -> ArgumentPlace:
    """Return what *said* says of *argument*; raises ValueError for what says nothing."""
    kind, colon, name = said.partition(":")
    if (colon and not name) or kind not in ("query", "header", "body", "whole"):
        raise ValueError(said)
    if (kind == "header") != bool(name) and kind in ("header", "whole"):
        raise ValueError(said)
    return ArgumentPlace(kind, name or argument)
