"""Conversations of one person: the recent ones, and a branch of one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, case, exists, func, insert, select, update

from agent_core import events as e
from agent_core.errors import InvalidInput, NotRepeatable, SessionClosed
from agent_core.events import Fact
from agent_core.ids import new_id
from agent_core.messages import Actor
from agent_core.objects import ConversationObject, SessionObject
from agent_core.quotas import Origin
from agent_core.store import files, log, quotas, sessions
from agent_core.store.catalog import AGENT
from agent_core.store.codes import CODES
from agent_core.store.intake import title_of
from agent_core.store.log import EVENT, RUN, SESSION, table_of
from agent_core.store.sessions import SessionRef
from agent_core.store.tables import ApprovalRow, BranchRow


def described(connection: Connection, sessions: Sequence[SessionObject]) -> tuple[ConversationObject, ...]:
    """Return *sessions* as their person's list has them."""
    of_session = EVENT.c.session == SESSION.c.key
    answers = select(EVENT.c.seq).where(of_session, EVENT.c.type == CODES[e.MessageCompleted.type])
    newest = answers.order_by(EVENT.c.seq.desc()).limit(1).correlate(SESSION).scalar_subquery()
    query = select(SESSION.c.id, newest.label("newest")).where(SESSION.c.id.in_([each.id for each in sessions]))
    seqs = {row.id: row.newest or 0 for row in connection.execute(query)}
    return tuple(_described(each, seqs[each.id]) for each in sessions if each.id in seqs)


def _described(session: SessionObject, newest: int) -> ConversationObject:
    return ConversationObject(
        id=session.id,
        title=" ".join((session.title or "").split()) or None,
        status=session.status,
        created_at=session.created_at,
        last_activity_at=session.last_activity_at,
        newest_seq=newest,
    )


_MESSAGES = (CODES["message.received"], CODES["message.completed"])


def start_of(connection: Connection, session: str, *, last: int, before: int = log.MAX_SEQ) -> int:
    """Return the seq after which the *last* newest of the messages before seq *before* follow, 0 for the whole log.

    There may be more of them, as no root run is open there, nor one that later takes a message from before it.
    Raises `NotFound`.
    """
    key = sessions.find(connection, session).key
    messages = select(EVENT.c.seq).where(EVENT.c.session == key, EVENT.c.type.in_(_MESSAGES))
    newest = messages.where(EVENT.c.seq < before).order_by(EVENT.c.seq.desc()).offset(last - 1).limit(1)
    first = connection.execute(newest).scalar()
    if first is None:
        return 0
    spans = (RUN.c.session == key) & RUN.c.parent.is_(None)
    while True:
        is_open = (RUN.c.input_seq < first) & (RUN.c.last_seq.is_(None) | (RUN.c.last_seq >= first))
        begun = connection.execute(select(func.min(RUN.c.input_seq)).where(spans, is_open)).scalar()
        if begun is None:
            break
        first = begun
    has_more = connection.execute(messages.where(EVENT.c.seq < first).limit(1)).first()
    return first - 1 if has_more else 0


def recent_page(connection: Connection, session: str, *, last: int, before: int) -> tuple[int, list[Fact]]:
    """Return where the page of the *last* newest messages before seq *before* begins, as `start_of`, and its facts."""
    after = start_of(connection, session, last=last, before=before)
    return after, log.facts_between(connection, sessions.find(connection, session).session_key, after, before)


BRANCH: Table = table_of(BranchRow)
APPROVAL: Table = table_of(ApprovalRow)
_REPLIED = CODES[e.MessageCompleted.type]
_WITH_RUN = EVENT.outerjoin(RUN, RUN.c.key == EVENT.c.run)
_BEGINS = case((RUN.c.first_seq < EVENT.c.seq, RUN.c.first_seq), else_=EVENT.c.seq)
"""Where a message begins that opened its run: at the first of the notes, of the clock and others, that came with it."""


def branch(connection: Connection, source: SessionRef, message: str, *, by: Actor, origin: Origin, now: int) -> str:
    """Let a locked session go on as a copy that ends before *message*, and return the id of the copy.

    The message is the newest that people said, by *by*, and no run is at work. The session is closed. The same again
    returns the same copy, as long as nothing was said there. Raises `InvalidInput`, `SessionBusy`, `SessionClosed`,
    `NotRepeatable`, and `RateLimited`: the copy counts as a session that is opened and for what it stores, and the
    message that follows has to be allowed.
    """
    received = _newest(connection, source, message, by)
    at = received.begins - 1
    if (made := _made(connection, source, at)) is not None:
        return made
    if source.closed:
        raise SessionClosed("This conversation is closed; nothing in it can be said again.")
    sessions.refuse_busy(connection, source, "say something again in")
    _refuse_others(connection, source, at)
    agent = connection.execute(select(AGENT.c.id).where(AGENT.c.key == source.agent)).scalar_one()
    stored = quotas.size_of_copy(connection, source.key, at) + files.size_of_copy(connection, source.key, at, agent)
    charged = quotas.open_copy(connection, source.agent, source.bounds.quotas, by, origin, stored, now=now)
    copy = sessions.fork(connection, source, at=at, actor=None)
    target = sessions.find(connection, copy)
    if charged is not None:
        quotas.charge(connection, target.key, charged)
        files.charge(connection, target.key, agent, charged)
    connection.execute(insert(BRANCH).values(source=source.key, target=target.key))
    _copy_remembered(connection, source.key, target.key)
    _untitle(connection, target.key, received.title)
    sessions.close(connection, source)
    return copy


