"""Values that the processes of one database share: the first one that is written counts for all."""

from sqlalchemy import Connection, delete, select

from agent_core.ids import new_id
from agent_core.store.log import table_of
from agent_core.store.tables import KeptRow

KEPT = table_of(KeptRow)
REMEMBERED_SECONDS = 900
"""Seconds for which a request that counts once is known: well beyond the 300 for which signatures are usually valid."""
_TIME = 8
"""Bytes of a time: written so, times compare as bytes do."""


def keep(connection: Connection, name: str, value: bytes) -> bytes:
    """Keep *value* under *name* unless something is kept there, and return what is kept there then."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - three megabytes that SQLite does without
    else:
        from sqlalchemy.dialects.sqlite import insert  # noqa: PLC0415 - as above
    connection.execute(insert(KEPT).values(name=name, value=value).on_conflict_do_nothing())
    return connection.execute(select(KEPT.c.value).where(KEPT.c.name == name)).scalar_one()


def first(connection: Connection, name: str, *, now: int, seconds: int = REMEMBERED_SECONDS) -> bool:
    """Return whether *name*, `<kind>:<at most 32 characters>`, is kept for the first time within about *seconds*.

    *now* is in milliseconds. What is older of its kind is removed, so that little is kept.
    """
    kind, own = name.partition(":")[0], new_id("own").encode()
    old = (now - seconds * 1000).to_bytes(_TIME)
    of_kind = KEPT.c.name.startswith(f"{kind}:", autoescape=True)  # no range: in most collations `;` is before `:`
    connection.execute(delete(KEPT).where(of_kind, KEPT.c.value < old))
    mine = now.to_bytes(_TIME) + own
    return keep(connection, name, mine) == mine


def value_of(connection: Connection, name: str) -> bytes | None:
    """Return what is kept under *name*."""
    return connection.execute(select(KEPT.c.value).where(KEPT.c.name == name)).scalar()
