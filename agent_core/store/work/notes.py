"""Notes: facts that the next run of a session shows the model. Each function is one transaction's work."""

from collections.abc import Collection

import msgspec
from sqlalchemy import Connection, bindparam, select, update

from agent_core.store.log import SESSION

_READ = select(SESSION.c.noted).where(SESSION.c.key == bindparam("b_key"))
_SET = update(SESSION).where(SESSION.c.key == bindparam("b_key")).values(noted=bindparam("b_noted"))
_SEQS = msgspec.json.Decoder(tuple[int, ...])


def seqs_of(noted: bytes | None) -> tuple[int, ...]:
    """Return the seqs that a session's row holds."""
    return () if noted is None else _SEQS.decode(noted)


def change(connection: Connection, session: int, *, add: Collection[int] = (), drop: Collection[int] = ()) -> None:
    """Add *add* to the notes for the next run of a session, which is locked, and remove *drop*."""
    noted = seqs_of(connection.execute(_READ, {"b_key": session}).scalar())
    wanted = tuple(sorted({*noted, *add} - set(drop)))
    if wanted != noted:
        connection.execute(_SET, {"b_key": session, "b_noted": msgspec.json.encode(wanted) if wanted else None})


def consume(connection: Connection, session: int, noted: bytes | None) -> tuple[int, ...]:
    """Return the notes for the run that starts now; *noted* is what the session's row holds."""
    if noted is not None:
        connection.execute(_SET, {"b_key": session, "b_noted": None})
    return seqs_of(noted)
