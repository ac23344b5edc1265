"""Tables in the forms that Slack takes, the richest that fits first."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

from agent_core.charts.text import head_of
from agent_core.charts.values import DataTable, PlainChart, TableColumn, formatted, number_of
from agent_core.messages import shorten
from channels.slack import limits
from channels.slack.text import escape, neutral
from channels.spec import ShownRender
from channels.text import one_line

Json = dict[str, Any]

_STEM = 60  # characters of a file's name, before its ending
_WORDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class PngUpload:
    """A chart to draw from *spec*, Vega-Lite, and to upload without a channel: the image block names the file.

    *name* is the file's, *title* is above the picture, *alt* says what it shows.
    """

    spec: Json
    name: str
    title: str
    alt: str


@dataclass(frozen=True, slots=True)
class ChartLink:
    """A chart to be drawn by the service of `QUICKCHART_URL`: nothing is uploaded, the image block has its address."""

    chart: PlainChart
    title: str
    alt: str


@dataclass(frozen=True, slots=True)
class CsvUpload:
    """The whole table as a file to be shared in the thread; the blocks do not depend on it.

    *kind* and *payload* are the render's: `agent_core.charts.text.csv_of` makes the bytes of them. *rows* is how
    many rows the file has, and *scope* is the line that says which of them the message shows.
    """

    kind: str
    payload: Json
    name: str
    title: str
    rows: int
    scope: str


Upload = PngUpload | ChartLink | CsvUpload


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a render: its *blocks*, the same in a few words as *text*, and what has to be there first.

    *text* is mrkdwn that is literal, for notifications and screen readers. For a `PngUpload` and a `ChartLink`
    *blocks* are those below the picture (`with_file` has them all); otherwise they are what is sent, and with a
    `CsvUpload` their last one says that the whole table is attached (`without_file` says otherwise).
    """

    blocks: tuple[Json, ...]
    text: str
    upload: Upload | None = None

    def with_file(self, file: str) -> tuple[Json, ...]:
        """Return the blocks to send, given the id of the uploaded *file*, or the address of a `ChartLink`."""
        match self.upload:
            case PngUpload(title=title, alt=alt):
                return (_image({"slack_file": {"id": file}}, title, alt), *self.blocks)
            case ChartLink(title=title, alt=alt):
                return (_image({"image_url": file}, title, alt), *self.blocks)
            case _:
                return self.blocks

    def without_file(self) -> tuple[Json, ...] | None:
        """Return the blocks to send when the upload is not possible; None when nothing can be shown without it."""
        match self.upload:
            case None:
                return self.blocks
            case CsvUpload(scope=text) if self.blocks:
                return (*self.blocks[:-1], note(f"{text}."))
            case CsvUpload():
                return ()
            case _:
                return None


def note(words: str) -> Json:
    """Return a line of small letters in which nothing is syntax."""
    element = {"type": "plain_text", "text": shorten(words, limits.CONTEXT_TEXT), "emoji": False}
    return {"type": "context", "elements": [element]}


def file_name(title: str, ending: str, otherwise: str) -> str:
    """Return the name of a file with *title*, in letters that every system takes; *otherwise* if it has none."""
    plain = unicodedata.normalize("NFKD", title[: 4 * _STEM]).encode("ascii", "ignore").decode().lower()
    stem = _WORDS.sub("-", plain).strip("-")[:_STEM].strip("-")
    return f"{stem or otherwise}.{ending}"


def _image(source: Json, title: str, alt: str) -> Json:
    block: Json = {"type": "image", **source, "alt_text": shorten(alt, limits.IMAGE_ALT) or "A chart."}
    if title:
        block["title"] = {"type": "plain_text", "text": shorten(title, limits.IMAGE_TITLE), "emoji": False}
    return block


class Room(NamedTuple):
    """Room for tables and charts in a message, or what a form takes of it.

    *charts* and *blocks*, which are all of them, are counted; *data_tables* and *text* are characters.
    """

    charts: int = 0
    data_tables: int = 0
    blocks: int = 0
    text: int = 0

    def holds(self, taken: "Room") -> bool:
        """Return whether what is *taken* fits."""
        return all(there >= wanted for there, wanted in zip(self, taken, strict=True))

    def without(self, taken: "Room") -> "Room":
        """Return the room that is left."""
        return Room(*(there - wanted for there, wanted in zip(self, taken, strict=True)))


MESSAGE = Room(
    charts=limits.CHARTS_PER_MESSAGE,
    data_tables=limits.DATA_TABLE_TEXT,
    blocks=limits.DRAWN_BLOCKS,
    text=limits.DRAWN_TEXT,
)
"""The room of a whole message; what its text may need, and the rows around it, is not in it."""


def taken_by(blocks: Iterable[Json], text: str) -> Room:
    """Return what *blocks* and *text* take of a message."""
    blocks = list(blocks)
    return Room(
        charts=sum(block["type"] == "data_visualization" for block in blocks),
        data_tables=sum(len(cell["text"]) for block in blocks for row in block.get("rows", ()) for cell in row),
        blocks=len(blocks),
        text=len(text),
    )


SUMMARY = 300
"""Characters of the words for notifications."""


def summary(*lines: str) -> str:
    """Return *lines* as short mrkdwn that is literal."""
    text = neutral("\n".join(one_line(line) for line in lines if line))
    return fitting(text, SUMMARY)


