"""Erasing of a session or a person, and what is left of them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec
from sqlalchemy import Connection, LargeBinary, delete, func, literal, or_, select, update
from sqlalchemy.sql import ColumnElement

from agent_core.agent.state import DENIED
from agent_core.messages import MAX_NAME, legible
from agent_core.store import files, quotas, sessions
from agent_core.store import files as results
from agent_core.store.access import OPERATION, REVOCATION
from agent_core.store.approvals import APPROVAL
from agent_core.store.codes import TYPES
from agent_core.store.log import EVENT, RUN, SESSION, SessionKey, table_of
from agent_core.store.quotas import BLOB
from agent_core.store.tables import AuditRow, FeedbackRow, ReceiptRow

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


_AUDIT, _FEEDBACK, _RECEIPT = table_of(AuditRow), table_of(FeedbackRow), table_of(ReceiptRow)
_SAID = ("message.received", "message.corrected")
# Where a run names the messages that it answers: a run that opened with a steered one may end before its first step.
_INPUT_FIELDS = {"step.started": "takes", "run.queued": "inputs"}


class PersonSessions(msgspec.Struct, frozen=True):
    """The sessions that a person *opened*, and others that name them, by their ids."""

    opened: tuple[str, ...]
    named: tuple[str, ...]


class RedactedSession(msgspec.Struct, frozen=True):
    """What was changed in a session: *messages* of the person, *facts* in all, *approvals*."""

    messages: int = 0
    facts: int = 0
    approvals: int = 0


def find(connection: Connection, actor: str) -> PersonSessions:
    """Return the sessions that *actor* opened, and those that name them; scans every fact."""
    mine = connection.execute(select(SESSION.c.id).where(SESSION.c.actor == actor).order_by(SESSION.c.key))
    opened = tuple(mine.scalars())
    has = select(EVENT.c.session).where(_holds(connection, EVENT.c.data, actor)).distinct()
    others = select(SESSION.c.id).where(SESSION.c.key.in_(has), SESSION.c.actor != actor).order_by(SESSION.c.key)
    return PersonSessions(opened, tuple(connection.execute(others).scalars()))


def own_runs(connection: Connection, session: str, actor: str) -> list[str]:
    """Return the runs in progress of a session that answer *actor*."""
    ref = sessions.find(connection, session)
    open_runs = select(RUN.c.key, RUN.c.id).where(
        RUN.c.session == ref.key, RUN.c.parent.is_(None), RUN.c.last_seq.is_(None)
    )
    theirs = _traces_of(_facts(connection, ref.key), actor).runs
    return [row.id for row in connection.execute(open_runs) if row.key in theirs]


def redact(connection: Connection, session: str, who: ForgottenPerson) -> RedactedSession:
    """Take *who* out of a session that someone else opened; raises `NotFound`, `SessionBusy` while a run is open."""
    ref = sessions.hold(connection, session)
    sessions.refuse_busy(connection, ref, "redact")
    facts = _facts(connection, ref.key)
    traces = _traces_of(facts, who.id)
    runs = _with_children(connection, ref.key, traces.runs)
    quoted = [
        line for _, kind, _, body in facts if kind == "context.added" for line in quoted_of(body["text"], traces.names)
    ]
    replies = _replies_to(facts, runs)
    replied = [text for seq, _, _, body in facts if seq in replies and "parts" in body for text in texts_of(body)]
    texts = [*traces.texts, *quoted, *replied, *(line for text in replied for line in text.splitlines())]
    who = ForgottenPerson(who.id, who.pseudonym, traces.names, sought(texts, traces.names), bool(traces.seqs))
    changed, dropped = 0, set[str]()
    for seq, kind, run, body in facts:
        after = redacted(kind, body, who, theirs=run in runs or seq in replies, by_them=seq in traces.seqs)
        if after != body:
            where = (EVENT.c.session == ref.key) & (EVENT.c.seq == seq)
            connection.execute(update(EVENT).where(where).values(data=msgspec.json.encode(after)))
            changed += 1
        if run in runs and body.get("ref"):
            dropped.add(body["ref"])
    quotas.give_back_blobs(connection, ref.key, dropped)
    connection.execute(delete(BLOB).where(BLOB.c.session == ref.key, BLOB.c.id.in_(dropped)))
    files.remove(connection, ref.key, traces.files)
    results.remove_results(connection, ref.key, runs)
    scrub = partial(scrubbed, who=who)  # what is kept of others' runs may name the person
    quotas.rewrite_blobs(connection, ref.key, scrub)
    results.rewrite_results(connection, ref.key, scrub)
    connection.execute(delete(_RECEIPT).where(_RECEIPT.c.run.in_(runs), _RECEIPT.c.message.in_(traces.messages)))
    connection.execute(update(RUN).where(RUN.c.key.in_(runs)).values(options=None))
    _redact_session(connection, ref.key, who, traces.texts)
    approvals = _redact_approvals(connection, ref.session_key, runs, who)
    return RedactedSession(len(traces.messages), changed, approvals)


def forget(connection: Connection, who: ForgottenPerson, opened: Collection[str]) -> int:
    """Take *who* out of the records, and out of those of the sessions *opened*; return how many ratings were deleted.

    The records keep their lines: the person has a pseudonym in them, and what a call was about is left out.
    """
    _redact_audit(connection, who, _AUDIT.c.session.in_(list(opened)), lambda _: True)
    _redact_audit(connection, who, or_(*_named(connection, _AUDIT, who.id)), lambda _: False)
    for row in connection.execute(select(OPERATION).where(or_(*_named(connection, OPERATION, who.id)))).all():
        actor = scrubbed(msgspec.json.decode(row.actor), who)
        values = {"actor": msgspec.json.encode(actor), "object": scrubbed(row.object, who)}
        connection.execute(update(OPERATION).where(OPERATION.c.key == row.key).values(values))
    # The pseudonym was revoked before: that holds for all tokens of the person up to then.
    connection.execute(delete(REVOCATION).where(REVOCATION.c.kind == "actor", REVOCATION.c.subject == who.id))
    files.forget(connection, who.id)
    quotas.give_back_comments(connection, who.id)
    quotas.forget(connection, who.id)
    quotas.forget_actor(connection, who.id)
    return connection.execute(delete(_FEEDBACK).where(_FEEDBACK.c.actor == who.id)).rowcount


class _Traces(msgspec.Struct):
    """What a session has of a person: seqs of messages and corrections, runs that answer them, message ids."""

    seqs: set[int] = msgspec.field(default_factory=set[int])
    runs: set[int | None] = msgspec.field(default_factory=set[int | None])
    messages: set[str] = msgspec.field(default_factory=set[str])
    names: set[str] = msgspec.field(default_factory=set[str])
    texts: list[str] = msgspec.field(default_factory=list[str])
    files: set[str] = msgspec.field(default_factory=set[str])


_Row = tuple[int, str, int | None, dict[str, Any]]


def _facts(connection: Connection, session: int) -> list[_Row]:
    query = select(EVENT.c.seq, EVENT.c.type, EVENT.c.run, EVENT.c.data).where(EVENT.c.session == session)
    rows = connection.execute(query.order_by(EVENT.c.seq))
    return [(row.seq, TYPES[row.type], row.run, msgspec.json.decode(row.data)) for row in rows if row.type in TYPES]


def _traces_of(facts: list[_Row], actor: str) -> _Traces:
    traces = _Traces()
    for seq, kind, run, body in facts:
        if kind == "message.received" and is_of(body["actor"], actor):
            traces.seqs.add(seq)
            traces.runs.add(run)
            traces.messages.add(body["message"])
            traces.names |= {body["actor"]["name"]} if body["actor"].get("name") else set()
            traces.texts += [*texts_of(body), *(file["name"] for file in files_of(body))]
            traces.files |= {file["file"] for file in files_of(body)}
        elif kind == "approval.decided" and is_of(body.get("by"), actor):  # a denied call says who denied
            traces.names |= {body["by"]["name"]} if body["by"].get("name") else set()
        elif kind == "message.corrected" and body["message"] in traces.messages:
            traces.seqs.add(seq)
            traces.texts += texts_of(body)
        elif traces.seqs.intersection(body.get(_INPUT_FIELDS.get(kind, ""), ())):
            traces.runs.add(run)
    return traces


def _replies_to(facts: list[_Row], runs: Collection[int]) -> set[int]:
    """Return the seqs of what operators replied after one of *runs*, before another one's, and of the notes of it."""
    replies, newest = set[int](), None
    for seq, kind, run, body in facts:
        newest = newest if run is None else run
        if newest in runs and kind == "message.completed" and body.get("actor"):
            replies |= {seq, seq + 1}
    return replies


