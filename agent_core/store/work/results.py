"""Results: rows that tools returned, kept whole under a handle. Each function is one transaction's work."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, literal, select, update

from agent_core.charts.rows import FoundRows, HandleOfRows
from agent_core.errors import NotFound
from agent_core.store import log
from agent_core.store.log import RUN, RunRef, table_of
from agent_core.store.tables import ResultRow
from agent_core.store.work import blobs, quotas
from agent_core.store.work.blobs import BLOB

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


def keep(connection: Connection, run: RunRef, call: str, rows: FoundRows, data: bytes) -> HandleOfRows:
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
        "blob": blobs.put(connection, run.session, blobs.JSON, data, run.key),
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


def copy(connection: Connection, source: int, target: int) -> None:
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


def remove(connection: Connection, session: int, runs: Collection[int]) -> None:
    """Delete what *runs* kept, handles and rows."""
    theirs = (RESULT.c.session == session) & RESULT.c.run.in_(list(runs))
    names = list(connection.execute(select(RESULT.c.blob).where(theirs)).scalars())
    _remove(connection, session, names)


def rewrite(connection: Connection, session: int, change: Callable[[Any], Any]) -> None:
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
