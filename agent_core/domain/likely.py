"""Suggest the name that someone probably meant by an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_NAME = 64
"""Characters of a name that are compared, those of the longest tool: the time grows with their square."""


def hint(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the one of *names* that is most like *name*, empty when none is."""
    matches = get_close_matches(name[:MAX_NAME], list(names), 1)
    return f" (did you mean `{matches[0]}`?)" if matches else ""
