"""Columns of text side by side, aligned; columns without room are shown in groups, one below the other; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from agent_core.renders.cells import folded, padded, width
from agent_core.renders.values import Align

GAP = "  "
MAX_WIDTH = 60
"""Cells that a column takes at most without a limit: what is longer continues on the next line."""
NARROWEST = 8
"""Cells to which a column of text may shrink before columns are divided into groups."""
COMFORT = 16
"""Cells that a column of text has in a group at least, where it needs them."""
FIRM = 64
"""Cells of a value that is not divided in a firm column: a number, a date, a bar."""
MIN_WIDTH = 20
"""Cells of a grid at least."""
MORE = "… and more of the first row"
"""The line below a first row that is shown in part."""


@dataclass(frozen=True, slots=True)
class GridColumn:
    """One column: its heading and its cells, whose lines end in line feeds; a *firm* one is wide enough for a value."""

    head: str
    cells: Sequence[str]
    align: Align = "left"
    firm: bool = False

    @property
    def natural(self) -> int:
        """How many cells of a screen its widest line takes."""
        return max(width(line) for text in (self.head, *self.cells) for line in text.split("\n"))

    def least(self, floor: int) -> int:
        """Return the cells that it cannot do without: *floor*, and what the values of a firm one need."""
        if not self.firm:
            return floor
        return max([floor, *(needed for text in self.cells if (needed := width(text)) <= FIRM)])


Placed = Sequence[tuple[GridColumn, int]]
"""Columns side by side, each with the cells that it takes."""


class GridLine(NamedTuple):
    """One line of a grid; *row* counts the rows from zero, None for headings and what is between groups."""

    text: str
    row: int | None


def grid(columns: Sequence[GridColumn], *, into: int | None, limit: int) -> tuple[list[GridLine], int]:
    """Return *columns* as lines of at most *into* cells, and how many rows of them there are.

    It ends before the row with which it would have more than *limit* characters. Of a first row that is longer it has
    the beginning of each group, and a line that says so: at least one line of each, and a quarter of *limit* in all.
    """
    groups = [group for group in _groups(columns, into) if group]
    texts = [_heading(group) for group in groups]
    used, rows, more = sum(map(_length, texts)), 0, list[GridLine]()
    for at in range(len(columns[0].cells) if columns else 0):
        lines = [_row(group, [column.cells[at] for column, _ in group], at) for group in groups]
        used += (needed := sum(map(_length, lines)))
        if used > limit and rows:
            break
        if used > limit:
            room = max(limit - used + needed, limit // 4)
            lines, more = [_beginning(text, room // len(groups)) for text in lines], [GridLine(MORE, None)]
        for text, added in zip(texts, lines, strict=True):
            text.extend(added)
        rows += 1
    between = [GridLine("", None)]
    return [*(line for n, text in enumerate(texts) for line in (between if n else []) + text), *more], rows


def _length(lines: Sequence[GridLine]) -> int:
    return sum(len(line.text) + 1 for line in lines)


def _beginning(lines: Sequence[GridLine], limit: int) -> list[GridLine]:
    """Return the first of *lines* with *limit* characters together, at least one."""
    ends = accumulate(len(line.text) + 1 for line in lines)
    return [line for at, (line, end) in enumerate(zip(lines, ends, strict=True)) if end <= limit or not at]


def _groups(columns: Sequence[GridColumn], into: int | None) -> Iterator[Placed]:
    """Yield all columns where there is room for them, otherwise some after others, each time after the first one."""
    if into is None:
        yield [(column, min(column.natural, MAX_WIDTH)) for column in columns]
        return
    room = max(MIN_WIDTH, into)
    wanted = [min(column.natural, room) for column in columns]
    if _taken(_least(columns, wanted, NARROWEST)) <= room:
        yield _placed(columns, wanted, NARROWEST, room)
        return
    least = _least(columns, wanted, COMFORT)
    keyed = 2 * least[0] <= room
    group: list[int] = []
    for at in range(len(columns)):
        if group and _taken([least[each] for each in (*group, at)]) > room:
            yield _placed([columns[each] for each in group], [wanted[each] for each in group], COMFORT, room)
            group = [0] if keyed and _taken([least[0], least[at]]) <= room else []
        group.append(at)
    yield _placed([columns[each] for each in group], [wanted[each] for each in group], COMFORT, room)


def _least(columns: Sequence[GridColumn], wanted: Sequence[int], floor: int) -> list[int]:
    return [min(want, column.least(floor)) for column, want in zip(columns, wanted, strict=True)]


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _placed(columns: Sequence[GridColumn], wanted: Sequence[int], floor: int, room: int) -> Placed:
    """Return *columns* as wide as *room* lets them be: the widest ones shrink first, none below its least."""
    least = _least(columns, wanted, floor)

    def level(limit: int) -> list[int]:
        return [max(low, min(want, limit)) for low, want in zip(least, wanted, strict=True)]

    limit = next((limit for limit in range(room, 0, -1) if _taken(level(limit)) <= room), 1)
    widths = level(limit)
    spare = room - _taken(widths)
    for at, want in enumerate(wanted):  # what division left over
        if spare > 0 and widths[at] < want:
            widths[at], spare = widths[at] + 1, spare - 1
    return [(column, min(have, room)) for column, have in zip(columns, widths, strict=True)]


def _heading(group: Placed) -> list[GridLine]:
    rule = GAP.join(("-" if column.head else " ") * each for column, each in group).rstrip()
    return [*_row(group, [column.head for column, _ in group], None), GridLine(rule, None)] if rule else []


def _row(group: Placed, texts: Sequence[str], row: int | None) -> list[GridLine]:
    cells = [folded(text, each) for text, (_, each) in zip(texts, group, strict=True)]
    lines = (
        GAP.join(
            padded(lines[at] if at < len(lines) else "", each, column.align)
            for lines, (column, each) in zip(cells, group, strict=True)
        )
        for at in range(max(map(len, cells)))
    )
    return [GridLine(line.rstrip(), row) for line in lines]
