"""Text in cells of a screen: its width, bars and lines of signs, columns side by side; pure."""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from agent_core.charts.values import Align

_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
"""Scripts and emoji need them, and they have no width."""


def width(text: str) -> int:
    """Return how many cells of a screen the line *text* takes; what is hidden must have been written as numbers."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415 - its tables take 1 MB, and most servers draw nothing

    return max(0, wcswidth(text))


def seen(text: str) -> str:
    """Return *text* with controls, and what turns the direction of text, written as numbers; line ends stay."""
    if text.isprintable() and not any(sign in text for sign in _JOINERS):
        return text
    text = text.replace("\r\n", "\n").replace("\t", " ")
    return "".join(
        f"\\u{{{ord(sign):x}}}"
        if sign != "\n" and sign not in _JOINERS and unicodedata.category(sign) in _HIDDEN
        else sign
        for sign in text
    )


def one_line(text: str) -> str:
    """Return *text* seen and on one line."""
    return " ".join(seen(text).split())


def cut(text: str, limit: int) -> str:
    """Return the line *text* in at limit *limit* cells, with dots where its end is missing."""
    if width(text) <= limit:
        return text
    from wcwidth import clip  # noqa: PLC0415 - as above

    return f"{clip(text, 0, limit - 1)}…"


def folded(text: str, limit: int) -> list[str]:
    """Return *text* as lines of at most *limit* cells, divided at spaces where there are any."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines += [line] if width(line) <= limit else _divided(line, limit)
    return lines


def _divided(line: str, limit: int) -> Iterator[str]:
    """Yield *line*, which is too long, as lines that begin with words."""
    begun, used = "", 0
    for word in line.split(" "):
        *full, last = [word] if width(word) <= limit else _pieces(word, limit)
        if begun and not full and used + 1 + width(last) <= limit:
            begun, used = f"{begun} {last}", used + 1 + width(last)
            continue
        if begun:
            yield begun
        yield from full
        begun, used = last, width(last)
    yield begun


def _pieces(word: str, limit: int) -> list[str]:
    """Return *word* in pieces of at most *limit* cells; what is one sign on a screen stays one."""
    if word.isascii():
        return [word[at : at + limit] for at in range(0, len(word), limit)]
    from wcwidth import iter_graphemes  # noqa: PLC0415 - as above

    pieces, used = [""], 0
    for sign in iter_graphemes(word):
        cells = width(sign)
        if used + cells > limit and pieces[-1]:
            pieces.append("")
            used = 0
        pieces[-1] += sign
        used += cells
    return pieces


def padded(text: str, to: int, align: Align) -> str:
    """Return the line *text* with spaces up to *to* cells."""
    missing = max(0, to - width(text))
    before = {"left": 0, "right": missing, "center": missing // 2}[align]
    return f"{' ' * before}{text}{' ' * (missing - before)}"


_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = "▁▂▃▄▅▆▇█"


def finite(value: float | None) -> float | None:
    """Return *value* where it can be drawn."""
    return value if value is not None and math.isfinite(value) else None


def bars(values: Sequence[float | None], cells: int) -> list[str]:
    """Return a bar for each of *values*, all on one scale of *cells* that has zero in it; a gap has none.

    Where some are negative they grow to the left of a line at zero.
    """
    there = [0.0, *(value for each in values if (value := finite(each)) is not None)]
    largest = max(map(abs, there)) or 1.0
    low, high = min(there) / largest, max(there) / largest  # first divided: a difference may be infinite
    left = 0 if low == 0 else max(1, round(cells * -low / (high - low)))
    scale = (cells - left) / high if high else left / -low if low else 0.0
    return ["" if value is None else _bar(value / largest, left, scale) for value in _drawn(values)]


def sparkline(values: Sequence[float | None], cells: int) -> str:
    """Return *values* as a line of signs of rising height, a space for a gap; at most *cells* of them, of means."""
    drawn = _drawn(values)
    if len(drawn) > cells:
        edges = [round(at * len(drawn) / cells) for at in range(cells + 1)]
        drawn = [_mean(drawn[start:end]) for start, end in pairwise(edges)]
    there = [value for value in drawn if value is not None]
    largest = max(map(abs, there), default=0.0) or 1.0
    low, high = (min(there) / largest, max(there) / largest) if there else (0.0, 0.0)
    return "".join(" " if value is None else _level(value / largest, low, high) for value in drawn)


def _drawn(values: Sequence[float | None]) -> list[float | None]:
    return [finite(value) for value in values]


def _bar(value: float, left: int, scale: float) -> str:
    full, eighth = divmod(round(abs(value) * scale * 8), 8)
    bar = f"{'█' * full}{_EIGHTHS[eighth].strip()}"
    if not left:
        return bar
    if value >= 0:
        return f"{' ' * left}│{bar}"
    # Only a half block has its ink on the right.
    return f"{('▐' if 2 * eighth >= len(_EIGHTHS) else '') + '█' * full:>{left}}"[-left:] + "│"


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.fsum(value / len(there) for value in there) if there else None


def _level(value: float, low: float, high: float) -> str:
    if high == low:
        return _LEVELS[len(_LEVELS) // 2]
    return _LEVELS[round((value - low) / (high - low) * (len(_LEVELS) - 1) + 1e-9)]  # half a level is a level


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
