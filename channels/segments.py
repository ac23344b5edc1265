"""Which part of a conversation each message of a channel shows, and where one ends; pure.

A wait, the end of a run and rollover past `MessageLimits.text` or `MessageLimits.age` end a segment; the next text
opens a new one.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from channels.base import ConversationView, GrowingText, MessageLimits, Piece, RunView, ShownMessage

_LINE_END = "\n"
_SPLITS = ("\n\n", _LINE_END, " ")
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Border:
    """A position in a conversation: before code point *offset* of a message's text, or after the message (None).

    *at* is where to search for the message from: its index when the border was drawn, which can only grow.
    """

    message: str
    offset: int | None = None
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.message if self.offset is None else f"{self.message} {self.offset}"

    @classmethod
    def read(cls, text: str | None) -> "Border | None":
        """Parse the border that `str` wrote as *text*."""
        if text is None:
            return None
        message, _, offset = text.partition(" ")
        return cls(message, int(offset) if offset else None)


@dataclass(frozen=True, slots=True)
class Segment:
    """What one message of a channel shows: all from *start* (None: the beginning) to *end* (None: it still grows)."""

    start: Border | None = None
    end: Border | None = None

    @property
    def names(self) -> tuple[str | None, str | None]:
        """Its borders as text."""
        return (None if self.start is None else str(self.start), None if self.end is None else str(self.end))


def cut(body: ConversationView, segment: Segment) -> ConversationView:
    """Return the picture of *segment*: its messages, the runs they belong to, and whether it is closed.

    It ends at the first border that the view drew, if that comes before its own end.
    """
    taken = body.past + body.recent
    fenced = tuple(_fenced(taken[at], message, _begin(taken[at], segment.start)) for at, message in _cut(body, segment))
    return ConversationView(recent=fenced, runs=_runs(body, fenced), closed=segment.end is not None)


def length(body: ConversationView, segment: Segment) -> int:
    """Return the code points of the text that *segment* shows."""
    return sum(len(message.text) for _, message in _cut(body, segment) if message.role == "assistant")


def border(body: ConversationView, segment: Segment, limits: MessageLimits) -> Border | None:
    """Return where *segment*, which still grows, has to end; None when it may go on."""
    room = limits.text
    last: Border | None = None
    for at, message in _cut(body, segment):
        if room is not None and message.role == "assistant":
            text = message.text
            if len(text) > room:
                offset = _begin(message, segment.start) + _split(text[:room], required=room == limits.text)
                return Border(message.id, offset, at)
            room -= len(text)
        last = Border(message.id, None, at) if message.is_last else None
    return last


def rollover(body: ConversationView, segment: Segment) -> Border | None:
    """Return the end of the words that *segment* shows, or the position after its tool calls; None without either."""
    last: Border | None = None
    for at, message in _cut(body, segment):
        if message.role != "assistant" or message.is_last:
            last = None
        elif message.open:
            words = _words(message.text)
            last = Border(message.id, _begin(message, segment.start) + words, at) if words else last
        else:
            last = Border(message.id, None, at) if message.calls else None
    return last


def _words(text: str) -> int:
    """Return the length of *text* up to the end of its last whole word."""
    return max(text.rfind(" "), text.rfind("\n")) + 1


def _cut(body: ConversationView, segment: Segment) -> Iterator[tuple[int, ShownMessage]]:
    """Yield the messages of *segment* with their indexes, the first and the last with their part of the text."""
    for at, message in _from(body, segment.start):
        begin = _begin(message, segment.start)
        end = segment.end if segment.end is not None and segment.end.message == message.id else None
        if end is not None and end.offset is not None:
            yield at, _part(message, begin, end.offset)
            return
        yield at, _part(message, begin, None) if begin else message
        if message.is_last or message.open or end is not None:  # after an open one comes only what has its own message
            return


def _begin(message: ShownMessage, start: Border | None) -> int:
    """Return the offset in *message* at which a segment from *start* on begins."""
    return start.offset or 0 if start is not None and start.message == message.id else 0


def is_visible(picture: ConversationView) -> bool:
    """Return whether there is anything to show of an agent: text, a call, or an end that has to be said."""
    if any(message.role == "assistant" and (message.calls or message.text.strip()) for message in picture.recent):
        return True
    ends = [run for run in picture.runs if run.status in ("failed", "cancelled", "waiting", "requires_action")]
    refused = [run for run in picture.runs if run.blank or run.reason not in (None, "end_turn")]
    return bool(ends or refused) and any(message.border for message in picture.recent)


def _from(body: ConversationView, start: Border | None) -> Iterator[tuple[int, ShownMessage]]:
    """Yield the messages from *start* on with their indexes, without those that no step has taken yet."""
    taken = body.past + body.recent
    at = 0
    if start is not None:
        at = next((n for n in range(start.at, len(taken)) if taken[n].id == start.message), len(taken))
        at += start.offset is None
    return ((n, taken[n]) for n in range(at, len(taken)))


def _runs(body: ConversationView, messages: Iterable[ShownMessage]) -> tuple[RunView, ...]:
    """Return the runs that *messages* belong to, searched from the newest."""
    names = {message.run for message in messages}
    runs: list[RunView] = []
    for run in reversed(body.runs):
        if len(runs) == len(names):
            break
        if run.id in names:
            runs.append(run)
    return tuple(reversed(runs))


def _part(message: ShownMessage, begin: int, end: int | None) -> ShownMessage:
    """Return *message* with a part of its text; what is shown below its text goes with the last part."""
    parts = (Piece("text", GrowingText.of(message.text[begin:end])),)
    if end is None:
        return replace(message, parts=parts)
    return replace(message, parts=parts, calls=(), border=False, alone=False)


def _fenced(whole: ShownMessage, part: ShownMessage, begin: int) -> ShownMessage:
    """Return *part* of *whole*, from *begin* on, with a code fence that the cut splits closed and reopened."""
    if whole is part:
        return part
    text, end = part.text, begin + len(part.text)
    if end < len(whole.text) and (inside := _fence_at(whole.text[:end])) is not None:
        text = f"{text.removesuffix(_LINE_END)}{_LINE_END}{inside.mark}"
    if begin and (before := _fence_at(whole.text[:begin])) is not None:
        text = f"{before.opening}{_LINE_END}{text}"
    return replace(part, parts=(Piece("text", GrowingText.of(text)),))


def _split(text: str, *, required: bool) -> int:
    """Return where to cut *text*: at the end of a paragraph, a line or a word in its second half, else at its end.

    Where a cut is not *required*, return 0 rather than cut inside a word.
    """
    for mark in _SPLITS:
        at = text.rfind(mark, len(text) // 2)
        if at > 0:
            return at + len(mark)
    return len(text) if required else 0


# ---- code fences --------------------------------------------------------------------------------


class _Fence(NamedTuple):
    """An open code fence: the *mark* that closes it, and the line that opens it again."""

    mark: str
    opening: str


def _fence_at(text: str) -> _Fence | None:
    """Return the fence that is open at the end of *text*, as CommonMark reads it at the top level."""
    fence: _Fence | None = None
    for line in _FENCE.finditer(text):
        mark, info = line["mark"], line["info"].strip()
        if fence is None:
            if mark[0] == "~" or "`" not in info:
                fence = _Fence(mark, f"{mark}{info}")
        elif mark[0] == fence.mark[0] and len(mark) >= len(fence.mark) and not info:
            fence = None
    return fence
