"""What the processes of one database keep in common: the first one that writes a value is believed by all."""

from sqlalchemy import Connection, select

from agent_core.store.log import table_of
from agent_core.store.tables import KeptRow

KEPT = table_of(KeptRow)


def keep(connection: Connection, name: str, value: bytes) -> bytes:
    """Keep *value* under *name* unless something is kept there, and return what is kept there then."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - three megabytes that SQLite does without
    else:
        from sqlalchemy.dialects.sqlite import insert  # noqa: PLC0415 - as above
    connection.execute(insert(KEPT).values(name=name, value=value).on_conflict_do_nothing())
    return connection.execute(select(KEPT.c.value).where(KEPT.c.name == name)).scalar_one()


def kept(connection: Connection, name: str) -> bytes | None:
    """Return what is kept under *name*."""
    return connection.execute(select(KEPT.c.value).where(KEPT.c.name == name)).scalar()
