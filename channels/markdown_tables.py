"""Tables that a model writes by hand, aligned for a terminal that shows text as it was written; pure."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from agent_core import Align, DataTable, TableColumn, table_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_DIVIDER = re.compile(r"[ \t|:-]*")
_NUMBER = re.compile(r"[+\-\u2212]?[$€£¥]?[0-9][0-9,.\u00a0 ]*(?:%| %| ?[$€£¥])?")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def aligned_tables(text: str, width: int | None) -> str:
    """Return *text* with each table of Markdown in it as columns of at most *width* cells in all."""
    if "|" not in text:
        return text
    lines, out, done = text.split("\n"), list[str](), 0
    for start, end, found in _tables(_parser().parse(text)):
        out += lines[done:start]
        out += table_text(found, width=width).split("\n")
        done = end
    return "\n".join(out + lines[done:])


def before_table(text: str) -> int:
    """Return how much of *text*, which grows, is before a table at its end that may still get rows."""
    start = text.rfind("\n\n") + 2 if "\n\n" in text else 0
    lines = text[start:].split("\n")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if "|" in line and _DIVIDER.fullmatch(after):
            return start
        start += len(line) + 1
    return len(text)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - a server whose channels draw no tables needs no parser

    from channels.wide_tables import table_or_code  # noqa: PLC0415 - as above

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["inline", "text_join"])
    parser.block.ruler.at("table", table_or_code, {"alt": ["paragraph", "reference"]})
    return parser


def _tables(tokens: "Sequence[Token]") -> Iterator[tuple[int, int, DataTable]]:
    """Yield the first line and the one after the last of each table that is in nothing else, and the table."""
    opened = 0
    for at, token in enumerate(tokens):
        if token.level == 0 and token.type == "table_open":
            opened = at
        elif token.level == 0 and token.type == "table_close" and (lines := tokens[opened].map):
            yield lines[0], lines[1], _table(tokens[opened:at])


def _table(tokens: "Sequence[Token]") -> DataTable:
    styles = [str(token.attrs.get("style", "")) for token in tokens if token.type == "th_open"]
    cells = [_BREAK.sub("\n", token.content) for token in tokens if token.type == "inline"]
    heads, *rows = (cells[at : at + len(styles)] for at in range(0, len(cells), len(styles)))
    columns = tuple(
        TableColumn(str(n), head, _align(style, [row[n] for row in rows]))
        for n, (head, style) in enumerate(zip(heads, styles, strict=True))
    )
    return DataTable(columns, tuple({str(n): cell for n, cell in enumerate(row)} for row in rows))


def _align(style: str, cells: Sequence[str]) -> Align:
    """Return how a column is aligned: as it says, one of numbers right."""
    match style.removeprefix("text-align:"):
        case "left" | "right" | "center" as alignment:
            return alignment
        case _:
            there = [cell for cell in cells if cell]
            return "right" if there and all(map(_NUMBER.fullmatch, there)) else "left"
