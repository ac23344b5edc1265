"""The part of a table that Slack can show, as cells: the first columns and rows that fit, as people read them; pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_core import DataTable, TableColumn, formatted, number_of, shorten
from channels.legible import one_line
from channels.slack.outbound.drawn.form import Json

EMPTY = "\u2013"
"""What an empty cell shows: Slack refuses cells without a character."""
MAX_CELL = 240
"""Characters of a cell; longer ones are cut, and are whole in the file."""
MAX_LABEL = 80
"""Characters of a heading."""
_READABLE = 100
"""Characters of a row that people can read across, if columns have to be left out anyway."""
_MAX_WIDTH, _MIN_COLUMNS, _SAMPLE = 24, 3, 50
_WORDS = ("text", "date", "datetime")
_EXACT = 2**53
"""Integers from here on lose digits as a number of JSON in a browser."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What is shown of *table*: the *columns*, their headings and the *rows* of cells; *cut_cells* are shortened.

    A cell is text, or a number with its text; a column of numbers has nothing else.
    """

    table: DataTable
    columns: tuple[TableColumn, ...]
    header: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Json, ...], ...]
    cut_cells: bool

    @property
    def is_whole(self) -> bool:
        """Whether it shows all of the table."""
        return self.scope() is None

    def scope(self) -> str | None:
        """Return the line that says which part is shown, without its full stop; None when all of it is."""
        table, parts = self.table, list[str]()
        if len(self.rows) < len(table.rows):
            parts.append(f"{len(self.rows):,} of {len(table.rows):,} rows")
        if len(self.columns) < len(table.columns):
            parts.append(f"{len(self.columns)} of {len(table.columns)} columns")
        if parts:
            return f"First {' and '.join(parts)}"
        return "Long cells are cut" if self.cut_cells else None

    def texts(self) -> Iterator[tuple[str, ...]]:
        """Give the headings and the rows as texts."""
        yield self.header
        for row in self.rows:
            yield tuple(cell["text"] for cell in row)


def grid(table: DataTable, *, rows: int, columns: int, room: int) -> Grid | None:
    """Return the first *rows* and *columns* of *table* that *room* characters hold; None without one whole row."""
    chosen = _columns(table, columns)
    header = tuple(shorten(one_line(column.label), MAX_LABEL) or EMPTY for column in chosen)
    left = room - sum(map(len, header))
    first = table.rows[:rows]
    numeric = tuple(_is_numeric(column, first) for column in chosen)
    taken: list[tuple[Json, ...]] = []
    cut_cells = False
    for row in first:
        cells, size, was_cut = _row(row, chosen, numeric)
        if size > left:
            break
        left -= size
        cut_cells = cut_cells or was_cut
        taken.append(cells)
    if left < 0 or (first and not taken):
        return None
    return Grid(table, chosen, header, numeric, tuple(taken), cut_cells)


def _row(
    row: dict[str, Any], columns: Sequence[TableColumn], numeric: Sequence[bool]
) -> tuple[tuple[Json, ...], int, bool]:
    """Return the cells of *row*, how many characters they have, and whether one of them was cut."""
    cells: list[Json] = []
    size, was_cut = 0, False
    for column, is_number in zip(columns, numeric, strict=True):
        value = row.get(column.key)
        text = formatted(value, column.format)
        was_cut = was_cut or len(text) > MAX_CELL
        text = shorten(one_line(text[: 2 * MAX_CELL]), MAX_CELL) or EMPTY
        size += len(text)
        cells.append({"type": "raw_number", "value": _number(value), "text": text} if is_number else _text(text))
    return tuple(cells), size, was_cut


def _text(text: str) -> Json:
    return {"type": "raw_text", "text": text}


def header_cells(grid: Grid) -> list[Json]:
    """Return the first row of a block."""
    return [_text(label) for label in grid.header]


def _columns(table: DataTable, limit: int) -> tuple[TableColumn, ...]:
    """Return the columns to show: all that Slack takes, else the first ones that people can read across."""
    if len(table.columns) <= limit:
        return table.columns
    taken: list[TableColumn] = []
    width = 0
    for column in table.columns[:limit]:
        width += _width(column, islice(table.rows, _SAMPLE))
        if width > _READABLE and len(taken) >= _MIN_COLUMNS:
            break
        taken.append(column)
    return tuple(taken)


def _width(column: TableColumn, rows: Iterable[dict[str, Any]]) -> int:
    longest = max((len(formatted(row.get(column.key), column.format)) for row in rows), default=0)
    return min(max(longest, len(column.label)), _MAX_WIDTH) + 2


def _is_numeric(column: TableColumn, rows: Sequence[dict[str, Any]]) -> bool:
    """Return whether each cell of *column* is a number that JSON keeps: Slack sorts only such a column by value.

    Numbers that are written as text are numbers in a column of a format of numbers.
    """
    if not rows or column.format in _WORDS:
        return False
    values = [row.get(column.key) for row in rows]
    if column.format is None and any(isinstance(value, str) for value in values):
        return False
    return all(_number(value) is not None for value in values)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        value = None if (number := number_of(value)) is None else float(number)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _EXACT else None
