"""Redaction: what is left of a session's facts once one person is forgotten. Pure.

Facts keep their seq, their type and their required fields, so that every reader works on: texts become `[deleted]`,
arguments and results empty, the person a pseudonym without a name.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, cast

from agent_core.loop.waiting import DENIED
from agent_core.messages import MAX_NAME, legible

Json = dict[str, Any]
DELETED = "[deleted]"
ENOUGH = 12
"""Characters from which on a text of the person is looked for in what others and the model wrote."""
_DELETED_PARTS = [{"type": "text", "text": DELETED}]
_GOES_ON = "|   "
_ACTOR = "actor:"
# What is emptied in the facts of a run that answered the person, and what with; null stands for itself.
_OF_RUN: dict[str, Json] = {
    "tool.requested": {"arguments": {}, "raw": DELETED},
    "tool.pending": {"arguments": {}},
    "tool.completed": {"parts": _DELETED_PARTS},
    "context.added": {"text": DELETED},
    "approval.requested": {"arguments": {}, "title": DELETED, "detail": DELETED},
    "approval.voted": {"arguments": {}},
    "approval.decided": {"arguments": {}, "reason": DELETED},
    "hook.ruled": {"arguments": {}, "reason": DELETED, "error": DELETED},
    "run.completed": {"structured": None},
    "run.failed": {"detail": DELETED},
    "run.cancelling": {"reason": DELETED},
    "run.cancelled": {"reason": DELETED},
    "step.failed": {"message": DELETED},
    "controls.changed": {"next": None, "defaults": None},
    "render.shown": {"title": DELETED, "text": DELETED},
}
# What says in other words what people wrote, maybe in another's run: no search for their texts would find that.
_RETOLD = {"context.compacted": "summary", "compaction.failed": "message"}
# What is left out there.
_DROPPED: dict[str, tuple[str, ...]] = {"tool.completed": ("ref",), "step.started": ("controls",)}


@dataclass(frozen=True, slots=True)
class ForgottenPerson:
    """Who is forgotten: by the *id*, called *pseudonym* from now on.

    Their *names*, and *texts* to be looked for, are those of one session, in which they *wrote* or not.
    """

    id: str
    pseudonym: str
    names: Collection[str] = ()
    texts: Collection[str] = ()
    wrote: bool = False


def is_of(actor: Any, id: str) -> bool:
    """Return whether *actor*, as JSON, is the person *id*."""
    return isinstance(actor, dict) and cast("Json", actor).get("id") == id


def texts_of(body: Json) -> list[str]:
    """Return the texts in the parts of a message's *body*."""
    return [part["text"] for part in body["parts"] if part.get("type") == "text" and part["text"].strip()]


def files_of(body: Json) -> list[Json]:
    """Return the files in the parts of a message's *body*."""
    return [part for part in body["parts"] if part.get("type") == "file"]


def redacted(kind: str, body: Json, who: ForgottenPerson, *, theirs: bool = False, by_them: bool = False) -> Json:
    """Return the *body* of a fact of *kind* without the person.

    *theirs*: it is of a run that answered them; *by_them*: it is their message, or a correction of one. Where they
    wrote something the model's reasoning is left out everywhere: providers refuse it once what precedes it has changed.
    """
    if by_them:
        body = {**body, "parts": _DELETED_PARTS if body["parts"] else []}
    if kind == "message.completed" and (theirs or who.wrote):
        body = _message(body, theirs=theirs)
    elif (name := _RETOLD.get(kind)) and body.get(name) and (theirs or who.wrote):
        body = {**body, name: DELETED}
    elif theirs and kind == "render.shown":
        body = {**body, "payload": _empty(body["kind"])}
    if theirs:
        fields = {name: value for name, value in body.items() if name not in _DROPPED.get(kind, ())}
        changes = _OF_RUN.get(kind, {})
        body = fields | {name: value for name, value in changes.items() if fields.get(name) is not None}
    elif kind == "context.added":
        body = {**body, "text": _without_author(body["text"], who.names)}
    elif kind == "tool.completed" and body["outcome"] == "denied":
        body = {**body, "parts": [_without_denier(part, who.names) for part in body["parts"]]}
    left = scrubbed(body, who)
    return _realigned(left) if kind == "message.completed" and texts_of(left) != texts_of(body) else left


