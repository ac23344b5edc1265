"""Tables that a model writes by hand, with pipes: as Slack's blocks, or aligned, where Markdown cannot show them; pure.

Slack makes a table of a pipe table by itself, of at most 20 columns. Here are the others: those that are wider, those
with code that may not be sent as Markdown, and those of a text that Slack refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from markdown_it.token import Token
from wcwidth import wcswidth

from channels.slack.outbound.parsing import line_starts, parsed, top_blocks
from channels.slack.web_api import limits

Json = dict[str, Any]
EMPTY = "\u2013"
_COLUMNS = limits.TABLE_CELLS.value
_GAP = "  "
_WASTE = 2
"""How many times as long as its words an aligned table may be: with one long cell it would be all blanks."""


class PipeTable(NamedTuple):
    """A table: the inline tokens of its cells, the header first, where each row begins, and how columns are aligned."""

    rows: list[list[Token]]
    starts: list[int]
    aligns: list[str]

    def after(self, start: int) -> "PipeTable":
        """Return the table with the rows that begin at *start* or later, and the header."""
        columns = [n for n, at in enumerate(self.starts) if not n or at >= start]
        return PipeTable([self.rows[n] for n in columns], [self.starts[n] for n in columns], self.aligns)


def table_in(source: str) -> PipeTable | None:
    """Return the table that the block *source* is; None for another block."""
    tokens = parsed(source, inline=True)
    if not tokens or tokens[0].type != "table_open":
        return None
    rows: list[list[Token]] = []
    starts: list[int] = []
    aligns: list[str] = []
    places = line_starts(source)
    for before, token in pairwise(tokens):
        match before.type:
            case "tr_open":
                rows.append([])
                starts.append(places[before.map[0]] if before.map else 0)
            case "th_open" | "td_open":
                rows[-1].append(token)
            case "table_close":
                break
            case _:
                pass
        if token.type == "th_open":
            aligns.append(str(token.attrGet("style") or "").removeprefix("text-align:") or "left")
    return PipeTable(rows, starts, aligns)


def wide_tables(text: str) -> Iterator[int]:
    """Yield where each table of *text* begins that has more columns than Slack takes."""
    if not _has_wide_line(text):
        return
    for block in top_blocks(text):
        if block.token.type == "table_open" and _is_wide(text[block.start : block.end].lstrip("\n")):
            yield block.start


def table_held(text: str) -> int:
    """Return the length of *text*, which still grows, before a wide table at its end: it is shown when it is whole.

    A last line that may be the header of one is held back, too.
    """
    if not _has_wide_line(text) or not (blocks := top_blocks(text)):
        return len(text)
    last, block = text.rstrip("\n").rfind("\n") + 1, blocks[-1]
    match block.token.type:
        case "table_open" if _is_wide(text[block.start : block.end].lstrip("\n")):
            return block.start
        case "table_open" | "fence" | "code_block":
            return len(text)
        case _:
            return last if text.count("|", last) >= _COLUMNS else len(text)


def _has_wide_line(text: str) -> bool:
    """Return whether a line of *text* may be a row of a wide table: hardly any is, and then nothing is parsed."""
    return text.count("|") >= _COLUMNS and any(line.count("|") >= _COLUMNS for line in text.split("\n"))


def _is_wide(source: str) -> bool:
    """Return whether the table *source* has more columns than Slack takes: its second line has a rule for each."""
    header, _, rest = source.partition("\n")
    rules = rest.partition("\n")[0]
    return header.count("|") >= _COLUMNS and sum(1 for rule in rules.split("|") if rule.strip()) > _COLUMNS


class RichCell(NamedTuple):
    """A cell: its words as elements of rich text, and as plain words."""

    elements: list[Json]
    words: str


def blocks_of(rows: Sequence[Sequence[RichCell]], aligns: Sequence[str]) -> list[Json]:
    """Return a table as Slack's blocks: a `table`, or several for a wide one; none if it is too large."""
    if len(aligns) > _COLUMNS:
        return _groups(rows, len(aligns))
    size = sum(len(cell.words) or 1 for row in rows for cell in row)
    if len(rows) > limits.TABLE_ROWS.value or size > limits.TABLE_TEXT.value:
        return []
    settings = [{"align": align} for align in aligns]
    return [{"type": "table", "column_settings": settings, "rows": [[_cell(cell) for cell in row] for row in rows]}]


def _groups(rows: Sequence[Sequence[RichCell]], count: int) -> list[Json]:
    """Return tables of as many columns as Slack takes, each with the first one: a message may have several of these."""
    step = _COLUMNS - 1
    groups = [(first, min(first + step, count)) for first in range(1, count, step)]
    size = sum(len(cell.words) or 1 for row in rows for cell in row) + len(groups) * sum(len(r[0].words) for r in rows)
    if not 1 < len(rows) <= limits.DATA_TABLE_ROWS.value + 1 or size > limits.DATA_TABLE_TEXT.value:
        return []
    made: list[Json] = []
    for first, end in groups:
        parts = [[row[0], *row[first:end]] for row in rows]
        header = [{"type": "raw_text", "text": cell.words or EMPTY} for cell in parts[0]]
        caption = f"Columns {first + 1 if made else 1} to {end} of {count}"
        body = [[_cell(cell) for cell in row] for row in parts[1:]]
        made.append({"type": "data_table", "caption": caption, "page_size": 20, "rows": [header, *body]})
    return made


def _cell(cell: RichCell) -> Json:
    if not cell.words.strip():
        return {"type": "raw_text", "text": EMPTY}
    if all(each["type"] == "text" and "style" not in each for each in cell.elements):
        return {"type": "raw_text", "text": cell.words}
    section = {"type": "rich_text_section", "elements": cell.elements}
    return {"type": "rich_text", "elements": [section]}


def aligned(rows: Sequence[Sequence[str]]) -> str | None:
    """Return the words of a table in columns; None when that is mostly blanks, or could not be shown as code."""
    plain = [[cell.replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*plain, strict=True)]
    lines = [_line(row, widths) for row in plain]
    lines.insert(1, _line(["-" * width for width in widths], widths))
    text = "\n".join(lines)
    words = sum(len(cell) + len(_GAP) for row in plain for cell in row)
    is_literal = "```" not in text and "<@" not in text
    return text if is_literal and len(text) <= _WASTE * words + len(lines[0]) else None


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    padded = (f"{cell}{' ' * (width - _width(cell))}" for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()


def _width(text: str) -> int:
    return len(text) if text.isascii() else max(0, wcswidth(text))
