"""The texts of cards and ephemeral notices: who may decide, who did, and every argument exactly; pure.

A sentence is a list of the inline elements of rich text, which holds no markup. `mrkdwn` writes the same as text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from agent_core import Actor, ApprovalObject
from channels.legible import doubt, unmistakable
from channels.slack.outbound.text import escape, neutral

Json = dict[str, Any]
Sentence = list[Json]

INLINE = 160
"""Characters of a value on the line of its name; a longer one has a box of its own."""
_DATE = "{date_short_pretty} at {time}"
_ROLES = {"operators": "operators", "anyone": "anyone here", "not_asker": "not the person who asked"}


@dataclass(frozen=True, slots=True)
class Value:
    """One argument: its *name*, and its *text* in a *box* of its own or after the name, as it is or as *code*.

    *doubt* is why it may pass for another one.
    """

    name: str
    text: str
    box: bool = False
    code: bool = False
    doubt: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" + (f" ({self.doubt})" if self.doubt else "")

    @property
    def style(self) -> dict[str, bool]:
        return {"code": True} if self.code else {}


def text(words: str, **style: bool) -> Json:
    """Return literal words, with a style such as `bold`."""
    return {"type": "text", "text": words, **({"style": style} if style else {})}


def date(at: int) -> Json:
    """Return a time in milliseconds, which is shown in each reader's own zone."""
    seconds = at // 1000
    fallback = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"type": "date", "timestamp": seconds, "format": _DATE, "fallback": fallback}


def person(actor: Actor, team: str) -> Json:
    """Return a person: one of the workspace *team* by account, because names can be taken."""
    kind, _, rest = actor.id.partition(":")
    own_team, _, user = rest.partition(":")
    if kind == "slack" and own_team == team and user:
        return {"type": "user", "user_id": user}
    return name(actor)


def name(actor: Actor) -> Json:
    """Return a person's name; it is no mention, so it notifies no one."""
    return text(unmistakable(actor.name or actor.id), bold=True)


def responders(approval: ApprovalObject, team: str) -> Sentence:
    """Return the responders by name."""
    named = [_responder(each, approval, team) for each in approval.responders if each != "not_asker"]
    if "not_asker" in approval.responders:
        named = [*(named or [[text("anyone here")]]), [text("but not the person who asked")]]
    return joined(named, ", ")


def _responder(named: str, approval: ApprovalObject, team: str) -> Sentence:
    kind, _, rest = named.partition(":")
    match kind:
        case "asker" if approval.asker is not None:
            return [name(approval.asker)]
        case "asker":
            return [text("the person who asked")]
        case "actor":
            return [person(Actor(rest, "user"), team)]
        case "slack" if rest.startswith("S"):
            return [{"type": "usergroup", "usergroup_id": rest}]
        case "slack":
            return [{"type": "user", "user_id": rest}]
        case _:
            return [text(_ROLES.get(named, named))]


def outcome(approval: ApprovalObject, team: str) -> Sentence:
    """Return the outcome of an approval that is no longer open: what, by whom, when."""
    by = [text(" by "), person(approval.decided_by, team)] if approval.decided_by else []
    at = [text(", "), date(approval.decided_at)] if approval.decided_at is not None else []
    is_form = approval.form is not None
    match approval.status:
        case "approved":
            sentence = [text("Answered" if is_form else "Approved", bold=True), *by, *at]
            if approval.is_edited:
                sentence.append(text(", with other arguments than were asked for"))
            if approval.remember and approval.votes and all(vote.remember for vote in approval.votes if vote.approved):
                sentence.append(text(", and for the rest of this conversation"))
            return [*sentence, text(".")]
        case "denied":
            return [text("Declined" if is_form else "Denied", bold=True), *by, *at, text(".")]
        case "expired":
            then = "so the call was denied" if approval.on_timeout == "deny" else "so the answer was given up"
            words, then = ("Not answered", "so it was declined") if is_form else ("Not decided", then)
            return [text(f"{words} in time", bold=True), *at, text(f": {then}.")]
        case _:
            return [text("Not asked any more", bold=True), *at, text(": the answer was stopped"), *by, text(".")]


def votes(approval: ApprovalObject, team: str) -> Sentence:
    """Return who said yes so far, where one yes is not enough."""
    yes = [[person(vote.actor, team)] for vote in approval.votes if vote.approved]
    if approval.quorum == 1:
        return []
    count = [text(f"{len(yes)} of {approval.quorum}", bold=True), text(" who must say yes")]
    return [*count, text(": "), *joined(yes, ", "), text(".")] if yes else [*count, text(" have.")]


def mrkdwn(sentence: Iterable[Json]) -> str:
    """Return *sentence* as mrkdwn; only its own mentions and times take effect, everything else is escaped."""
    return "".join(map(_marked, sentence))


def _marked(element: Json) -> str:
    match element["type"]:
        case "user":
            return f"<@{element['user_id']}>"
        case "usergroup":
            return f"<!subteam^{element['usergroup_id']}>"
        case "channel":
            return f"<#{element['channel_id']}>"
        case "link":
            return f"<{element['url']}|{escape(element['text'])}>"
        case "date":
            return f"<!date^{element['timestamp']}^{element['format']}|{element['fallback']}>"
        case _:
            return escape(neutral(element["text"]))


def values(arguments: Mapping[str, Any]) -> Iterator[Value]:
    """Yield every argument in full: texts as they are, everything else as JSON, long values in a box."""
    for name, value in arguments.items():
        label, why = _label(name), doubt(name) or doubt(value if isinstance(value, str) else str(value))
        if len(label) > INLINE:
            yield Value("an argument of the name", label, box=True)
            label = "its value"
        yield replace(_value(label, value), doubt=why)


def _label(name: str) -> str:
    return unmistakable(name) if name and name == name.strip() else _json(name)


def _value(label: str, value: Any) -> Value:
    if isinstance(value, str):
        return _text_value(label, value)
    if len(line := _json(value)) <= INLINE:
        return Value(label, line, code=True)
    return Value(label, unmistakable(json.dumps(value, ensure_ascii=False, indent=2)), box=True)


def _text_value(label: str, value: str) -> Value:
    if "\n" in value or len(value) > INLINE:
        return Value(label, unmistakable(value), box=True)
    if value and value == value.strip():
        return Value(label, unmistakable(value))
    return Value(label, _json(value), code=True)  # so that its spaces are seen


def _json(value: Any) -> str:
    return unmistakable(json.dumps(value, ensure_ascii=False))


def joined(sentences: Iterable[Sentence], gap: str) -> Sentence:
    """Return *sentences* as one, with *gap* between them."""
    result: Sentence = []
    for sentence in sentences:
        result += [text(gap), *sentence] if result else sentence
    return result
