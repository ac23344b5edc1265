"""A pipe table of Markdown whose cells are literal; pure."""

import re

from channels.slack.outbound.drawn.cells import Grid
from channels.slack.outbound.parsing import BREAK
from channels.slack.outbound.text import neutral

_RULES = {"left": ":---", "center": ":---:", "right": "---:"}
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:(?=//)|\bwww\.|\bmailto:", re.IGNORECASE)
_SIGNS = re.compile(r"[\\`*_{}\[\]()<>#~|!&]")


def pipe_table(grid: Grid, room: int) -> tuple[str, int]:
    """Return as many rows of *grid* as *room* characters hold, as a pipe table, and how many those are."""
    header, *rows = ([literal(text) for text in row] for row in grid.texts())
    aligned = (
        _RULES[column.align or ("right" if is_number else "left")]
        for column, is_number in zip(grid.columns, grid.numeric, strict=True)
    )
    lines = [_line(header), _line(list(aligned))]
    left = room - sum(len(line) + 1 for line in lines)
    for row in rows:
        line = _line(row)
        if len(line) + 1 > left:
            break
        left -= len(line) + 1
        lines.append(line)
    return "\n".join(lines), len(lines) - 2


def literal(text: str) -> str:
    """Return *text*, one line, as Markdown that shows it and in which nothing is syntax of Markdown or of Slack's.

    Nor is an address a link, as it is none in a cell of Slack's own tables.
    """
    return _SIGNS.sub(r"\\\g<0>", _ADDRESS.sub(rf"\g<0>{BREAK}", neutral(text)))


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
