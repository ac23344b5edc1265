"""What is wrong with a chart's specification."""

from collections.abc import Iterable

from agent_core.domain.likely import hint
from agent_core.errors import InvalidInput

LISTED = 20
"""Names that a message lists at most, each with at most 60 characters."""


class BadSpec(InvalidInput):
    """A specification that is not drawn: its path, such as `$.encoding.x`, and what to write instead."""


def unknown(path: str, noun: str, name: str, choices: Iterable[str]) -> BadSpec:
    """Return the error of a *name* that is none of the *choices*, with the one that is probably meant."""
    names = sorted(choices)
    listed = ", ".join(f"`{each[:60]}`" for each in names[:LISTED]) + (", …" if len(names) > LISTED else "")
    return BadSpec(path, f"there is no {noun} `{name[:60]}`{hint(name, names)}; there are {listed or 'none'}.")