def _with_children(connection: Connection, session: int, runs: Collection[int | None]) -> set[int]:
    """Return the keys of *runs* and of their descendants."""
    query = select(RUN.c.key, RUN.c.parent).where(RUN.c.session == session).order_by(RUN.c.key)
    keys = {run for run in runs if run is not None}
    for row in connection.execute(query):
        if row.parent in keys:
            keys.add(row.key)
    return keys


def _redact_session(connection: Connection, session: int, who: ForgottenPerson, texts: Collection[str]) -> None:
    row = connection.execute(select(SESSION.c.about, SESSION.c.title).where(SESSION.c.key == session)).one()
    title = row.title
    if title is not None:
        title = DELETED if any(text.startswith(title) for text in texts) else scrubbed(title, who)
    values = {"about": scrubbed(row.about, who), "title": title, "redactions": SESSION.c.redactions + 1}
    connection.execute(update(SESSION).where(SESSION.c.key == session).values(values))


def _redact_approvals(connection: Connection, place: SessionKey, runs: Collection[int], who: ForgottenPerson) -> int:
    """Redact the approvals of a session, and return how many were of a person's runs."""
    names = ("request", "votes", "decided_by", "asked", "arguments")
    count = 0
    for row in connection.execute(select(APPROVAL).where(APPROVAL.c.session == place.key)).mappings().all():
        values: dict[str, Any] = {
            name: None if row[name] is None else scrubbed(msgspec.json.decode(row[name]), who) for name in names
        }
        reason = scrubbed(row["reason"], who)
        if row["run"] in runs:
            values["request"] = redacted("approval.requested", values["request"], who, theirs=True, by_them=False)
            values |= {"asked": {}, "arguments": {}}
            reason, count = None if reason is None else DELETED, count + 1
        stored = {name: None if value is None else msgspec.json.encode(value) for name, value in values.items()}
        connection.execute(update(APPROVAL).where(APPROVAL.c.key == row["key"]).values(**stored, reason=reason))
    ids = set(connection.execute(select(RUN.c.id).where(RUN.c.key.in_(runs))).scalars())
    _redact_audit(connection, who, _AUDIT.c.session == place.id, lambda run: run in ids)
    return count


