"""A table in Slack: `data_table`, else `table`, Markdown, preformatted text, and the file with the first rows; pure.

What a form leaves out is in a CSV file, which goes with it.
"""

from functools import partial

from agent_core import DataTable, head_of, shorten, table_text
from channels.base import ShownRender
from channels.legible import one_line
from channels.slack.outbound.drawn.cells import Grid, grid, header_cells
from channels.slack.outbound.drawn.form import CsvUpload, Form, Json, file_name, note
from channels.slack.outbound.drawn.ladder import FormMaker
from channels.slack.outbound.drawn.literal_table import pipe_table
from channels.slack.outbound.drawn.room import MESSAGE, Room, taken_by
from channels.slack.outbound.drawn.words import ACROSS, alone, preformatted, summary, title_of
from channels.slack.outbound.text import neutral
from channels.slack.web_api import limits

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
