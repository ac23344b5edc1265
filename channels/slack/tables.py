"""Tables in the forms that Slack takes, the richest that fits first."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, cast

from agent_core.charts.text import head_of, table_text
from agent_core.charts.values import DataTable, PlainChart, TableColumn, formatted, number_of
from agent_core.messages import shorten
from channels.slack import limits
from channels.slack.parsing import BREAK
from channels.slack.text import escape, neutral
from channels.spec import ShownRender
from channels.text import one_line, visible

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
    element = {"type": "plain_text", "text": shorten(words, limits.CONTEXT_TEXT.value), "emoji": False}
    return {"type": "context", "elements": [element]}


def file_name(title: str, ending: str, otherwise: str) -> str:
    """Return the name of a file with *title*, in letters that every system takes; *otherwise* if it has none."""
    plain = unicodedata.normalize("NFKD", title[: 4 * _STEM]).encode("ascii", "ignore").decode().lower()
    stem = _WORDS.sub("-", plain).strip("-")[:_STEM].strip("-")
    return f"{stem or otherwise}.{ending}"


def _image(source: Json, title: str, alt: str) -> Json:
    block: Json = {"type": "image", **source, "alt_text": shorten(alt, limits.IMAGE_ALT.value) or "A chart."}
    if title:
        block["title"] = {"type": "plain_text", "text": shorten(title, limits.IMAGE_TITLE.value), "emoji": False}
    return block


class Room(NamedTuple):
    """Room for tables and charts in a message, or what a form takes of it.

    *charts* and *tables* are blocks, *blocks* are all blocks; *data_tables*, *words* (Markdown and rich text) and
    *text* are characters.
    """

    charts: int = 0
    tables: int = 0
    data_tables: int = 0
    words: int = 0
    blocks: int = 0
    text: int = 0

    def holds(self, taken: "Room") -> bool:
        """Return whether what is *taken* fits."""
        return all(there >= wanted for there, wanted in zip(self, taken, strict=True))

    def without(self, taken: "Room") -> "Room":
        """Return the room that is left."""
        return Room(*(there - wanted for there, wanted in zip(self, taken, strict=True)))


MESSAGE = Room(
    charts=limits.CHARTS_PER_MESSAGE.value,
    tables=limits.TABLES_PER_MESSAGE.value,
    data_tables=limits.DATA_TABLE_TEXT.value,
    words=limits.DRAWN_WORDS.value,
    blocks=limits.DRAWN_BLOCKS.value,
    text=limits.DRAWN_TEXT.value,
)
"""The room of a whole message; what its text may need, and the rows around it, is not in it."""


def taken_by(blocks: Iterable[Json], text: str) -> Room:
    """Return what *blocks* and *text* take of a message."""
    taken = Room(text=len(text))
    for block in blocks:
        kind, size = block["type"], sum(map(len, _texts(block)))
        taken = Room(
            charts=taken.charts + (kind == "data_visualization"),
            tables=taken.tables + (kind == "table"),
            data_tables=taken.data_tables + (size if kind == "data_table" else 0),
            words=taken.words + (size if kind in ("markdown", "rich_text") else 0),
            blocks=taken.blocks + 1,
            text=taken.text,
        )
    return taken


def _texts(part: Any) -> Iterator[str]:
    """Give the texts of the cells of a table, or of Markdown and rich text."""
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _texts(each)
    elif isinstance(part, dict):
        fields = cast(Json, part)
        if isinstance(text := fields.get("text"), str):
            yield text
        yield from _texts(fields.get("rows") or fields.get("elements"))


Twin = Callable[[int], str]
"""Gives a render as plain text of about as many characters as are asked for."""
ACROSS = 80
"""Characters of a line of such a text: Slack wraps longer ones."""
SUMMARY = 300
"""Characters of the words for notifications."""
ALONE = 1_500
"""Characters of a render that is shown without blocks."""
_FENCE = "```"
_MIN_TEXT = 40
_PREFORMATTED = 3_500
_MORE = "…"


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


def alone(render: ShownRender, twin: Twin, room: int) -> str:
    """Return the title of *render* and its *twin* as mrkdwn in at most *room* characters; less in too little room."""
    words = neutral(shorten(one_line(render.title or ""), limits.TABLE_CAPTION.value))
    title = escape(words)
    limit = min(room, ALONE) - 2 * len(_FENCE) - len(title) - 3
    if limit < _MIN_TEXT:
        return fitting(words, max(room, 0))
    text = neutral(visible(twin(limit).replace(_FENCE, "'''"))).strip("\n")
    return f"{title}\n{_FENCE}\n{by_line(escape(text), limit)}\n{_FENCE}".lstrip("\n")


def by_line(text: str, room: int) -> str:
    """Return the first lines of *text* in *room* characters, with a last line that says that some are missing."""
    if len(text) <= room:
        return text
    head = text[: max(0, room - len(_MORE) - 1)]
    end = head.rfind("\n")
    if end <= room // 2:  # an entity that is cut would be shown as its letters
        end = head.rfind("&") if "&" in head[-5:] else len(head)
    return f"{head[:end]}\n{_MORE}"


def preformatted(render: ShownRender, twin: Twin, room: Room) -> list[Json]:
    """Return the title of *render* and as much of its *twin* as fits, in blocks in which nothing is syntax."""
    above = title_of(render)
    limit = min(room.words - taken_by(above, "").words, _PREFORMATTED)
    text = by_line(visible(twin(limit)).strip("\n"), limit) if limit > _MIN_TEXT else ""
    if not text.strip():
        return []
    words = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    return [*above, {"type": "rich_text", "elements": [words]}]


def title_of(render: ShownRender) -> list[Json]:
    """Return the title in bold, in a block in which nothing is syntax; none without a title."""
    title = shorten(one_line(render.title or ""), limits.TABLE_CAPTION.value)
    if not title:
        return []
    text = {"type": "text", "text": title, "style": {"bold": True}}
    return [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [text]}]}]


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


@dataclass(slots=True)
class Ladder:
    """The *steps* of a *render*; the last one fits everywhere: it has no blocks, and the text as far as there is room.

    The text is the *twin*. What is *attached* goes with that form, if the text does not show all. A form that was made
    is remembered, so that a message that is drawn again has the very same.
    """

    render: ShownRender
    steps: Sequence[FormMaker]
    twin: Twin
    attached: CsvUpload | None = None
    _made: dict[tuple[int, Room], ChosenForm | None] = field(default_factory=dict[tuple[int, Room], ChosenForm | None])
    _key: str | None = None

    @property
    def key(self) -> str:
        """The name of what it shows, which its files have."""
        if self._key is None:
            self._key = content_key(self.render)
        return self._key

    @property
    def last(self) -> int:
        """The number of the last step, which is text alone."""
        return len(self.steps)

    def best(self, room: Room, first: int = 0) -> ChosenForm:
        """Return the best form from the step *first* on that *room* holds."""
        for n in range(first, self.last):
            if (choice := self._at(n, room)) is not None:
                return choice
        text = alone(self.render, self.twin, room.text)
        return ChosenForm(self.render.id, self.last, Form((), text, self.attached), Room(text=len(text)))

    def _at(self, n: int, room: Room) -> ChosenForm | None:
        if (n, room) not in self._made:
            form = self.steps[n](room)
            self._made[n, room] = None if form is None else self._choice(n, form, room)
        return self._made[n, room]

    def _choice(self, n: int, form: Form, room: Room) -> ChosenForm | None:
        taken = taken_by(form.with_file("F"), form.text)
        return ChosenForm(self.render.id, n, form, taken) if room.holds(taken) else None


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


PAGE = 10
"""Rows of a page of a `data_table` that has more than `_ONE_PAGE`."""
_ONE_PAGE = 20
_WORDY = 40  # characters from which on a column is wrapped
_SAMPLES = 2
_TABLE_ROWS = limits.TABLE_ROWS.value - 1  # the first row is the header
_SECTION = 1_500
_TWIN_ROWS = 50  # rows of a table as text


def table_steps(render: ShownRender, table: DataTable) -> list[FormMaker]:
    """Return the forms of *table*, which *render* shows or which is the data of its chart, the best first."""
    if not table.columns:
        return []
    if not table.rows:
        return [lambda _room: empty_form(render, table)]
    return [
        partial(data_table_form, render, table),
        partial(table_form, render, table),
        partial(markdown_form, render, table),
        partial(preformatted_form, render, table),
        partial(section_form, render, table),
    ]


def data_table_form(render: ShownRender, table: DataTable, room: Room = MESSAGE) -> Form | None:
    """Return *table* as a block that people can sort, filter and page through."""
    limit = min(room.data_tables, limits.DATA_TABLE_TEXT.value)
    cells = grid(table, rows=limits.DATA_TABLE_ROWS.value, columns=limits.DATA_TABLE_COLUMNS.value, room=limit)
    if cells is None or not cells.rows:
        return None
    count = len(cells.rows)
    block: Json = {
        "type": "data_table",
        "caption": shorten(neutral(_heading(render)), limits.TABLE_CAPTION.value),
        "page_size": count if count <= _ONE_PAGE else PAGE,
        "rows": [header_cells(cells), *map(list, cells.rows)],
    }
    return _form(render, cells, [block])


def table_form(render: ShownRender, table: DataTable, room: Room = MESSAGE) -> Form | None:
    """Return *table* as the plain block, below its title."""
    if not room.tables:
        return None
    cells = grid(table, rows=_TABLE_ROWS, columns=limits.TABLE_CELLS.value, room=limits.TABLE_TEXT.value)
    if cells is None:
        return None
    block: Json = {
        "type": "table",
        "column_settings": _settings(cells),
        "rows": [header_cells(cells), *map(list, cells.rows)],
    }
    return _form(render, cells, [*title_of(render), block])


def markdown_form(render: ShownRender, table: DataTable, room: Room = MESSAGE) -> Form | None:
    """Return *table* as a pipe table of Markdown, below its title, in which no cell has syntax."""
    title = title_of(render)
    limit = room.words - taken_by(title, "").words
    cells = grid(table, rows=_TABLE_ROWS, columns=limits.TABLE_CELLS.value, room=limit)
    if cells is None:
        return None
    text, rows = pipe_table(cells, limit)
    if not rows:
        return None
    return _form(render, _first(cells, rows), [*title, {"type": "markdown", "text": text}])


def preformatted_form(render: ShownRender, table: DataTable, room: Room = MESSAGE) -> Form | None:
    """Return the text of *render* in a block in which nothing is syntax, and the file of the whole table."""
    blocks = preformatted(render, partial(twin_of, table), room)
    return _of_text(render, table, blocks, taken_by(blocks, "").words) if blocks else None


def section_form(render: ShownRender, table: DataTable, room: Room = MESSAGE) -> Form | None:
    """Return the first rows in the oldest of Slack's blocks, and the file of the whole table."""
    text = alone(render, partial(twin_of, table), min(_SECTION, limits.SECTION_TEXT.value))
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    return _of_text(render, table, [section], len(text)) if text and room.blocks else None


