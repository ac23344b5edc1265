"""Files of sessions, and results that are kept as files."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, delete, func, insert, literal, select, update
from sqlalchemy.sql import ColumnElement

from agent_core.charts.rows import FoundRows, HandleOfRows
from agent_core.errors import InvalidInput, NotFound
from agent_core.ids import new_id
from agent_core.messages import KEPT_FOR, Actor, File, FileObject, Part
from agent_core.quotas import Origin, Spending
from agent_core.store import log, quotas
from agent_core.store import quotas as blobs
from agent_core.store.catalog import AGENT
from agent_core.store.log import RUN, SESSION, RunRef, table_of
from agent_core.store.quotas import BLOB
from agent_core.store.quotas import put_blob as put
from agent_core.store.tables import DEFAULT_PROJECT, FileRow, ResultRow

RESULT = table_of(ResultRow)
_LISTED = 20
MAX_RESULTS = 200
"""Results whose rows a session keeps."""
MAX_RESULT_BYTES = 64_000_000
"""Bytes of rows that a session keeps, as JSON."""
_GONE = (
    f"It was dropped: of a conversation the newest {MAX_RESULTS} results are kept, "
    f"{MAX_RESULT_BYTES // 1_000_000} MB at most."
)


def keep_rows(connection: Connection, run: RunRef, call: str, rows: FoundRows, data: bytes) -> HandleOfRows:
    """Keep the rows that *call* of *run* returned, as JSON in *data*, and return their handle.

    Numbers count up within the session, which is locked: calls run side by side, and in several processes. A call that
    runs again after a crash gets another one. The oldest ones go that are beyond `MAX_RESULTS` or `MAX_RESULT_BYTES`.
    """
    log.lock(connection, run.session)
    n = _make_room(connection, run.session, len(data)) + 1
    values = {
        "session": run.session,
        "n": n,
        "run": run.key,
        "call": call,
        "blob": blobs.put_blob(connection, run.session, blobs.JSON, data, run.key),
        "count": len(rows.rows),
        "columns": msgspec.json.encode(rows.columns),
    }
    connection.execute(insert(RESULT).values(**values))
    return HandleOfRows(n, len(rows.rows), rows.columns)


def rows(connection: Connection, session: int, handle: str) -> bytes:
    """Return the rows under *handle* in a session as JSON; raises `NotFound`, which names the handles there are."""
    query = (
        select(BLOB.c.data)
        .join(RESULT, (RESULT.c.session == BLOB.c.session) & (RESULT.c.blob == BLOB.c.id))
        .where(RESULT.c.session == session, RESULT.c.n == _number(handle))
    )
    data = connection.execute(query).scalar()
    if data is None:
        existing = handles(connection, session)
        was_there = existing and 0 < _number(handle) < existing[0].n
        raise NotFound("result", handle, f"{_GONE} {_names_of(existing)}" if was_there else _names_of(existing))
    return bytes(data)


def handles(connection: Connection, session: int) -> Sequence[HandleOfRows]:
    """Return the newest handles of a session, newest first."""
    query = select(RESULT.c.n, RESULT.c.count.label("rows"), RESULT.c.columns).where(RESULT.c.session == session)
    newest = connection.execute(query.order_by(RESULT.c.n.desc()).limit(_LISTED))
    return [HandleOfRows(row.n, row.rows, msgspec.json.decode(row.columns, type=tuple[str, ...])) for row in newest]


def copy_results(connection: Connection, source: int, target: int) -> None:
    """Give the fork *target* the handles of the runs that it has; it has the blobs already."""
    old, new = RUN.alias("old_run"), RUN.alias("new_run")
    copied = (
        select(literal(target), RESULT.c.n, new.c.key, RESULT.c.call, RESULT.c.blob, RESULT.c.count, RESULT.c.columns)
        .join(old, old.c.key == RESULT.c.run)
        .join(new, (new.c.session == target) & (new.c.first_seq == old.c.first_seq))
        .where(RESULT.c.session == source)
    )
    names = ["session", "n", "run", "call", "blob", "count", "columns"]
    connection.execute(insert(RESULT).from_select(names, copied))


def remove_results(connection: Connection, session: int, runs: Collection[int]) -> None:
    """Delete what *runs* kept, handles and rows."""
    theirs = (RESULT.c.session == session) & RESULT.c.run.in_(list(runs))
    names = list(connection.execute(select(RESULT.c.blob).where(theirs)).scalars())
    _remove(connection, session, names)


def rewrite_results(connection: Connection, session: int, change: Callable[[Any], Any]) -> None:
    """Replace the names of columns by what *change* makes of them; the rows are blobs."""
    rows = connection.execute(select(RESULT.c.n, RESULT.c.columns).where(RESULT.c.session == session)).all()
    for row in rows:
        before = msgspec.json.decode(row.columns)
        after = change(before)
        if after != before:
            where = (RESULT.c.session == session) & (RESULT.c.n == row.n)
            connection.execute(update(RESULT).where(where).values(columns=msgspec.json.encode(after)))


def _make_room(connection: Connection, session: int, size: int) -> int:
    """Drop the oldest rows of a session for *size* bytes more, and return the newest number that it has given."""
    results = connection.execute(
        select(RESULT.c.n, RESULT.c.blob, func.length(BLOB.c.data).label("size"))
        .join(BLOB, (BLOB.c.session == RESULT.c.session) & (BLOB.c.id == RESULT.c.blob))
        .where(RESULT.c.session == session)
        .order_by(RESULT.c.n.desc())
    ).all()
    dropped = list[str]()
    for index, row in enumerate(results):
        size += row.size
        if index >= MAX_RESULTS - 1 or size > MAX_RESULT_BYTES:
            dropped.append(row.blob)
    if dropped:
        _remove(connection, session, dropped)
    return results[0].n if results else 0


def _remove(connection: Connection, session: int, names: Collection[str]) -> None:
    """Delete the handles whose rows are the blobs *names*, and those."""
    quotas.give_back_blobs(connection, session, names)
    connection.execute(delete(BLOB).where(BLOB.c.session == session, BLOB.c.id.in_(names)))
    connection.execute(delete(RESULT).where(RESULT.c.session == session, RESULT.c.blob.in_(names)))


def _names_of(handles: Sequence[HandleOfRows]) -> str:
    listed = "; ".join(f"`{each.name}` ({each.count:,} rows)" for each in handles)
    return f"There are: {listed}." if listed else "No tool has returned rows in this conversation yet."


def _number(handle: str) -> int:
    """Return the number in *handle*, 0 when it is none."""
    digits = handle.removeprefix("r")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0  # noqa: PLR2004 - 32 bits


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
    _files_remove(connection, (FILE.c.session == session) & FILE.c.id.in_(list(ids)))


def forget(connection: Connection, actor: str) -> None:
    """Delete what *actor* sent and no message took."""
    _files_remove(connection, (FILE.c.actor == actor) & FILE.c.seq.is_(None))


def sweep(connection: Connection, now: int) -> int:
    """Delete the files that no message took within a day, up to `MAX_REMOVED`, and return how many those were."""
    old = select(FILE.c.key).where(FILE.c.seq.is_(None), FILE.c.created_at < now - KEPT_FOR)
    keys = connection.execute(old.order_by(FILE.c.created_at).limit(MAX_REMOVED)).scalars().all()
    return _files_remove(connection, FILE.c.key.in_(keys) & FILE.c.seq.is_(None)) if keys else 0


def _files_remove(connection: Connection, which: ColumnElement[bool]) -> int:
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