def gone_on() -> ColumnElement[bool]:
    """Return the condition for rows of `BRANCH` in whose copy something was said; the source counts until then.

    The message that was to be said again is the newest of the source, which is closed.
    """
    received = EVENT.c.type == CODES[e.MessageReceived.type]
    newest = (
        select(_BEGINS).select_from(_WITH_RUN).where(EVENT.c.session == BRANCH.c.source, received).correlate(BRANCH)
    )
    begun = newest.order_by(EVENT.c.seq.desc()).limit(1).scalar_subquery()
    later = EVENT.alias("said")
    later = (
        (later.c.session == BRANCH.c.target) & (later.c.seq >= begun) & (later.c.type == CODES[e.MessageReceived.type])
    )
    return exists().where(later).correlate(BRANCH)


def findable() -> ColumnElement[bool]:
    """Return the condition for sessions that people find: of a source and its copy the one that goes on."""
    replaced = exists().where(BRANCH.c.source == SESSION.c.key, gone_on()).correlate(SESSION)
    is_empty = exists().where(BRANCH.c.target == SESSION.c.key, ~gone_on()).correlate(SESSION)
    return ~replaced & ~is_empty


def related(connection: Connection, session: str) -> list[str]:
    """Return the ids of what is deleted with *session*: those before it, and a copy in which nothing was said."""
    names, key = before(connection, session), sessions.find(connection, session).key
    query = select(SESSION.c.key, SESSION.c.id).join(BRANCH, BRANCH.c.target == SESSION.c.key).where(~gone_on())
    while (row := connection.execute(query.where(BRANCH.c.source == key)).first()) is not None:
        names.append(row.id)
        key = row.key
    return names


def before(connection: Connection, session: str) -> list[str]:
    """Return the ids of the sessions that go on as *session*, directly or by others, the oldest first."""
    names, key = list[str](), sessions.find(connection, session).key
    query = select(SESSION.c.key, SESSION.c.id).join(BRANCH, BRANCH.c.source == SESSION.c.key)
    while (row := connection.execute(query.where(BRANCH.c.target == key)).first()) is not None:
        names.append(row.id)
        key = row.key
    return names[::-1]


class _Received(NamedTuple):
    """Where a message came in, the notes that came with it included, and what it would title a session."""

    begins: int
    title: str


def _newest(connection: Connection, source: SessionRef, message: str, by: Actor) -> _Received:
    """Return where *message* came in; raises `InvalidInput` unless it is the newest, and *by*'s own."""
    received = (EVENT.c.session == source.key) & (EVENT.c.type == CODES[e.MessageReceived.type])
    query = select(_BEGINS.label("begins"), EVENT.c.data).select_from(_WITH_RUN)
    query = query.where(received).order_by(EVENT.c.seq.desc()).limit(1)
    row = connection.execute(query).first()
    body = None if row is None else msgspec.json.decode(bytes(row.data), type=e.MessageReceived)
    if row is None or body is None or body.message != message or body.actor.id != by.id:
        raise InvalidInput("message", "only your own newest message can be said again.")
    return _Received(row.begins, title_of(body.parts))


def _made(connection: Connection, source: SessionRef, at: int) -> str | None:
    """Return the copy of *source* that ends at *at*, if it was made and has nothing more; raises `SessionClosed`."""
    query = select(SESSION.c.id, SESSION.c.next_seq).join(BRANCH, BRANCH.c.target == SESSION.c.key)
    row = connection.execute(query.where(BRANCH.c.source == source.key)).first()
    if row is not None and row.next_seq != at + 1:
        raise SessionClosed("This conversation goes on elsewhere: a message of it was said again there.")
    return None if row is None else row.id


def _refuse_others(connection: Connection, source: SessionRef, at: int) -> None:
    """Raise `NotRepeatable` where the copy would lose what others said, or a channel its session."""
    if source.address is not None:
        raise NotRepeatable("This conversation is held in another place too; write a new message instead.")
    replied = (EVENT.c.session == source.key) & (EVENT.c.seq > at) & (EVENT.c.type == _REPLIED)
    bodies = connection.execute(select(EVENT.c.data).where(replied)).scalars()
    if any(msgspec.json.decode(bytes(data), type=e.MessageCompleted).actor is not None for data in bodies):
        raise NotRepeatable("A person has answered since; write a new message instead.")
    open_then = (RUN.c.session == source.key) & (RUN.c.first_seq <= at) & (RUN.c.last_seq > at)
    if connection.execute(select(RUN.c.key).where(open_then)).first():
        raise NotRepeatable("It was written while another answer was under way; write a new message instead.")


def _untitle(connection: Connection, copy: int, title: str) -> None:
    """Take a *title* that is the message's from a copy in which that is said again."""
    begins = (SESSION.c.key == copy) & (SESSION.c.title == title)
    connection.execute(update(SESSION).where(begins).values(title=None))


def _copy_remembered(connection: Connection, source: int, target: int) -> None:
    """Let what was allowed for the rest of the conversation be allowed in the copy, of the runs that it has."""
    old, new = RUN.alias("old_run"), RUN.alias("new_run")
    query = (
        select(APPROVAL, new.c.key.label("twin"))
        .join(old, old.c.key == APPROVAL.c.run)
        .join(new, (new.c.session == target) & (new.c.first_seq == old.c.first_seq))
        .where(APPROVAL.c.session == source, APPROVAL.c.remembered == 1)
    )
    for row in connection.execute(query).mappings().all():
        values: dict[str, Any] = {name: value for name, value in row.items() if name not in {"key", "twin"}}
        values |= {"id": new_id("apr"), "session": target, "run": row["twin"]}
        connection.execute(insert(APPROVAL).values(**values))