def _redact_audit(
    connection: Connection, who: ForgottenPerson, where: ColumnElement[bool], is_theirs: Callable[[str], bool]
) -> None:
    """Redact lines of the record of approvals: who and where, and what the calls of runs were about that are theirs."""
    for row in connection.execute(select(_AUDIT).where(where)).all():
        data = None if row.data is None else scrubbed(msgspec.json.decode(row.data), who)
        if data is not None and is_theirs(row.run):
            data |= {name: {} for name in ("arguments", "asked") if name in data}
            data |= {"reason": DELETED} if data.get("reason") else {}
        values = {
            "actor": None if row.actor is None else msgspec.json.encode(scrubbed(msgspec.json.decode(row.actor), who)),
            "place": scrubbed(row.place, who),
            "data": None if data is None else msgspec.json.encode(data),
        }
        connection.execute(update(_AUDIT).where(_AUDIT.c.key == row.key).values(values))


def _named(connection: Connection, table: Any, id: str) -> list[ColumnElement[bool]]:
    """Return the conditions for the rows of a record that name *id*."""
    wheres = [_holds(connection, table.c.actor, id)]
    if "object" in table.c:
        wheres.append(table.c.object == id)
    if "place" in table.c:
        wheres += [table.c.place == id, table.c.place.startswith(f"{id}:", autoescape=True)]
        wheres.append(_holds(connection, table.c.data, id))
    return wheres


def _holds(connection: Connection, column: Any, id: str) -> ColumnElement[bool]:
    """Return the condition that the JSON in a *column* of bytes names *id*: as a text, or in one if it is distinct."""
    texts = (
        [msgspec.json.encode(id)[1:-1]] if is_distinct(id) else [msgspec.json.encode(x) for x in (id, f"actor:{id}")]
    )
    needles = [literal(text, LargeBinary) for text in texts]
    if connection.dialect.name == "postgresql":
        return or_(*(func.position(needle.op("IN")(column)) > 0 for needle in needles))
    return or_(*(func.instr(column, needle) > 0 for needle in needles))