def attachment_of(render: ShownRender, table: DataTable) -> CsvUpload | None:
    """Return the file of *table* where only its text is shown, None when that is whole."""
    return None if _is_whole(table, _SECTION) else _file(render, table, _count(table))


def empty_form(render: ShownRender, table: DataTable) -> Form:
    """Return what is shown of a table without rows: its title and its columns."""
    labels = ", ".join(one_line(column.label) for column in table.columns)
    return Form((*title_of(render), note(f"No rows. Columns: {labels}")), table_words(render, table))


def table_words(render: ShownRender, table: DataTable) -> str:
    """Return *table* for notifications and screen readers: its title, its shape and its first rows."""
    rows, columns = len(table.rows), len(table.columns)
    shape = f"table of {rows:,} {_plural('row', rows)} and {columns:,} {_plural('column', columns)}"
    cells = grid(
        DataTable(table.columns[:6], table.rows[:_SAMPLES]), rows=_SAMPLES, columns=6, room=limits.TABLE_TEXT.value
    )
    lines = [" | ".join(shorten(text, 30) for text in row) for row in cells.texts()] if cells else []
    return summary(f"{shorten(render.title, 100)}: {shape}" if render.title else shape.capitalize(), *lines)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _form(render: ShownRender, grid: Grid, blocks: list[Json]) -> Form:
    """Return *blocks* as a form, with the whole table as a file if they show only a part of it."""
    words, scope = table_words(render, grid.table), grid.scope()
    if scope is None:
        return Form(tuple(blocks), words)
    return _attached(render, grid.table, blocks, words, scope)


