"""Code fences of Markdown: which one is open at the end of a text that is cut there."""

import re
from typing import NamedTuple

_LINE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$", re.MULTILINE)


class Fence(NamedTuple):
    """An open code fence: the *mark* that closes it, and the line that opens it again."""

    mark: str
    opening: str


def fence_at(text: str) -> Fence | None:
    """Return the fence that is open at the end of *text*, as CommonMark reads it at the top level."""
    fence: Fence | None = None
    for line in _LINE.finditer(text):
        mark, info = line["mark"], line["info"].strip()
        if fence is None:
            if mark[0] == "~" or "`" not in info:
                fence = Fence(mark, f"{mark}{info}")
        elif mark[0] == fence.mark[0] and len(mark) >= len(fence.mark) and not info:
            fence = None
    return fence
