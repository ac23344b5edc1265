"""The blocks of an answer: Markdown, and rich text where code would be syntax of Slack's own; pure.

Such code, as `<!channel>` in a code block, may not be sent as Markdown, and nothing may be put into it either.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from markdown_it.token import Token

from channels.slack import limits
from channels.slack.parsing import NESTING, line_starts, parsed, top_blocks, unmasked
from channels.slack.text import active, by_lines, escape, neutral, pieces, safe

Json = dict[str, Any]
_LINKS = ("https://", "http://", "mailto:")
MAX_INDENT = 8
"""Levels by which Slack indents a list."""
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


def segments(text: str, start: int = 0, *, allow_mentions: bool = False) -> list[Json]:
    """Return the blocks that show *text*, made safe, from *start* on: Markdown, and rich text where code demands it.

    What comes before *start* is shown already, as `flowing` gave it.
    """
    starts = list(active(text, start, allow_mentions=allow_mentions))
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
    """Return the block *markdown*, made safe, as rich text; as Markdown without syntax if it is empty."""
    return _rich_block(_elements(markdown)) or _markdown(neutral(markdown))


def _elements(markdown: str) -> list[Json]:
    """Return *markdown* as elements of rich text; what nests too deep for the parser is taken literally."""
    tokens = parsed(markdown, inline=True)
    if any(token.level >= NESTING - 1 for token in tokens):
        return [{"type": "rich_text_section", "elements": [_text(markdown.strip())]}]
    writer = _Writer()
    for token in tokens:
        writer.take(token)
    return writer.elements


def words_of(block: Json) -> str:
    """Return the words of a block of rich text, its code in marks of mrkdwn."""
    return "\n".join(map(_words, block["elements"])).strip()


def _words(part: Json) -> str:
    if part["type"] == "rich_text_list":
        space = "  " * part["indent"]
        marks = (f"{n}." if part["style"] == "ordered" else "•" for n in count(part.get("offset", 0) + 1))
        return "\n".join(f"{space}{mark} {_words(item)}" for mark, item in zip(marks, part["elements"], strict=False))
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


FEEDBACK = "feedback"
"""The `action_id` of the two buttons below an answer."""

_ALLOWED = re.compile(r"(?P<code>```.*?```|`[^`\n]+`)|&lt;(?P<user>@[UW][A-Z0-9]+)&gt;", re.DOTALL)
_GAP = "\n\n"
_MIN_PIECE = 64  # characters; smaller pieces fit


@dataclass(frozen=True, slots=True)
class Payload:
    """One message: *blocks*, and *text*, which holds the same words. *level* counts how often it was made plainer."""

    blocks: tuple[Json, ...]
    text: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A table or a chart between two texts: its *blocks*, sent as they are, and the same in a few words as *text*."""

    blocks: tuple[Json, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _Row:
    """Blocks that stay together; *markdown* counts the characters of theirs that have a sum per message."""

    blocks: tuple[Json, ...]
    text: str
    markdown: int = 0


def payloads(
    words: str | Sequence[str | Figure],
    *,
    lines: Sequence[str] = (),
    notice: str = "",
    feedback: str | None = None,
    allow_mentions: bool = False,
    text_room: int = limits.TEXT,
) -> list[Payload]:
    """Return the messages that show all of *words*, Markdown and what is between, none when there is nothing to show.

    Above it are *lines*, what the agent did, below it a *notice* and buttons for *feedback* on that run. *text_room*
    is the most characters of each message's text: with the default any of them can be updated, a post may have
    `limits.TEXT_HARD`.
    """
    above, below = list(_context("\n".join(lines), text_room)), list(_context(notice, text_room))
    beside = sum(len(row.text) + len(_GAP) for row in (*above, *below))
    room = max(text_room - beside, text_room // 2)
    parts = [words] if isinstance(words, str) else words
    answer = [row for part in parts for row in _part(part, room, allow_mentions=allow_mentions)]
    packed = list(_packed([*above, *answer, *below], text_room))
    if feedback is not None and packed:
        packed[-1] = replace(packed[-1], blocks=(*packed[-1].blocks, feedback_row(feedback)))
    return packed


def feedback_row(run: str) -> Json:
    """Return the feedback buttons below the answer of *run*."""
    return {
        "type": "context_actions",
        "elements": [
            {
                "type": "feedback_buttons",
                "action_id": FEEDBACK,
                "positive_button": _vote("Good", "Good answer", f"{run}:up"),
                "negative_button": _vote("Bad", "Bad answer", f"{run}:down"),
            }
        ],
    }


def voted(value: str) -> tuple[str, bool] | None:
    """Return the run that a feedback button was about and whether it was good; None for another value."""
    run, _, vote = value.rpartition(":")
    return (run, vote == "up") if run and vote in ("up", "down") else None


def _vote(text: str, label: str, value: str) -> Json:
    return {"text": {"type": "plain_text", "text": text}, "value": value, "accessibility_label": label}


def _context(text: str, room: int) -> Iterator[_Row]:
    """Yield literal words as rows of a context block."""
    words = neutral(text).strip()
    for piece in _small(words, limits.CONTEXT_TEXT, by_lines, lambda piece: len(escape(piece)) <= room):
        element = {"type": "plain_text", "text": piece, "emoji": False}
        yield _Row(({"type": "context", "elements": [element]},), escape(piece))


def _part(part: str | Figure, room: int, *, allow_mentions: bool) -> Iterator[_Row]:
    if isinstance(part, str):
        yield from _markdown_rows(safe(part, allow_mentions=allow_mentions), room, allow_mentions=allow_mentions)
    else:
        markdown = sum(len(block["text"]) for block in part.blocks if block["type"] == "markdown")
        yield _Row(part.blocks, part.text, markdown)


def _markdown_rows(markdown: str, room: int, *, allow_mentions: bool) -> Iterator[_Row]:
    limit = limits.MARKDOWN
    for piece in _small(
        markdown, min(limit, room), pieces, lambda piece: len(unmasked(piece)) <= limit and len(twin(piece)) <= room
    ):
        # A cut may have moved what looks like a link definition to the start of a line.
        for block in segments(unmasked(piece), allow_mentions=allow_mentions):
            yield _row(block, allow_mentions=allow_mentions)


def _row(block: Json, *, allow_mentions: bool) -> _Row:
    if block["type"] == "markdown":
        return _Row((block,), twin(block["text"], allow_mentions=allow_mentions), len(block["text"]))
    words = words_of(block)
    return _Row((block,), escape(words), len(words))


def _small(
    text: str, room: int, cut: Callable[[str, int], Iterable[str]], fits: Callable[[str], bool]
) -> Iterator[str]:
    """Cut *text* to *room*, and what does not fit then to half of it, and so on."""
    for piece in cut(text, room):
        if not piece.strip():
            continue
        if fits(piece) or room < _MIN_PIECE:
            yield piece
        else:
            yield from _small(piece, room // 2, cut, fits)


def twin(markdown: str, *, allow_mentions: bool = False) -> str:
    """Return the words of *markdown* as mrkdwn that is literal but for code, and for users if *allow_mentions*."""
    words = escape(_GAP.join(map(_words, _elements(markdown)))).strip() or escape(markdown.strip())
    return _ALLOWED.sub(lambda match: match["code"] or f"<{match['user']}>", words) if allow_mentions else words


def _packed(rows: Iterable[_Row], room: int) -> Iterator[Payload]:
    """Put as many *rows* into one payload as it may hold, with room for the feedback row."""
    taken: list[_Row] = []
    for row in rows:
        fresh = [*taken, row]
        size = sum(len(each.text) for each in fresh) + len(_GAP) * (len(fresh) - 1)
        markdown = sum(each.markdown for each in fresh)
        count = sum(len(each.blocks) for each in fresh)
        if taken and (size > room or markdown > limits.MARKDOWN or count >= limits.BLOCKS_PER_MESSAGE):
            yield _payload(taken)
            fresh = [row]
        taken = fresh
    if taken:
        yield _payload(taken)


def _payload(rows: Sequence[_Row]) -> Payload:
    return Payload(tuple(block for row in rows for block in row.blocks), _GAP.join(row.text for row in rows))


# ---- the ladder: what is sent when Slack refuses a payload ------------------------------------------


def plainer(payload: Payload, pointer: str | None = None) -> Payload | None:
    """Return *payload* with plainer blocks, the second time its text alone, and None when there is nothing plainer.

    The JSON *pointer* of the refusal names the block to replace; without one all are replaced.
    """
    if not payload.blocks:
        return None
    named = re.match(r"/(?:blocks/)?(\d+)", pointer or "")
    index = int(named[1]) if named and int(named[1]) < len(payload.blocks) else None
    blocks: list[Json] = []
    for at, block in enumerate(payload.blocks):
        if index not in (None, at):
            blocks.append(block)
        elif (plain_ones := _plainer(block)) is None:
            return Payload((), payload.text, 2)
        else:
            blocks += plain_ones
    if payload.level or not blocks or len(blocks) > limits.BLOCKS_PER_MESSAGE:
        return Payload((), payload.text, 2)
    return Payload(tuple(blocks), payload.text, 1)


def _plainer(block: Json) -> list[Json] | None:
    """Return simpler blocks with the words of *block*, None when only the text can show them."""
    match block["type"]:
        case "markdown" if len(block["text"]) <= limits.RICH_TEXT:
            return rich(block["text"])
        case "context" if all(element["type"] == "plain_text" for element in block["elements"]):
            return [{"type": "section", "text": element} for element in block["elements"]]
        case "context_actions":
            return []
        case _:
            return None
