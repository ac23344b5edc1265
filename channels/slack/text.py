"""Text on its way to Slack and from it: nothing that a model, a tool or a name wrote notifies people or forges syntax.

Markdown goes out through `safe`, while it still grows through `flowing`; other words through `neutral`, and `escape`
where the target is mrkdwn. A character without width is added after the one that would begin a marker, so no word is
lost. A change depends only on a few characters that follow, so a growing text, cut where `flowing` cuts it, begins with
what was sent before.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from textwrap import dedent

from markdown_it.token import Token

from channels.slack.parsing import (
    AHEAD,
    BREAK,
    CodeRanges,
    bare_fence,
    code_lines,
    parsed,
    spans,
    top_blocks,
    unmasked,
)

_LINE_END = re.compile(r"\r\n?")
_INVISIBLE: dict[int, str] = {
    **{code: " " for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}

# `<` also as an entity, and as one that is escaped once more.
_OPEN = r"(?:<|lt;|\#0*60;|\#x0*3c;)"
_LINK = rf"[\w+-]{{0,64}}[:./@][^<>|\n]{{0,{AHEAD}}}"
_MARKER = rf"(?:[@\#]\w|!(?!doctype\b|-|\[)|{_LINK}\||(?=[^<>|\n]{{{AHEAD}}}){_LINK})"
_SHOUT = r"(?<![\w.])@(?=channel|here|everyone)"
_USER = r"(?-i:(?<=<)@[UW][A-Z0-9]{1,30}>)"
_FORGED = re.compile(rf"{_OPEN}(?={_MARKER})|{_SHOUT}", re.IGNORECASE)
_FORGED_BUT_USERS = re.compile(rf"{_OPEN}(?!{_USER})(?={_MARKER})|{_SHOUT}", re.IGNORECASE)
_USERS = re.compile(r"<(?=@[UW][A-Z0-9]{1,30}>)")
# The end of a text that may yet become one of these, or a link.
_BEGUN = re.compile(
    rf"{_OPEN}(?:[^\s<>|]{{0,{AHEAD}}}|{_LINK})$|(?:lt?|\#x?0*(?:60?|3c?)?)$|@[a-z]{{0,8}}$"
    rf"|\](?:\([ \t]*<?[^\s)>]{{0,{AHEAD}}})?$|[\r\\]$",
    re.IGNORECASE,
)

_INBOUND = re.compile(r"<(?P<sign>[@#!]?)(?P<target>[^<>|]*)(?:\|(?P<label>[^<>]*))?>")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def clean(text: str) -> str:
    """Return *text* with line ends of one kind, control characters as spaces and half characters replaced."""
    return _LINE_END.sub("\n", text).translate(_INVISIBLE)


def neutral(text: str, *, allow_mentions: bool = False) -> str:
    """Return *text* so that in Markdown and mrkdwn it mentions no one and contains no syntax of Slack's own.

    With *allow_mentions* a mention of one user passes, never one of many.
    """
    return _forged(allow_mentions=allow_mentions).sub(rf"\g<0>{BREAK}", clean(text))


def safe(markdown: str, *, allow_mentions: bool = False) -> str:
    """Return *markdown* neutral outside of code, and with no link that hides where it leads.

    Code is as it was written: `rich.segments` shows what in it would be syntax of Slack's own.
    """
    text = unmasked(clean(markdown))
    if (forged := _forged(allow_mentions=allow_mentions)).search(text) is None:
        return text
    code = CodeRanges(text)
    return forged.sub(lambda match: match[0] if match.start() in code else f"{match[0]}{BREAK}", text)


def active(text: str, start: int = 0, *, allow_mentions: bool = False) -> Iterator[int]:
    """Yield where *text*, made safe, is syntax of Slack's own from *start* on: only in code."""
    allowed = {match.start() for match in _USERS.finditer(text, start)} if allow_mentions else set[int]()
    code: CodeRanges | None = None
    for match in _FORGED.finditer(text, start):
        if match.start() in allowed:
            code = code or CodeRanges(text)
            if match.start() not in code:
                continue
        yield match.start()


def _forged(*, allow_mentions: bool) -> re.Pattern[str]:
    return _FORGED_BUT_USERS if allow_mentions else _FORGED


def flowing(markdown: str, *, allow_mentions: bool = False) -> str:
    """Return as much of `safe(markdown)` as may be shown while *markdown* still grows.

    Of two results for a growing text one is a prefix of the other, so the difference can be appended.
    """
    return safe(markdown[: sendable(markdown)], allow_mentions=allow_mentions)


