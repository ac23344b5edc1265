"""What Slack is sent for an answer: Markdown blocks, a few plain rows, and the same words as text.

A payload that Slack refuses has plainer forms, `plainer`; the last is its text alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from channels.slack.outbound.links import unmasked
from channels.slack.outbound.rich import as_text, pipe_tables, segments, words_of
from channels.slack.outbound.text import Plain, escape, neutral, plain, safe
from channels.slack.outbound.text_split import by_lines, pieces
from channels.slack.web_api import limits

Json = dict[str, Any]

FEEDBACK = "feedback"
"""The `action_id` of the two buttons below an answer."""

_ALLOWED = re.compile(r"(?P<code>```.*?```|`[^`\n]+`)|&lt;(?P<user>@[UW][A-Z0-9]+)&gt;", re.DOTALL)
_GAP = "\n\n"
_MAX_TABLES = limits.TABLES_PER_MESSAGE.value
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
    text_room: int = limits.TEXT.value,
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
    for piece in _small(words, limits.CONTEXT_TEXT.value, by_lines, lambda piece: len(escape(piece)) <= room):
        element = {"type": "plain_text", "text": piece, "emoji": False}
        yield _Row(({"type": "context", "elements": [element]},), escape(piece))


def _part(part: str | Figure, room: int, *, allow_mentions: bool) -> Iterator[_Row]:
    if isinstance(part, str):
        yield from _markdown(safe(part, allow_mentions=allow_mentions), room, allow_mentions=allow_mentions)
    else:
        markdown = sum(len(block["text"]) for block in part.blocks if block["type"] == "markdown")
        yield _Row(part.blocks, part.text, markdown)


def _markdown(markdown: str, room: int, *, allow_mentions: bool) -> Iterator[_Row]:
    limit = limits.MARKDOWN.value
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
    words = escape(_GAP.join(str(block) for block in plain(markdown))).strip() or escape(markdown.strip())
    return _ALLOWED.sub(lambda match: match["code"] or f"<{match['user']}>", words) if allow_mentions else words


def _packed(rows: Iterable[_Row], room: int) -> Iterator[Payload]:
    """Put as many *rows* into one payload as it may hold, with room for the feedback row."""
    taken: list[_Row] = []
    for row in rows:
        fresh = [*taken, row]
        size = sum(len(each.text) for each in fresh) + len(_GAP) * (len(fresh) - 1)
        markdown = sum(each.markdown for each in fresh)
        count = sum(len(each.blocks) for each in fresh)
        if taken and (size > room or markdown > limits.MARKDOWN.value or count >= limits.BLOCKS_PER_MESSAGE.value):
            yield _payload(taken)
            fresh = [row]
        taken = fresh
    if taken:
        yield _payload(taken)


def _payload(rows: Sequence[_Row]) -> Payload:
    return Payload(_one_table(block for row in rows for block in row.blocks), _GAP.join(row.text for row in rows))


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
    if payload.level or not blocks or len(blocks) > limits.BLOCKS_PER_MESSAGE.value:
        return Payload((), payload.text, 2)
    return Payload(_one_table(blocks), payload.text, 1)


def _plainer(block: Json) -> list[Json] | None:
    """Return simpler blocks with the words of *block*, None when only the text can show them."""
    match block["type"]:
        case "markdown" if len(block["text"]) <= limits.RICH_TEXT.value:
            return list(_literal(block["text"])) or None
        case "context" if all(element["type"] == "plain_text" for element in block["elements"]):
            return [{"type": "section", "text": element} for element in block["elements"]]
        case "context_actions":
            return []
        case _:
            return None


def _literal(markdown: str) -> Iterator[Json]:
    """Give *markdown* as blocks in which nothing is syntax: its tables, and rich text between them."""
    done = 0
    for start, end, blocks in (*pipe_tables(markdown), (len(markdown), len(markdown), list[Json]())):
        if words := rich_text(plain(markdown[done:start])):
            yield words
        yield from blocks
        done = end


def _one_table(blocks: Iterable[Json]) -> tuple[Json, ...]:
    """Return *blocks* with one `table` at most, as Slack asks for: the others are text in columns."""
    made: list[Json] = []
    for block in blocks:
        is_more = block["type"] == "table" and sum(each["type"] == "table" for each in made) >= _MAX_TABLES
        made.append(as_text(block) if is_more else block)
    return tuple(made)


def rich_text(words: Iterable[Plain]) -> Json | None:
    """Return *words* as a block in which nothing is syntax; None when there are none."""
    elements = [
        {
            "type": "rich_text_preformatted" if code else "rich_text_section",
            "elements": [{"type": "text", "text": text}],
        }
        for text, code in words
        if text
    ]
    return {"type": "rich_text", "elements": elements} if elements else None