def _of_text(render: ShownRender, table: DataTable, blocks: list[Json], size: int) -> Form:
    """Return *blocks* that show the text of *render* in *size* characters, with the file if that is not all of it."""
    words = table_words(render, table)
    if _is_whole(table, size):
        return Form(tuple(blocks), words)
    return _attached(render, table, blocks, words, _count(table))


def twin_of(table: DataTable, limit: int) -> str:
    """Return *table* as aligned text of *limit* characters; what it leaves out is said in its last line."""
    return table_text(table, width=ACROSS, rows=_TWIN_ROWS, limit=limit)


def _is_whole(table: DataTable, size: int) -> bool:
    """Return whether the text of *table* has all of it in *size* characters; no is not certain."""
    if len(table.rows) > _TWIN_ROWS or len(table.columns) > limits.TABLE_CELLS.value:
        return False
    text = twin_of(table, size + 1)
    return len(text) <= size and "…" not in text


def _count(table: DataTable) -> str:
    rows = len(table.rows)
    return f"{rows:,} {_plural('row', rows)}"


def _attached(render: ShownRender, table: DataTable, blocks: list[Json], words: str, scope: str) -> Form:
    upload = _file(render, table, scope)
    return Form((*blocks, note(f"{scope}; the whole table is attached.")), words, upload)


def _file(render: ShownRender, table: DataTable, note: str) -> CsvUpload:
    title = shorten(_heading(render), limits.TABLE_CAPTION.value)
    return CsvUpload(render.kind, render.payload, file_name(title, "csv", "table"), title, len(table.rows), note)


def _heading(render: ShownRender) -> str:
    return head_of(render.kind, render.payload, render.title).heading


def _first(grid: Grid, rows: int) -> Grid:
    return Grid(grid.table, grid.columns, grid.header, grid.numeric, grid.rows[:rows], grid.cut_cells)


def _settings(grid: Grid) -> list[Json]:
    """Return how each column is shown: numbers to the right unless the column says otherwise, long words wrapped."""
    settings: list[Json] = []
    for n, column in enumerate(grid.columns):
        longest = max((len(row[n]["text"]) for row in grid.rows), default=0)
        align = column.align or ("right" if grid.numeric[n] else "left")
        settings.append({"align": align, **({"is_wrapped": True} if longest > _WORDY else {})})
    return settings
