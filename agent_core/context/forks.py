"""Forks: what a model is sent so that it sums up a window's older part, whole or in pieces. Pure."""

from collections.abc import Sequence

from agent_core.context.entries import Encode, WindowEntry
from agent_core.context.estimates import Calibration
from agent_core.context.frames import Frames
from agent_core.context.summaries import in_window, instruction, shortened
from agent_core.domain.messages import Message, Part, Reasoning, Text, ToolResult

_CHARACTERS_PER_TOKEN = 2
"""Characters of a message that was too long, for each token of room: less than most texts have."""


def summary_request(tokens: int, frames: Frames, encode: Encode, rest: Sequence[WindowEntry] = ()) -> WindowEntry:
    """Return the message that asks for a summary of about *tokens* tokens, after those that it is about.

    The *rest* of the window, which stays as it is, stands between them.
    """
    text = instruction(tokens, tail=sum(entry.border for entry in rest))
    return WindowEntry(0, Message("user", (Text(frames.context("note", text)),)), encode)


def summary_so_far(summary: str, frames: Frames, encode: Encode) -> WindowEntry:
    """Return the message that stands for the pieces before one, of which there is a *summary*."""
    return WindowEntry(0, Message("user", (Text(frames.context("summary", in_window(summary))),)), encode, summary=True)


def pieces(entries: Sequence[WindowEntry], room: int | None, calibration: Calibration) -> list[list[WindowEntry]]:
    """Return *entries* in pieces of at most *room* tokens (None: in one); results stay with their calls.

    A message that is longer than a piece is shortened to its beginning and its end. In one piece they are as they were
    sent before; in several they are `plain`.
    """
    if room is None or sum(calibration.tokens(entry.weight) for entry in entries) <= room:
        return [list(entries)]
    result: list[list[WindowEntry]] = []
    left = 0
    for group in _groups(plain(entries)):
        tokens = sum(calibration.tokens(entry.weight) for entry in group)
        if tokens > room:
            group = [_shortened(entry, room // len(group)) for entry in group]  # noqa: PLW2901 - the same, as it fits
            tokens = room
        if not result or tokens > left:
            result.append([])
            left = room
        result[-1] += group
        left -= tokens
    return result


def plain(entries: Sequence[WindowEntry]) -> list[WindowEntry]:
    """Return *entries* without reasoning and native items, which models refuse once what precedes them has changed."""
    result: list[WindowEntry] = []
    for entry in entries:
        parts = tuple(part for part in entry.message.parts if not isinstance(part, Reasoning))
        if parts:
            result.append(entry.changed(Message(entry.message.role, parts)))
    return result


def _groups(entries: Sequence[WindowEntry]) -> list[list[WindowEntry]]:
    """Return what stays together: an answer with the results of its calls, and paused answers with what goes on."""
    groups: list[list[WindowEntry]] = []
    for entry in entries:
        before = groups[-1][-1] if groups else None
        if before is not None and (entry.message.role == "tool" or before.paused):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


def _shortened(entry: WindowEntry, tokens: int) -> WindowEntry:
    """Return *entry* with each text cut to its share of so many *tokens*, without files."""
    most = max(1, tokens * _CHARACTERS_PER_TOKEN // max(1, len(entry.message.parts)))
    return entry.changed(Message(entry.message.role, tuple(_short(part, most) for part in entry.message.parts)))


def _short(part: Part, most: int) -> Part:
    match part:
        case Text(text):
            return Text(shortened(text, most))
        case ToolResult():
            texts = "\n".join(each.text for each in part.parts if isinstance(each, Text))
            return ToolResult(part.call, part.outcome, (Text(shortened(texts, most)),))
        case _:
            return part