def scrubbed(value: Any, who: ForgottenPerson) -> Any:
    """Return JSON without the person's id, name as an actor, and texts, wherever they are in it."""
    match value:
        case str():
            return _plain(value, who)
        case dict():
            fields = cast("Json", value)
            if is_of(fields, who.id):
                fields = {name: each for name, each in fields.items() if name != "name"}
            return {_plain(name, who): scrubbed(each, who) for name, each in fields.items()}
        case list():
            items = cast("list[Any]", value)
            return [scrubbed(each, who) for each in items]
        case _:
            return value


def sought(texts: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return what is looked for in what others wrote: *texts* that are long enough, and full *names*; longest first.

    A name of one word may be a word of the language, and another person's: it is left where it is not an author's.
    """
    long = {text.strip() for text in texts if len(text.strip()) >= ENOUGH}
    return sorted(long | {name.strip() for name in names if " " in name.strip()}, key=len, reverse=True)


def quoted_of(text: str, names: Collection[str]) -> list[str]:
    """Return the lines that *names* wrote in a quotation of others, see `context.quoted`."""
    starts, quotes, is_theirs = _starts(names), list[str](), False
    for line in text.split("\n"):
        begins = bool(starts) and line.startswith(starts)
        is_theirs = begins or (is_theirs and line.startswith(_GOES_ON))
        if is_theirs:
            quotes.append(line.partition(": ")[2] if begins else line.removeprefix(_GOES_ON))
    return quotes


def is_distinct(id: str) -> bool:
    """Return whether *id* cannot be a part of words, so that it may be looked for inside of texts."""
    return len(id) >= ENOUGH or ":" in id


def _plain(text: str, who: ForgottenPerson) -> str:
    if text in (who.id, f"{_ACTOR}{who.id}") or (is_distinct(who.id) and who.id in text):
        text = text.replace(who.id, who.pseudonym)
    for each in who.texts:
        if each in text:
            text = text.replace(each, DELETED)
    return text


def _message(body: Json, *, theirs: bool) -> Json:
    """Return a completed message without reasoning, and without content when it is *theirs*."""
    parts = [part for part in body["parts"] if part["type"] != "reasoning"]
    if theirs:
        parts = [left for part in parts if (left := _part(part)) is not None]
    return {**{name: value for name, value in body.items() if name != "native"}, "parts": parts}


def _realigned(body: Json) -> Json:
    """Return a message whose text has changed without what names stretches of it: native items, places of sources."""
    return {
        **{name: value for name, value in body.items() if name != "native"},
        "parts": [_without_places(part) if "citations" in part else part for part in body["parts"]],
    }


def _without_places(part: Json) -> Json:
    cited = [
        {name: value for name, value in each.items() if name not in ("start", "end")} for each in part["citations"]
    ]
    return {**part, "citations": cited}


def _part(part: Json) -> Json | None:
    match part["type"]:
        case "text":
            return {"type": "text", "text": DELETED}
        case "tool_call":
            return {**part, "arguments": {}}
        case "tool_result":
            return {**part, "parts": _DELETED_PARTS}
        case _:
            return None


def _empty(kind: str) -> Json:
    """Return the payload of a render of *kind* that shows nothing."""
    return {"columns": [], "rows": []} if kind == "table" else {}


def _without_author(text: str, names: Collection[str]) -> str:
    """Return a quotation of others without what *names* wrote: the lines after their names, see `context.quoted`."""
    starts = _starts(names)
    lines, skips = list[str](), False
    for line in text.split("\n"):
        if starts and line.startswith(starts):
            lines, skips = [*lines, f"| someone: {DELETED}"], True
        elif not (skips and line.startswith(_GOES_ON)):
            lines, skips = [*lines, line], False
    return "\n".join(lines)


def _without_denier(part: Json, names: Collection[str]) -> Json:
    """Return the text of a denied call without who denied it, where that is one of *names*."""
    for name in map(legible, names) if part["type"] == "text" else ():
        if part["text"].startswith(DENIED.format(name)):
            return {**part, "text": DENIED.format("a person") + part["text"].removeprefix(DENIED.format(name))}
    return part


def _starts(names: Collection[str]) -> tuple[str, ...]:
    return tuple(f"| {' '.join(name.split())[:MAX_NAME]}: " for name in names if name.strip())
