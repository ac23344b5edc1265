"""Cutting a Markdown text into pieces that fit: between blocks, else between items, rows, lines or words."""

import re
from collections.abc import Callable, Iterator
from textwrap import dedent

from markdown_it.token import Token

from channels.slack.outbound.parsing import parsed
from channels.slack.outbound.text import settled_in

_MIN_ROOM = 120  # characters; with less room a block is cut by lines only
_ITEM = re.compile(r"[ \t]*(?:[*+-]|\d{1,9}[.)])[ \t]*")
_QUOTE = re.compile(r"[ ]{0,3}> ?")


def pieces(markdown: str, room: int) -> list[str]:
    """Return *markdown* in pieces of at most *room* characters.

    A code fence is kept whole if it fits, else closed and reopened; a table that is cut repeats its header. Only
    blank lines at the borders are left out.
    """
    return list(_packed(_blocks(markdown, room), room))


def _packed(blocks: Iterator[str], room: int) -> Iterator[str]:
    """Put as many *blocks* into one piece as fit."""
    piece = ""
    for block in blocks:
        if len((piece + block).rstrip()) > room:
            if piece.strip():
                yield _trimmed(piece)
            piece = ""
        piece += block
    if piece.strip():
        yield _trimmed(piece)


def _trimmed(piece: str) -> str:
    return re.sub(r"\A(?:[ \t]*\n)+", "", piece).rstrip()


def _blocks(markdown: str, room: int) -> Iterator[str]:
    """Yield the top-level blocks with the blank lines after them; a block that does not fit is yielded in parts."""
    lines = markdown.split("\n")
    tokens = parsed(markdown)
    tops = [(at, token) for at, token in enumerate(tokens) if token.level == 0 and token.map and token.nesting >= 0]
    begins = [token.map[0] for _, token in tops if token.map]
    if not tops:  # nothing but definitions of links
        yield from by_lines(markdown, room)
    for n, (at, token) in enumerate(tops):
        first = begins[n] if n else 0
        last = begins[n + 1] if n + 1 < len(tops) else len(lines)
        source = "\n".join(lines[first:last]) + "\n" * (last < len(lines))
        if len(source.rstrip()) <= room:
            yield source
        else:
            yield from _fitting(_parts(token, tokens[at:], source, room), source, room)


def _fitting(parts: list[str], source: str, room: int) -> Iterator[str]:
    """Yield *parts*, each followed by a blank line; by lines where they are still too long."""
    if room < _MIN_ROOM or not parts or any(len(part) > room for part in parts):
        parts = list(by_lines(source, room))
    yield from (f"{part}\n\n" for part in parts)


def _parts(token: Token, following: list[Token], source: str, room: int) -> list[str]:
    """Return *source*, the lines of the block that *token* opens, in parts; some may still be too long."""
    match token.type:
        case "fence":
            return _fence_parts(token, source, room)
        case "table_open":
            return _table_parts(source, room)
        case "bullet_list_open" | "ordered_list_open":
            return _list_parts(following, source, room)
        case "blockquote_open":
            body = "\n".join(_QUOTE.sub("", line, count=1) for line in source.split("\n"))
            return _within(body, room // 2, lambda part: "\n".join(f"> {line}" for line in part.split("\n")))
        case _:
            return []


def _within(body: str, room: int, dress: Callable[[str], str]) -> list[str]:
    return [dress(piece) for piece in pieces(body, room)] if room >= _MIN_ROOM else []


def _fence_parts(token: Token, source: str, room: int) -> list[str]:
    opening = f"{token.markup}{token.info}"
    inner = room - len(opening) - len(token.markup) - 2
    begin, end = token.map or [0, 0]
    rest = "\n".join(source.split("\n")[end - begin :]).strip("\n")
    if inner < room // 2 or rest.strip():
        return []
    content = token.content.removesuffix("\n")
    return [f"{opening}\n{part}\n{token.markup}" for part in by_lines(content, inner, whole_lines=True)]


def _table_parts(source: str, room: int) -> list[str]:
    head, rule, *rows = source.strip("\n").split("\n")
    header = f"{head}\n{rule}\n"
    if len(header) > room // 2 or any(len(header) + len(row) > room for row in rows):
        return []
    return [header + part.strip("\n") for part in _packed((f"{row}\n" for row in rows), room - len(header))]


def _list_parts(tokens: list[Token], source: str, room: int) -> list[str]:
    """Return the items of a list in pieces; the rest of an item that does not fit follows as plain text."""
    offset = (tokens[0].map or [0])[0]
    lines = source.split("\n")
    begins = [
        token.map[0] - offset for token in _until_closed(tokens) if token.type == "list_item_open" and token.level == 1
        if token.map
    ]  # fmt: skip
    parts: list[str] = []
    for first, last in zip(begins, [*begins[1:], len(lines)], strict=True):
        item = "\n".join(lines[first:last])
        if len(item.rstrip()) <= room:
            parts.append(f"{item}\n")
        else:
            parts += (f"{part}\n\n" for part in _item_parts(item, room))
    return list(_packed(iter(parts), room))


def _item_parts(item: str, room: int) -> list[str]:
    marker = _ITEM.match(item)
    width = marker.end() if marker else 0
    head = item[:width]
    body = dedent(" " * width + item[width:])
    inner = _within(body, room * 2 // 3, str)
    if not inner:
        return list(by_lines(item, room))
    return [head + inner[0].replace("\n", "\n" + " " * width), *inner[1:]]


def _until_closed(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        if token.level == 0 and token.nesting < 0:
            return


def by_lines(text: str, room: int, *, whole_lines: bool = False) -> Iterator[str]:
    """Yield *text* in parts of whole lines; a longer line is cut between words, or anywhere if it is code."""
    cut = _anywhere if whole_lines else _cut_at_word
    part: list[str] = []
    size = 0
    for line in text.split("\n"):
        rest = line
        while size + len(rest) > room:
            if part:
                yield "\n".join(part)
                part, size = [], 0
                continue
            at = cut(rest, room)
            yield rest[:at]
            rest = rest[at:] if whole_lines else rest[at:].lstrip()
        part.append(rest)
        size += len(rest) + 1
    yield "\n".join(part)


def _anywhere(_line: str, room: int) -> int:
    return room


def _cut_at_word(line: str, room: int) -> int:
    """Return where to cut *line*: between words, outside links and emphasis if that fills at least half of the room."""
    head = line[:room]
    settled = settled_in(head)
    for end in (settled, room):
        at = head.rfind(" ", room // 2, end) + 1
        if at:
            return at
    return settled if settled > room // 2 else room
