"""Blobs: bytes kept whole. Each function is one transaction's work."""

from sqlalchemy import Connection, insert, select

from agent_core.errors import NotFound
from agent_core.ids import new_id
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT, BlobRow

BLOB = table_of(BlobRow)


def put(connection: Connection, session: int | None, mime: str, data: bytes) -> str:
    """Store *data* and return its id."""
    name = new_id("blob")
    connection.execute(insert(BLOB).values(project=DEFAULT_PROJECT, id=name, session=session, mime=mime, data=data))
    return name


def get(connection: Connection, name: str) -> tuple[str, bytes]:
    """Return mime type and bytes; raises `NotFound`."""
    query = select(BLOB.c.mime, BLOB.c.data).where(BLOB.c.project == DEFAULT_PROJECT, BLOB.c.id == name).limit(1)
    row = connection.execute(query).first()
    if row is None:
        raise NotFound("blob", name)
    return row.mime, bytes(row.data)
