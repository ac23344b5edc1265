"""What someone probably meant who wrote a name that is unknown."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 64
"""Characters of a name that are compared, those of the longest tool: the time grows with their square."""


def hint(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the one of *known* that is most like *name*, empty when none is."""
    found = get_close_matches(name[:LONGEST], list(known), 1)
    return f" (did you mean `{found[0]}`?)" if found else ""