def escape(text: str) -> str:
    """Return *text* as mrkdwn shows it literally."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str, names: Mapping[str, str] | None = None) -> str:
    """Return the words of inbound mrkdwn; *names* maps ids of users, channels and groups to names."""
    words = _INBOUND.sub(partial(_readable, names or {}), text)
    for entity, sign in _ENTITIES:
        words = words.replace(entity, sign)
    return words


def _readable(names: Mapping[str, str], match: re.Match[str]) -> str:
    sign, target, label = match["sign"], match["target"], match["label"]
    match sign:
        case "@" | "#":
            return f"{sign}{(names.get(target) or label or target).removeprefix(sign)}"
        case "!":
            kind, _, rest = target.partition("^")
            if kind == "date":
                return label or rest
            return f"@{(names.get(rest) or label or rest or kind).removeprefix('@')}"
        case _:
            address = target.removeprefix("mailto:")
            return address if label in (None, "", target, address) else f"{label} ({address})"


# ---- text that still grows --------------------------------------------------------------------------

_HOLD = 400  # characters that an open marker may hold back; a lone marker does not stop the text
_TRIES = 16
_BLOCK_BEGUN = re.compile(r"[\s>#*+\-=_\d.)]*(?:[`~]+[^`]*)?$|[ \t>*+\-\d.)]*\[[^\]]*\]?:?$")
_INLINE = re.compile(
    r"\\.|(?P<word>(?<=\w)_+(?=\w))|(?P<mark>\*{1,3}|_{1,3}|~{1,2})"
    r"|(?P<open>\[)|(?P<link>\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*(?P<end>\))?)|(?P<close>\](?=.))"
)


def sendable(markdown: str) -> int:
    """Return how many characters of *markdown*, which still grows, can be sent without cutting through a construct.

    Whole lines can, of code only those. In the last line a marker, a link, a code span or a table row that is not
    closed is held back.
    """
    start = markdown.rfind("\n") + 1
    text = markdown[: start + _settled_line(markdown, start)]
    for _ in range(_TRIES):
        begun = _BEGUN.search(text, max(start, len(text) - 3 * AHEAD))
        if begun is None:
            break
        text = text[: _outside(text, start, begun.start())]
    else:
        text = text[: min(start, len(text))]
    if (first := _first_active(text)) is not None:
        return sendable(text[:first])
    return bare_fence(text)


def _outside(text: str, line: int, at: int) -> int:
    """Return where to cut *text* before *at*, in the line that begins at *line*, without cutting a code span."""
    around = (start for start, end in spans(text[line:]).closed if start <= at - line < end)
    return next((line + start for start in around), at)


def _first_active(text: str) -> int | None:
    """Return where code of the last block begins that is to be shown with the rest of the block, if any."""
    if _FORGED.search(text) is None or not (blocks := top_blocks(text)):
        return None
    code = CodeRanges(text)
    held = (code.start_of(match.start()) for match in _FORGED.finditer(text, blocks[-1].start))
    return next((at for at in held if at is not None), None)


def _settled_line(markdown: str, start: int) -> int:
    """Return how much of the last line, from *start* on, is no open construct of Markdown."""
    line = markdown[start:]
    above = markdown[: max(0, start - 1)].rpartition("\n")[2]
    if markdown.count("\n") in code_lines(markdown):
        return 0
    is_row = "|" in line or "|" in above
    if _BLOCK_BEGUN.match(line) or (is_row and len(line) < 2 * AHEAD):
        return 0
    return settled_in(line)


def settled_in(line: str) -> int:
    """Return the length of *line* before the first inline construct that is still open."""
    code = spans(line)
    for start, end in (*code.closed, *([] if code.open is None else [(code.open, len(line))])):  # code marks nothing
        line = f"{line[:start]}{'x' * (end - start)}{line[end:]}"
    opened: list[tuple[str, int]] = []
    places: dict[str, list[int]] = {}  # in `opened`, of each sign
    for sign, at in _signs(line):
        same = places.setdefault("[" if sign == "]" else sign, [])
        if sign != "[" and same:
            for closed, _ in reversed(opened[(first := same[-1]) :]):
                places[closed].pop()
            del opened[first:]
        elif sign != "]":
            same.append(len(opened))
            opened.append((sign, at))
    held = [at for sign, at in opened if len(line) - at <= (2 * AHEAD if sign == "[" else _HOLD)]
    if code.open is not None:
        held.append(code.open)
    return min(held, default=len(line))


def _signs(line: str) -> Iterator[tuple[str, int]]:
    """Yield the markers of *line* that may open or close something."""
    for match in _INLINE.finditer(line):
        match match.lastgroup:
            case "open":
                yield match[0], match.start()
            case "mark" if not (line[match.end() : match.end() + 1].isspace() and line[: match.start()][-1:].isspace()):
                yield match[0], match.start()
            case "link" | "end" | "close" if match["close"] or match["end"]:
                yield "]", match.start()
            case _:
                continue


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
