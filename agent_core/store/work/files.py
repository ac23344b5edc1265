"""Files that people send, kept for a message that takes them, then with its session.

Each function is one transaction's work.
"""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, delete, func, insert, literal, select, update
from sqlalchemy.sql import ColumnElement

from agent_core.errors import InvalidInput, NotFound
from agent_core.ids import new_id
from agent_core.messages import KEPT_FOR, Actor, File, FileObject, Part
from agent_core.quotas import Origin, Spending
from agent_core.store.log import SESSION, table_of
from agent_core.store.tables import DEFAULT_PROJECT
from agent_core.store.work import quotas
from agent_core.store.work.blobs import BLOB, put
from agent_core.store.work.catalog import AGENT
from agent_core.store.work.tables import FileRow

FILE: Table = table_of(FileRow)
PREFIX = "file"
MIN_STORED = 4_096
"""Bytes that a file counts for at least: its rows take room, however little it holds."""
MAX_REMOVED = 200
"""Files that one transaction removes: it is to be over soon."""
_SHOWN = ("id", "name", "mime", "size", "created_at", "agent", "actor", "actor_kind", "text", "pages")
_MINE = tuple(column for column in FILE.c if column.name not in ("key", "session", "seq", "charged"))


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to keep: its bytes, and the *shown* text that stands for them; who sent it, where and to which agent.

    *agent* is an id, None for an operator's; *session* an id, None where no session is named.
    """

    name: str
    mime: str
    data: bytes
    text: str | None
    pages: int | None
    actor: Actor
    agent: str | None
    session: str | None
    origin: Origin


def add(connection: Connection, new: NewFile, *, now: int) -> FileObject:
    """Keep a file, which counts as stored by who sent it; raises `NotFound`, `RateLimited`."""
    session = None if new.session is None else _session_key(connection, new.session)
    text = None if new.text is None else new.text.encode()
    stored = max(MIN_STORED, len(new.data) + len(text or b""))
    charged = _charge(connection, new.agent, new.actor, new.origin, stored, now)
    made = FileObject(
        id=new_id(PREFIX),
        name=new.name,
        mime=new.mime,
        size=len(new.data),
        session=new.session,
        created_at=now,
        agent=new.agent,
        actor=new.actor.id,
        actor_kind=new.actor.kind,
        text=None if text is None else put(connection, session, "text/plain", text),
        pages=new.pages,
    )
    put(connection, session, new.mime, new.data, name=made.id)
    values = {name: getattr(made, name) for name in _SHOWN}
    values |= {"project": DEFAULT_PROJECT, "session": session, "stored": stored, "charged": charged}
    connection.execute(insert(FILE).values(**values))
    return made


def check_room(
    connection: Connection, agent: str | None, actor: Actor, origin: Origin, stored: int, *, now: int
) -> None:
    """Raise `RateLimited` when *stored* bytes more, or as many as there are already, are too much; count nothing."""
    if agent is not None and (row := _bounds(connection, agent)) is not None:
        quotas.check_stored(connection, row.key, row.quotas, actor, origin, max(MIN_STORED, stored), now=now)


def find(connection: Connection, id: str) -> tuple[FileObject, ...]:
    """Return the file *id* in each place where it is, the oldest first; raises `NotFound`."""
    query = select(FILE, SESSION.c.id.label("session_id")).outerjoin(SESSION, SESSION.c.key == FILE.c.session)
    rows = connection.execute(query.where(FILE.c.id == id).order_by(FILE.c.key)).mappings().all()
    if not rows:
        raise NotFound("file", id)
    return tuple(FileObject(session=row["session_id"], **{name: row[name] for name in _SHOWN}) for row in rows)


def take(
    connection: Connection, session: int, seq: int, parts: Sequence[Part], *, actor: Actor, origin: Origin, now: int
) -> None:
    """Give the files in *parts* to the message at *seq* of *session*; each is in one message of a session.

    A file that another session has is copied. Raises `InvalidInput`, `RateLimited`.
    """
    for part in parts:
        if isinstance(part, File) and part.file.startswith(f"{PREFIX}_"):
            _take(connection, session, seq, part.file, actor, origin, now)


def _take(connection: Connection, session: int, seq: int, id: str, actor: Actor, origin: Origin, now: int) -> None:
    rows = connection.execute(select(FILE).where(FILE.c.id == id).order_by(FILE.c.key).with_for_update()).all()
    here = next((row for row in rows if row.session == session), None)
    free = next((row for row in rows if row.session is None), None)
    if here is not None:
        if here.seq is not None:
            raise InvalidInput("files", f"`{id}` was sent in this conversation before; send it as a new file.")
        connection.execute(update(FILE).where(FILE.c.key == here.key).values(seq=seq))
    elif free is not None:
        connection.execute(update(FILE).where(FILE.c.key == free.key).values(session=session, seq=seq))
        theirs = BLOB.c.id.in_([name for name in (id, free.text) if name]) & BLOB.c.session.is_(None)
        connection.execute(update(BLOB).where(theirs).values(session=session))
    elif rows:
        charged = _charge(connection, rows[0].agent, actor, origin, rows[0].stored, now)
        _copy(connection, FILE.c.key == rows[0].key, session, literal(seq), charged)
        blobs = BLOB.c.id.in_([name for name in (id, rows[0].text) if name]) & (BLOB.c.session == rows[0].session)
        copied = select(BLOB.c.project, BLOB.c.id, literal(session), BLOB.c.mime, BLOB.c.data).where(blobs)
        connection.execute(insert(BLOB).from_select(["project", "id", "session", "mime", "data"], copied))
    else:
        raise InvalidInput("files", f"`{id}` is no longer here; send the file again.")


def copy(connection: Connection, source: int, target: int, last: int) -> list[str]:
    """Give the fork *target* the files that messages up to *last* took; return the blobs of the others."""
    taken = (FILE.c.session == source) & (FILE.c.seq <= last)
    _copy(connection, taken, target, FILE.c.seq, None)
    left = (FILE.c.session == source) & (FILE.c.seq.is_(None) | (FILE.c.seq > last))
    return _blobs_of(connection.execute(select(FILE.c.id, FILE.c.text).where(left)).all())


def size_of_copy(connection: Connection, session: int, last: int, agent: str) -> int:
    """Return the bytes of the files that messages up to *last* of *session* took, sent to *agent*."""
    taken = (FILE.c.session == session) & (FILE.c.seq <= last) & (FILE.c.agent == agent)
    return int(connection.execute(select(func.sum(FILE.c.stored)).where(taken)).scalar() or 0)


def charge(connection: Connection, session: int, agent: str, charged: bytes) -> None:
    """Note who is *charged* for the files of *session* that were sent to *agent*."""
    theirs = (FILE.c.session == session) & (FILE.c.agent == agent)
    connection.execute(update(FILE).where(theirs).values(charged=charged))


def give_back(connection: Connection, session: int) -> None:
    """Take the files of *session*, which is about to be deleted, off the counts."""
    _give_back(connection, FILE.c.session == session)


def remove(connection: Connection, session: int, ids: Collection[str]) -> None:
    """Delete the files *ids* of a session, and what they count."""
    _remove(connection, (FILE.c.session == session) & FILE.c.id.in_(list(ids)))


def forget(connection: Connection, actor: str) -> None:
    """Delete what *actor* sent and no message took."""
    _remove(connection, (FILE.c.actor == actor) & FILE.c.seq.is_(None))


def sweep(connection: Connection, now: int) -> int:
    """Delete the files that no message took within a day, up to `MAX_REMOVED`, and return how many those were."""
    old = select(FILE.c.key).where(FILE.c.seq.is_(None), FILE.c.created_at < now - KEPT_FOR)
    keys = connection.execute(old.order_by(FILE.c.created_at).limit(MAX_REMOVED)).scalars().all()
    return _remove(connection, FILE.c.key.in_(keys) & FILE.c.seq.is_(None)) if keys else 0


def _remove(connection: Connection, which: ColumnElement[bool]) -> int:
    _give_back(connection, which)
    gone = connection.execute(delete(FILE).where(which).returning(FILE.c.id, FILE.c.text, FILE.c.session)).all()
    for session in {row.session for row in gone}:
        names = _blobs_of([row for row in gone if row.session == session])
        connection.execute(delete(BLOB).where(BLOB.c.id.in_(names), BLOB.c.session.is_not_distinct_from(session)))
    return len(gone)


def _copy(connection: Connection, which: ColumnElement[bool], session: int, seq: Any, charged: bytes | None) -> None:
    """Give *session* rows of its own for the files *which*."""
    copied = select(*_MINE, literal(session), seq, literal(charged, FILE.c.charged.type)).where(which)
    names = [*(column.name for column in _MINE), "session", "seq", "charged"]
    connection.execute(insert(FILE).from_select(names, copied))


def _blobs_of(rows: Sequence[Any]) -> list[str]:
    return [name for row in rows for name in (row.id, row.text) if name is not None]


def _session_key(connection: Connection, name: str) -> int:
    key = connection.execute(select(SESSION.c.key).where(SESSION.c.id == name)).scalar()
    if key is None:
        raise NotFound("session", name)
    return key


def _charge(
    connection: Connection, agent: str | None, actor: Actor, origin: Origin, stored: int, now: int
) -> bytes | None:
    """Count *stored* bytes towards the quotas of *agent*; raises `RateLimited`, `NotFound`."""
    if agent is None:
        return None
    if (row := _bounds(connection, agent)) is None:
        raise NotFound("agent", agent)
    return quotas.take(connection, row.key, row.quotas, actor, origin, Spending(stored=stored), now=now)


def _bounds(connection: Connection, agent: str) -> Any:
    return connection.execute(select(AGENT.c.key, AGENT.c.quotas).where(AGENT.c.id == agent)).first()


def _give_back(connection: Connection, which: ColumnElement[bool]) -> None:
    charges = (
        select(AGENT.c.key, FILE.c.charged, func.sum(FILE.c.stored))
        .join(AGENT, AGENT.c.id == FILE.c.agent)
        .where(which, FILE.c.charged.is_not(None))
        .group_by(AGENT.c.key, FILE.c.charged)
    )
    quotas.take_off(connection, connection.execute(charges).all())
