"""Markdown whose code would be syntax of Slack's own, as rich text, in which nothing is syntax; pure.

Such code, as `<!channel>` in a code block, may not be sent as Markdown, and nothing may be put into it either.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from markdown_it.token import Token

from channels.slack.outbound.parsing import line_starts, parsed, top_blocks
from channels.slack.outbound.pipes import RichCell, aligned, blocks_of, table_in, wide_tables
from channels.slack.outbound.text import active, neutral

Json = dict[str, Any]
_LINKS = ("https://", "http://", "mailto:")
MAX_INDENT = 8
"""Levels by which Slack indents a list."""
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


def segments(text: str, start: int = 0, *, allow_mentions: bool = False) -> list[Json]:
    """Return the blocks that show *text*, made safe, from *start* on: Markdown, and rich text where code demands it.

    What comes before *start* is shown already, as `flowing` gave it.
    """
    starts = [*active(text, start, allow_mentions=allow_mentions), *wide_tables(text)]
    if not starts:
        return _markdown(text[start:])
    made: list[Json] = []
    done = start
    for block in top_blocks(text):
        if block.end > start and any(block.start <= at < block.end for at in starts):
            made += [
                *_markdown(text[done : max(block.start, start)]),
                *_rest(text[block.start : block.end], start - block.start),
            ]
            done = block.end
    return [*made, *_markdown(text[done:])]


def _markdown(text: str) -> list[Json]:
    return [{"type": "markdown", "text": text}] if text else []


def _rest(source: str, start: int) -> list[Json]:
    """Return the blocks that show the rest of a block from *start* on; code that was begun as Markdown is closed."""
    if start <= 0:
        return rich(source)
    if made := _table(source, start):
        return made
    starts = line_starts(source)
    for token in parsed(source):
        if token.type != "fence" or token.map is None or not starts[token.map[0]] < start <= starts[token.map[1]]:
            continue
        lines = source[start : starts[token.map[1]]].rstrip("\n").split("\n")
        is_closed = lines[-1].strip(" >").startswith(token.markup)
        closing = lines.pop() if is_closed else token.markup
        code = "\n".join(token.content.removesuffix("\n").split("\n")[-len(lines) :]) if lines else ""
        after = source[starts[token.map[1]] :]
        return [*_markdown(f"{closing}\n"), *_rich_block([_preformatted(code)] if code else []), *segments(after)]
    return rich(source[start:])


def rich(markdown: str) -> list[Json]:
    """Return the block *markdown*, made safe, as rich text or tables; as Markdown without syntax if it is empty."""
    if made := _table(markdown):
        return made
    writer = _Writer()
    for token in parsed(markdown, inline=True):
        writer.take(token)
    return _rich_block(writer.elements) or _markdown(neutral(markdown))


def _table(source: str, start: int = 0) -> list[Json]:
    """Return the rows from *start* on of the pipe table *source* as blocks; none if it is no table, or too large."""
    table = table_in(source)
    if table is None:
        return []
    rest = table.after(start)
    if start and len(rest.rows) == 1:
        return []
    return blocks_of([[_rich_cell(cell) for cell in row] for row in rest.rows], rest.aligns)


def _rich_cell(cell: Token) -> RichCell:
    elements = list(_inline(cell.children or [], {}))
    return RichCell(elements, "".join(map(_words, elements)))


def pipe_tables(markdown: str) -> Iterator[tuple[int, int, list[Json]]]:
    """Yield where each table of *markdown*, made safe, begins and ends, and its blocks, in which nothing is syntax."""
    if "|" not in markdown:
        return
    for block in top_blocks(markdown):
        if block.token.type == "table_open" and (made := _table(markdown[block.start : block.end])):
            yield block.start, block.end, made


def as_text(table: Json) -> Json:
    """Return a block with the words of *table* in columns, in which nothing is syntax."""
    return {"type": "rich_text", "elements": [_preformatted(aligned(rows_of(table)) or _lines_of(table))]}


def rows_of(table: Json) -> list[list[str]]:
    """Return the words of the cells of a table."""
    return [[_words(cell) for cell in row] for row in table["rows"]]


def _lines_of(table: Json) -> str:
    return "\n".join(map(" | ".join, rows_of(table)))


def words_of(block: Json) -> str:
    """Return the words of a block of rich text or a table, its code in marks of mrkdwn."""
    if "rows" in block:
        text = aligned(rows_of(block))
        return _lines_of(block) if text is None else f"```\n{text}\n```"
    return "\n".join(map(_words, block["elements"])).strip()


def _words(part: Json) -> str:
    if part["type"] == "rich_text_list":
        marks = (f"{n}." if part["style"] == "ordered" else "•" for n in count(part.get("offset", 0) + 1))
        return "\n".join(f"{mark} {_words(item)}" for mark, item in zip(marks, part["elements"], strict=False))
    if "elements" in part:
        words = "".join(map(_words, part["elements"]))
        return f"```\n{words}\n```" if part["type"] == "rich_text_preformatted" else words
    words = part["text"] if part["type"] != "link" or part["text"] in part["url"] else f"{part['text']} ({part['url']})"
    return f"`{words}`" if part.get("style", {}).get("code") else words


def _rich_block(elements: list[Json]) -> list[Json]:
    return [{"type": "rich_text", "elements": elements}] if elements else []


def _preformatted(code: str) -> Json:
    return {"type": "rich_text_preformatted", "elements": [_text(code)]}


@dataclass(slots=True)
class _List:
    """An open list: its style, and how many items come before the next one."""

    style: str
    count: int = 0


@dataclass(slots=True)
class _Writer:
    """Writes tokens as *elements* of rich text; *_lists* are open, *_cells* of a table's row are begun.

    *_fresh* says that the next words begin an item or a row.
    """

    elements: list[Json] = field(default_factory=list[Json])
    _lists: list[_List] = field(default_factory=list[_List])
    _quotes: int = 0
    _heading: bool = False
    _cells: int = 0
    _fresh: bool = False

    def take(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                is_ordered = token.type == "ordered_list_open"
                first = int(token.attrGet("start") or 1) - 1 if is_ordered else 0
                self._lists.append(_List("ordered" if is_ordered else "bullet", max(0, first)))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open" | "tr_open" | "table_close":
                self._fresh, self._cells = True, 0
            case "blockquote_open" | "blockquote_close":
                self._quotes += token.nesting
            case "heading_open" | "heading_close":
                self._heading = token.nesting > 0
            case "fence" | "code_block" if code := token.content.removesuffix("\n"):
                self.elements.append(_preformatted(code))
            case "th_open" | "td_open":
                self._cells += 1
            case "hr":
                self._write([_text("---")])
            case "inline":
                self._write(list(_inline(token.children or [], {"bold": True} if self._heading else {})))
            case _:
                return

    def _write(self, words: list[Json]) -> None:
        """Add *words* as an item of the open list, as a quote, or as a paragraph."""
        if not words:
            return
        if self._cells:
            self._join(words, "rich_text_section", "\n" if self._cells == 1 else " | ")
        elif self._lists:
            self._item(words)
        elif self._quotes:
            self._join(words, "rich_text_quote", "\n")
        else:
            self._join(words, "rich_text_section", "\n\n")
        self._fresh = False

    def _join(self, words: list[Json], kind: str, gap: str) -> None:
        last = self.elements[-1] if self.elements else None
        if last is not None and last["type"] == kind:
            last["elements"] += [_text(gap), *words]
        else:
            self.elements.append({"type": kind, "elements": words})

    def _item(self, words: list[Json]) -> None:
        section = {"type": "rich_text_section", "elements": words}
        listed, indent = self._lists[-1], min(len(self._lists) - 1, MAX_INDENT)
        about = {"type": "rich_text_list", "style": listed.style, "indent": indent}
        last = self.elements[-1] if self.elements else {}
        is_same = about.items() <= last.items()
        if not self._fresh:
            if is_same:
                last["elements"][-1]["elements"] += [_text("\n"), *words]
            else:
                self.elements.append(section)
            return
        if is_same:
            last["elements"].append(section)
        else:
            offset = {"offset": listed.count} if listed.style == "ordered" and listed.count else {}
            self.elements.append({**about, **offset, "elements": [section]})
        listed.count += 1


def _inline(tokens: Iterable[Token], style: dict[str, bool]) -> Iterator[Json]:
    """Yield inline tokens as elements of rich text, each with the styles that are open."""
    style, address = dict(style), ""
    for token in tokens:
        kind, _, side = token.type.partition("_")
        match token.type:
            case "softbreak" | "hardbreak":
                yield _text("\n")
            case "code_inline":
                yield _text(token.content, {**style, "code": True})
            case "image":
                yield from _linked(token.content or "image", str(token.attrGet("src") or ""), style)
            case "link_open":
                address = str(token.attrGet("href") or "")
            case "link_close":
                address = ""
            case "text" | "text_special" if token.content:
                yield from _linked(token.content, address, style)
            case _ if kind in _STYLES:
                style = {name: True for name in {*style, _STYLES[kind]} if side == "open" or name != _STYLES[kind]}
            case _:
                continue


def _linked(words: str, address: str, style: dict[str, bool]) -> Iterator[Json]:
    if address.startswith(_LINKS):
        yield {"type": "link", "url": address, "text": words, **({"style": style} if style else {})}
    else:
        yield _text(words, style)


def _text(words: str, style: dict[str, bool] | None = None) -> Json:
    return {"type": "text", "text": words, **({"style": style} if style else {})}
