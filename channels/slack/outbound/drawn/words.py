"""The words of a render where its blocks are not read: for notifications, for screen readers, and alone; pure."""

from collections.abc import Callable

from agent_core import shorten
from channels.base import ShownRender
from channels.legible import one_line, visible
from channels.slack.outbound.drawn.form import Json
from channels.slack.outbound.drawn.room import Room, taken_by
from channels.slack.outbound.text import escape, neutral
from channels.slack.web_api import limits

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
