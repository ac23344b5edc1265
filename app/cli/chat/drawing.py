"""Markdown as a terminal shows it: a text that grows, cut into blocks that are drawn once and one that may change."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from app.cli.chat.growing import Growing, closed_fence, tail
from channels.terminal import aligned_tables, before_table
from channels.text import visible
from channels.wide_tables import table_or_code

WIDEST = 120
"""Columns that prose fills at most: longer lines are hard to read."""
_STYLE = re.compile(r"\x1b\[[\d;]*m")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_STYLES = Theme({"markdown.code": "bold cyan", "markdown.link": "blue", "markdown.link_url": "underline blue"})
NARROWEST_COLUMN = 6
"""Columns that each column of a table needs; a table without them is shown as it was written."""


class TextStyle(Protocol):
    """How a text that is visible already is drawn; *gap* is what divides its blocks."""

    gap: str

    def settled(self, text: str) -> int:
        """Return how many characters of *text* will be drawn alike whatever follows them."""
        ...

    def draw(self, text: str, width: int) -> str:
        """Return *text* as a terminal of *width* columns takes it, without blank lines around it."""
        ...


class AsWritten:
    """Text as it was written, its tables aligned."""

    gap = ""

    def settled(self, text: str) -> int:
        done = 0
        while (end := closed_fence(text, done)) is not None:
            if not end:
                return done
            done = end
        if begun := _FENCE.search(text, done):  # what looks like a table in code is none
            return begun.start()
        return done + min(before_table(text[done:]), text[done:].rfind("\n") + 1)

    def draw(self, text: str, width: int) -> str:
        return aligned_tables(text.removesuffix("\n"), width)


class Drawn:
    """Markdown drawn by rich, in colours of the terminal's own palette for a *light* background or a dark one."""

    gap = "\n"

    def __init__(self, *, light: bool = False) -> None:
        self._theme = "ansi_light" if light else "ansi_dark"
        # What rich does not print would be lost: HTML and addresses of references and images stay as they are.
        self._parser = MarkdownIt().enable(["strikethrough", "table"])
        self._parser.disable(["html_block", "html_inline", "reference", "image"])
        # As the library adds its own: a table also ends a paragraph.
        self._parser.block.ruler.at("table", table_or_code, {"alt": ["paragraph", "reference"]})

    def settled(self, text: str) -> int:
        done = 0
        while (end := closed_fence(text, done)) is not None:  # without a parser: code is what grows longest
            if not end:
                return done
            done = end
        return done + self._begun(text[done:])

    def _begun(self, text: str) -> int:
        """Return where the last block of *text* begins."""
        starts = [token.map[0] for token in self._parser.parse(text) if token.level == 0 and token.map]
        if not starts or starts[-1] == 0:
            return 0
        return sum(map(len, text.split("\n")[: starts[-1]])) + starts[-1]

    def draw(self, text: str, width: int) -> str:
        blocks = _blocks(_legible(self._parser.parse(text)))
        drawn = (self._block(block, text, min(width, WIDEST)) for block in blocks)
        return "\n\n".join(each for each in drawn if each)

    def _block(self, block: Sequence[Token], text: str, width: int) -> str:
        console, first = _console(width), block[0]
        if first.type in ("fence", "code_block"):  # not wrapped: what is copied is the code
            code = Syntax("", first.info.split(" ")[0] or "text", theme=self._theme).highlight(first.content)
            mark, last = (first.markup + first.info, first.markup) if first.markup else ("", "")
            for part in (Text(mark, "dim"), code, Text(last, "dim")):
                part.rstrip()
                if part:
                    console.print(part, soft_wrap=True)
        elif first.type == "table_open" and not _has_room(block, width):
            start, end = first.map or [0, 0]
            console.print(Text("\n".join(text.split("\n")[start:end])), soft_wrap=True)
        else:
            console.print(Parsed(block, self._theme))
        lines = [line.rstrip(" ") for line in _written(console).split("\n")]
        inked = [at for at, line in enumerate(lines) if _STYLE.sub("", line).strip()]
        return "\n".join(lines[inked[0] : inked[-1] + 1]) if inked else ""


class Flow:
    """One text that grows on the screen: what of it is drawn for good, and where it goes on."""

    def __init__(self, drawing: TextStyle) -> None:
        self._drawing, self._done = drawing, ""
        self._growing = Growing()

    def feed(self, text: str, width: int, *, is_open: bool) -> tuple[str, str]:
        """Take all of *text* so far; return what is to be printed for good now, and what may still change."""
        again = ""
        if not text.startswith(self._done):
            again, self._done, self._growing = "\u21bb\n", "", Growing()
        gap = self._drawing.gap if self._done else "\n"
        rest = text[len(self._done) :]
        cut = self._growing.cut(rest, self._drawing.settled) if is_open else len(rest)
        above = self._drawing.draw(rest[:cut], width)
        if cut and (above or not self._drawing.gap):
            again, gap = f"{again}{gap}{above}\n", self._drawing.gap
        self._done += rest[:cut]
        live = self._drawing.draw(tail(rest[cut:]), width)
        return again, f"{gap}{live}" if live else ""


class LeftHeading(Heading):
    """A heading at the left, where all text begins."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class FoldedTable(TableElement):
    """A table whose cells continue on the next line rather than end in dots."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True)
        header = self.header.row.cells if self.header is not None and self.header.row is not None else ()
        for cell in header:
            heading = cell.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold")
        for row in self.body.rows if self.body is not None else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class Parsed(Markdown):
    """Markdown that was parsed already."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": LeftHeading,
        "table_open": FoldedTable,
    }

    def __init__(self, tokens: Sequence[Token], theme: str) -> None:
        super().__init__("", code_theme=theme, inline_code_theme=theme, hyperlinks=False)
        self.parsed = list(tokens)


def note(text: str, width: int) -> str:
    """Return *text* as a note is shown, its lines divided at words."""
    console = _console(width)
    console.print(Text(text, "dim"), end="")
    return _written(console)


def _console(width: int) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        width=width,
        theme=_STYLES,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )


def _written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Divide *tokens* at the ends of the blocks of the highest level."""
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _legible(tokens: Sequence[Token]) -> list[Token]:
    """Return *tokens* with what entities in them stand for visible too."""
    return [
        replace(
            token,
            content=visible(token.content),
            info=visible(token.info),
            attrs={key: visible(str(value)) for key, value in token.attrs.items()},
            children=None if token.children is None else _legible(token.children),
        )
        for token in tokens
    ]


def _has_room(block: Sequence[Token], width: int) -> bool:
    columns = sum(token.type == "th_open" for token in block)
    return columns * NARROWEST_COLUMN <= width