def fitting(text: str, room: int) -> str:
    """Return *text* escaped for mrkdwn, in at most *room* characters."""
    limit = room
    while len(escaped := escape(shorten(text, limit)) if limit > 0 else "") > room:
        limit -= len(escaped) - room
    return escaped


FormMaker = Callable[[Room], Form | None]
"""Makes a form that fits into the room, None when there is no such form."""


@dataclass(frozen=True, slots=True)
class ChosenForm:
    """The *form* that a message shows of a *render*, by its id: the one of the ladder's *step* of that number.

    When Slack refuses it, the next choice begins at *step* + 1.
    """

    render: str
    step: int
    form: Form
    taken: Room


def content_key(render: ShownRender) -> str:
    """Return the name of what *render* shows: a call that runs again may show something else under the same id."""
    content = json.dumps([render.id, render.kind, render.title, render.payload], sort_keys=True, default=str)
    return f"{render.id[:40]}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


@dataclass
class Ladder:
    """The *steps* of a *render*; the last one fits everywhere: it has no blocks, the text of the render is shown.

    What is *attached* goes with that form.
    """

    render: ShownRender
    steps: Sequence[FormMaker]
    attached: CsvUpload | None = None

    @cached_property
    def key(self) -> str:
        """The name of what it shows, which its files have."""
        return content_key(self.render)

    @property
    def last(self) -> int:
        """The number of the last step, which is text alone."""
        return len(self.steps)

    def best(self, room: Room, first: int = 0) -> ChosenForm:
        """Return the best form from the step *first* on that *room* holds."""
        for n in range(first, self.last):
            if (form := self.steps[n](room)) is not None:
                taken = taken_by(form.with_file("F"), form.text)
                if room.holds(taken):
                    return ChosenForm(self.render.id, n, form, taken)
        return ChosenForm(self.render.id, self.last, Form((), "", self.attached), Room())


EMPTY = "\u2013"
"""What an empty cell shows: Slack refuses cells without a character."""
MAX_CELL = 240
"""Characters of a cell; longer ones are cut, and are whole in the file."""
MAX_LABEL = 80
"""Characters of a heading."""
_READABLE = 100
"""Characters of a row that people can read across, if columns have to be left out anyway."""
_MAX_WIDTH, _MIN_COLUMNS, _SAMPLE = 24, 3, 50
_CELLS_WORDS = ("text", "date", "datetime")
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

    def block_rows(self) -> list[list[Json]]:
        """Return the rows of a block, the headings first."""
        return [list(map(_text, self.header)), *map(list, self.rows)]

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
    if not rows or column.format in _CELLS_WORDS:
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


PAGE = 10
"""Rows of a page of a `data_table` that has more than `_ONE_PAGE`."""
_ONE_PAGE = 20
_SAMPLES = 2


def table_steps(render: ShownRender, table: DataTable) -> list[FormMaker]:
    """Return the forms of *table*, which *render* shows or which is the data of its chart, the best first."""
    if not table.columns:
        return []
    if not table.rows:
        return [lambda _room: empty_form(render, table)]
    return [partial(data_table_form, render, table)]


def data_table_form(render: ShownRender, table: DataTable, room: Room = MESSAGE) -> Form | None:
    """Return *table* as a block that people can sort, filter and page through."""
    limit = min(room.data_tables, limits.DATA_TABLE_TEXT)
    cells = grid(table, rows=limits.DATA_TABLE_ROWS, columns=limits.DATA_TABLE_COLUMNS, room=limit)
    if cells is None or not cells.rows:
        return None
    count = len(cells.rows)
    block: Json = {
        "type": "data_table",
        "caption": shorten(neutral(_heading(render)), limits.TABLE_CAPTION),
        "page_size": count if count <= _ONE_PAGE else PAGE,
        "rows": cells.block_rows(),
    }
    words, scope = table_words(render, table), cells.scope()
    if scope is None:
        return Form((block,), words)
    below = note(f"{scope}; the whole table is attached.")
    return Form((block, below), words, attachment_of(render, table, scope))


def empty_form(render: ShownRender, table: DataTable) -> Form:
    """Return what is shown of a table without rows: its title and its columns."""
    labels = ", ".join(one_line(column.label) for column in table.columns)
    head = f"{one_line(render.title)}: no" if render.title else "No"
    return Form((note(f"{head} rows. Columns: {labels}"),), table_words(render, table))


def table_words(render: ShownRender, table: DataTable) -> str:
    """Return *table* for notifications and screen readers: its title, its shape and its first rows."""
    rows, columns = len(table.rows), len(table.columns)
    shape = f"table of {rows:,} {_plural('row', rows)} and {columns:,} {_plural('column', columns)}"
    cells = grid(DataTable(table.columns[:6], table.rows[:_SAMPLES]), rows=_SAMPLES, columns=6, room=limits.TABLE_TEXT)
    lines = [" | ".join(shorten(text, 30) for text in row) for row in cells.texts()] if cells else []
    return summary(f"{shorten(render.title, 100)}: {shape}" if render.title else shape.capitalize(), *lines)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def attachment_of(render: ShownRender, table: DataTable, scope: str | None = None) -> CsvUpload:
    """Return the file of the whole *table*, of which *scope* is shown."""
    title, rows = shorten(_heading(render), limits.TABLE_CAPTION), len(table.rows)
    said = scope or f"{rows:,} {_plural('row', rows)}"
    return CsvUpload(render.kind, render.payload, file_name(title, "csv", "table"), title, rows, said)


def _heading(render: ShownRender) -> str:
    return head_of(render.kind, render.payload, render.title).heading
