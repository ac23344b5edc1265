"""Blobs: bytes kept whole. Each function is one transaction's work."""

from collections.abc import Callable, Collection
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, literal, select, update

from agent_core.errors import NotFound
from agent_core.ids import new_id
from agent_core.store.log import RUN, table_of
from agent_core.store.tables import DEFAULT_PROJECT, BlobRow

BLOB = table_of(BlobRow)
JSON = "application/json"


def put(
    connection: Connection,
    session: int | None,
    mime: str,
    data: bytes,
    run: int | None = None,
    *,
    name: str | None = None,
) -> str:
    """Store *data*, which counts as stored by *run*, and return its id: *name*, or a new one."""
    name = name or new_id("blob")
    values = {"project": DEFAULT_PROJECT, "id": name, "session": session, "mime": mime, "data": data, "run": run}
    connection.execute(insert(BLOB).values(**values))
    return name


def get(connection: Connection, name: str) -> tuple[str, bytes]:
    """Return mime type and bytes; raises `NotFound`."""
    query = select(BLOB.c.mime, BLOB.c.data).where(BLOB.c.project == DEFAULT_PROJECT, BLOB.c.id == name).limit(1)
    row = connection.execute(query).first()
    if row is None:
        raise NotFound("blob", name)
    return row.mime, bytes(row.data)


def copy(connection: Connection, source: int, target: int, without: Collection[str]) -> None:
    """Give the fork *target* its own rows of the blobs of *source* but those *without*, so that it outlives that.

    Those of runs that the fork does not have are left out.
    """
    old, new = RUN.alias("old_run"), RUN.alias("new_run")
    twin = (new.c.session == target) & (new.c.first_seq == old.c.first_seq)
    copied = (
        select(BLOB.c.project, BLOB.c.id, literal(target), BLOB.c.mime, BLOB.c.data, new.c.key)
        .select_from(BLOB.outerjoin(old, old.c.key == BLOB.c.run).outerjoin(new, twin))
        .where(BLOB.c.session == source, BLOB.c.id.not_in(list(without)))
        .where(BLOB.c.run.is_(None) | new.c.key.is_not(None))
    )
    connection.execute(insert(BLOB).from_select(["project", "id", "session", "mime", "data", "run"], copied))


def rewrite(connection: Connection, session: int, change: Callable[[Any], Any]) -> None:
    """Replace the JSON in the blobs of a session by what *change* makes of it."""
    theirs = (BLOB.c.session == session) & (BLOB.c.mime == JSON)
    for key in connection.execute(select(BLOB.c.key).where(theirs)).scalars().all():
        data = bytes(connection.execute(select(BLOB.c.data).where(BLOB.c.key == key)).scalar_one())
        before = msgspec.json.decode(data)
        after = change(before)
        if after != before:
            connection.execute(update(BLOB).where(BLOB.c.key == key).values(data=msgspec.json.encode(after)))
