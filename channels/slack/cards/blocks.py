"""Cards: a question to people as messages of Slack, its arguments whole, its buttons below all of them; pure."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agent_core import ApprovalObject, shorten
from channels.legible import unmistakable
from channels.slack.cards import words as w
from channels.slack.cards.forms import ALWAYS, APPROVE, CHOICES, DENY, EDIT, buttons_of, fields, said
from channels.slack.cards.words import Json, Sentence, Value, text
from channels.slack.web_api import limits

ROOM = limits.RICH_TEXT.value - 2_000
"""Characters of arguments in one message; the rest is for the words around them."""
BOX = limits.SECTION_TEXT.value - 100
"""Characters of one box: no page says how many it may have, so as many as any text."""
ROWS = 100
"""Rows of arguments in one message."""
TEXT = limits.TEXT.value // 4
"""Characters of arguments in a notification."""
WORDS = 500
"""Characters of what the agent was asked."""
_GONE = "This question is not there any more."
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class CardContext:
    """What a card says besides its question: *agent* is who asks, *origin* the channel of the conversation.

    *team* is the workspace that the card is shown in; one that is *careful* asks once more before a yes. *words* are
    what the agent was asked, *link* is the address of the conversation if that is elsewhere.
    """

    team: str
    agent: str
    origin: str | None = None
    careful: bool = True
    words: str = ""
    link: str | None = None


@dataclass(frozen=True, slots=True)
class CardMessage:
    """One message of a card; *text* is what notifications say of it."""

    blocks: tuple[Json, ...]
    text: str

    @property
    def digest(self) -> str:
        """Name what it shows."""
        return hashlib.sha256(json.dumps([self.blocks, self.text]).encode()).hexdigest()[:16]

    @property
    def plain(self) -> "CardMessage":
        """The same words without form, for a Slack that refuses the blocks, and the buttons."""
        words = "\n".join(_words(block) for block in self.blocks if block["type"] != "actions")
        sections = [{"type": "section", "text": _plain_text(piece)} for piece in _pieces(words)]
        return CardMessage((*sections, *(block for block in self.blocks if block["type"] == "actions")), self.text)


def pages(approval: ApprovalObject | None, about: CardContext, *, least: int = 1) -> list[CardMessage]:
    """Return the messages of a card, *least* or more: who asks what, every argument, and below the last the buttons.

    Once it is decided the first and the last say what became of it. None is a question that is not there any more.
    """
    if approval is None:
        return [CardMessage((_rich([text(_GONE)]),), _GONE)] * least
    bodies = list(_packed(_rows(approval)))
    notification, last = _notification_text(approval, about), len(bodies) - 1
    messages: list[CardMessage] = []
    for n, body in enumerate(bodies):
        head = _head(approval, about, alone=last == 0) if n == 0 else []
        tail = _tail(approval, about) if n == last else []
        fallback = notification if n == 0 else f"{notification.splitlines()[0]} ({n + 1} of {last + 1})"
        messages.append(CardMessage((*head, {"type": "rich_text", "elements": body}, *tail), fallback))
    return [*messages, *[CardMessage(tuple(_tail(approval, about)), notification)] * (least - len(messages))]


def _head(approval: ApprovalObject, about: CardContext, *, alone: bool) -> list[Json]:
    title = unmistakable(" ".join(approval.title.split()))[: limits.HEADER_TEXT.value]
    blocks: list[Json] = [{"type": "header", "text": _plain_text(title)}]
    if approval.status != "open" and not alone:
        blocks.append(_outcome(approval, about))
    is_form = approval.form is not None
    whom = [text(" " if is_form else " for "), w.name(approval.asker)] if approval.asker else []
    where = [text(" in "), {"type": "channel", "channel_id": about.origin}] if about.origin else []
    who = [text(about.agent, bold=True), text(" asks"), *whom, *where]
    tool, end = text(unmistakable(approval.tool), code=True), text(" needs." if is_form else ".")
    blocks.append(_rich([*who, text(" what " if is_form else " to use "), tool, end]))
    if about.words and approval.status == "open":  # what is decided keeps no copy of what its author may delete
        blocks[-1]["elements"].append({"type": "rich_text_quote", "elements": [text(_quoted(about.words))]})
    if about.link:
        blocks.append(_rich([{"type": "link", "url": about.link, "text": "Open the conversation"}]))
    if approval.detail:
        blocks.append(_rich([text(unmistakable(approval.detail))]))
    if not alone:
        continues_below = "Its arguments continue in the messages below; the buttons are below the last one."
        blocks.append({"type": "context", "elements": [_plain_text(continues_below)]})
    return blocks


def _quoted(words: str) -> str:
    return shorten(unmistakable(words.strip()), WORDS)


def _tail(approval: ApprovalObject, about: CardContext) -> list[Json]:
    if approval.status != "open":
        return [_outcome(approval, about)]
    does = "To decide" if approval.form is None else "To answer"
    may: Sentence = [text(f"{does}: "), *w.responders(approval, about.team), text(". Open until ")]
    counted = w.votes(approval, about.team)
    words = [*may, w.date(approval.expires_at), text("."), *([text("\n"), *counted] if counted else [])]
    return [_rich(words), {"type": "actions", "elements": list(_buttons(approval, about))}]


def _outcome(approval: ApprovalObject, about: CardContext) -> Json:
    block = _rich(w.outcome(approval, about.team))
    if approval.reason:
        block["elements"].append({"type": "rich_text_quote", "elements": [text(unmistakable(approval.reason))]})
    return block


def _buttons(approval: ApprovalObject, about: CardContext) -> Iterator[Json]:
    if approval.form is not None:
        for action, (_, label) in zip(CHOICES, answers := buttons_of(approval), strict=False):
            yield _button(approval, action, label, None, None)
        if not answers:
            yield _button(approval, EDIT, "Answer…", "primary", None)
        yield _button(approval, DENY, "Decline…", "danger", None)
        return
    tool = unmistakable(approval.tool)
    sure = (
        f"{tool} runs at once, with what the card says." if approval.quorum == 1 else f"It counts as one yes to {tool}."
    )
    yield _button(approval, APPROVE, "Approve", "primary", (f"Run {tool}?", sure) if about.careful else None)
    if approval.remember:
        permanent = f"{tool} runs now, and no further call of it in this conversation needs an approval."
        yield _button(approval, ALWAYS, "Approve for this conversation", None, (f"Always run {tool} here?", permanent))
    if approval.edit:
        yield _button(approval, EDIT, "Edit…", None, None)
    yield _button(approval, DENY, "Deny…", "danger", None)


def _button(approval: ApprovalObject, action: str, label: str, style: str | None, sure: tuple[str, str] | None) -> Json:
    made: Json = {"type": "button", "action_id": action, "value": approval.id, "text": _plain_text(label)}
    if style is not None:
        made["style"] = style
    if sure is not None:
        title, words = sure
        made["confirm"] = {
            "title": _plain_text(title[: limits.CONFIRM_TITLE.value]),
            "text": _plain_text(words[: limits.CONFIRM_TEXT.value]),
            "confirm": _plain_text("Approve"),
            "deny": _plain_text("Back"),
        }
    return made


def _notification_text(approval: ApprovalObject, about: CardContext) -> str:
    """Return what notifications say: the question, its outcome, and as much of the arguments as there is room for."""
    lines = [w.mrkdwn([text(unmistakable(" ".join(approval.title.split())))])]
    if approval.status != "open":
        lines.append(w.mrkdwn(w.outcome(approval, about.team)))
    arguments = "\n".join(map(str, w.values(approval.arguments if approval.form is None else said(approval))))
    more = "… (the card has all of it)" if len(arguments) > TEXT else ""
    return "\n".join([*lines, w.mrkdwn([text(arguments[:TEXT])]) + more]).strip()


# ---- arguments ------------------------------------------------------------------------------------


def _rows(approval: ApprovalObject) -> Iterator[Json]:
    """Give the arguments that run, and below them those that were asked for in the place of corrected ones.

    Of a form they are its fields until it is answered, and the answer then.
    """
    if approval.form is not None:
        rows = list(_fields(approval) if approval.status != "approved" else _values(said(approval)))
        yield from rows or [_section([text("There is nothing to fill in.")])]
        return
    if not approval.arguments:
        yield _section([text("It is called with nothing.")])
    yield from _values(approval.arguments)
    before = {name: value for name, value in approval.asked.items() if approval.arguments.get(name, _NOTHING) != value}
    if before:
        yield _section([text("Asked for was:", italic=True)])
        yield from _values(before)
    if added := [unmistakable(name) for name in approval.arguments if name not in approval.asked]:
        names = ", ".join(added)
        yield _section([text(f"Not asked for: {names if len(names) <= w.INLINE else len(added)}", italic=True)])


def _fields(approval: ApprovalObject) -> Iterator[Json]:
    given = said(approval) if not buttons_of(approval) else {}
    for each in fields(approval, approval.form or {}):
        free = [] if each.required else [text(" (optional)")]
        more = [each.hint] if each.hint else []
        more += [f"at first {given[each.label]}"] if each.label in given else []
        yield _section([text(each.label, bold=True), *free, *([text(f": {'; '.join(more)}")] if more else [])])


def _values(arguments: dict[str, Any]) -> Iterator[Json]:
    for value in w.values(arguments):
        if value.box:
            yield from _boxes(value)
        else:
            yield _section([text(f"{value.name}: ", bold=True), text(value.text, **value.style)])
        if value.doubt:
            yield _section([text(f"Look closely: {value.name} {value.doubt}.", italic=True)])


def _boxes(value: Value) -> Iterator[Json]:
    pieces = list(_pieces(value.text))
    for n, piece in enumerate(pieces, 1):
        part = f", part {n} of {len(pieces)}" if len(pieces) > 1 else ""
        yield _section([text(value.name, bold=True), text(f" ({len(value.text):,} characters{part}):")])
        yield {"type": "rich_text_preformatted", "elements": [text(piece)]}


def _pieces(words: str) -> Iterator[str]:
    """Cut *words* where a line ends, else anywhere; the pieces together are all of it."""
    rest = words
    while len(rest) > BOX:
        at = rest.rfind("\n", BOX // 2, BOX) + 1 or BOX
        yield rest[:at]
        rest = rest[at:]
    yield rest


def _packed(rows: Iterable[Json]) -> Iterator[list[Json]]:
    """Put as many rows into one message as it holds; lines that follow one another are one section."""
    taken: list[Json] = []
    size = count = 0
    for row in rows:
        length = len(_words(row))
        if taken and (size + length > ROOM or count >= ROWS):
            yield taken
            taken, size, count = [], 0, 0
        if taken and taken[-1]["type"] == row["type"] == "rich_text_section":
            taken[-1] = _section([*taken[-1]["elements"], text("\n"), *row["elements"]])
        else:
            taken.append(row)
        size, count = size + length + 1, count + 1
    yield taken


def _words(part: Json) -> str:
    """Return the words of a part of a block."""
    if part["type"] == "link":
        return f"{part['text']}: {part['url']}"
    if "elements" in part:
        return ("\n" if part["type"] == "rich_text" else "").join(map(_words, part["elements"]))
    words = part.get("text") or part.get("fallback") or w.mrkdwn([part])
    return words if isinstance(words, str) else _words(words)


def _section(sentence: Sentence) -> Json:
    return {"type": "rich_text_section", "elements": sentence}


def _rich(sentence: Sentence) -> Json:
    return {"type": "rich_text", "elements": [_section(sentence)]}


def _plain_text(words: str) -> Json:
    return {"type": "plain_text", "text": words, "emoji": False}
