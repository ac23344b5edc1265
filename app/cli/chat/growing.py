"""The block at the end of a text that grows: bounds for the work that each redraw of it is.

A redraw comes up to twenty times a second, in the loop that also reads the keys.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_BLOCK = 4000
"""Characters of the last block that are drawn while it grows: a terminal shows no more of it at once."""
MAX_LINES = 50
"""Lines of it."""
SHARE = 8
"""A longer block is looked at again when it has grown by one part in so many, so that all looks are linear in it."""
_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)\n")
_TABLE = re.compile(r"[^\n]*\|[^\n]*\n *[|:-][ |:-]*\n")


@dataclass(slots=True)
class Growing:
    """When to look again for what is done in a text that grows."""

    _length: int = 0

    def cut(self, text: str, settled: Callable[[str], int]) -> int:
        """Return how much of *text* is done, as *settled* says; 0 where it is too early to look again."""
        is_fence = _FENCE.match(text) is not None  # where to look costs next to nothing
        if len(text) < self._length and not is_fence:
            return 0
        cut = settled(text)
        left = len(text) - cut
        self._length = left + left // SHARE if left > MAX_BLOCK else 0
        return cut


def closed_fence(text: str, start: int = 0) -> int | None:
    """Return where the code that begins at *start* ends, 0 while it is open; None where no code begins there."""
    begun = _FENCE.match(text, start)
    if begun is None:
        return None
    mark = begun[1] or begun[2]
    last = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*\n", re.MULTILINE)
    end = last.search(text, begun.end())
    return end.end() if end else 0


def tail(text: str) -> str:
    """Return the end of *text* that a screen has room for, after the lines that say what it is: code or a table."""
    if len(text) <= MAX_BLOCK and text.count("\n") <= MAX_LINES:
        return text
    begun = _FENCE.match(text) or _TABLE.match(text)
    head = begun[0] if begun else ""
    lines = text[max(len(head), len(text) - MAX_BLOCK) :].split("\n")[-MAX_LINES:]
    if begun is None:  # as an item of a list, or a paragraph: what is indented would be taken for code
        inner = next((at for at, line in enumerate(lines) if line[:1].strip()), 0)
        return "\n".join(lines[inner:])
    return (head if len(head) <= MAX_BLOCK else "") + "\n".join(lines[1:] or lines)  # the first may be cut
