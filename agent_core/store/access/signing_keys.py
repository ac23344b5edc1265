"""Keys that sign visitors' tokens in the store. Each function is one transaction's work."""

from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select

from agent_core.errors import Conflict, NotFound
from agent_core.messages import Actor
from agent_core.objects import Page, SigningKey
from agent_core.store.access.tables import SigningKeyRow
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT

MAX_KEYS = 100
"""Keys that are registered at once: each process has them in memory."""
KEY = table_of(SigningKeyRow)


def add(connection: Connection, key: SigningKey) -> None:
    """Register a key; raises `Conflict` when another has its `kid`, or there are too many."""
    if connection.execute(select(KEY.c.id).where(KEY.c.kid == key.kid)).first() is not None:
        raise Conflict(f"A key with the kid `{key.kid}` is registered already; remove that one, or choose another kid.")
    if connection.execute(select(func.count()).select_from(KEY)).scalar_one() >= MAX_KEYS:
        raise Conflict(f"There are {MAX_KEYS} keys, as many as can be; remove one that is not in use.")
    values = {
        "project": DEFAULT_PROJECT,
        "id": key.id,
        "name": key.name,
        "kid": key.kid,
        "algorithm": key.algorithm,
        "jwk": msgspec.json.encode(key.jwk),
        "created_at": key.created_at,
        "created_by": msgspec.json.encode(key.created_by),
        "agents": None if key.agents is None else msgspec.json.encode(key.agents),
    }
    connection.execute(insert(KEY).values(**values))


def every(connection: Connection) -> list[SigningKey]:
    """Return all keys."""
    return [_stored(row) for row in connection.execute(select(KEY).order_by(KEY.c.key))]


def listed(connection: Connection, *, limit: int, after: int | None) -> Page[SigningKey]:
    """Return up to *limit* keys, oldest first, with a row's key above *after*."""
    query = select(KEY).order_by(KEY.c.key).limit(limit + 1)
    rows = connection.execute(query if after is None else query.where(KEY.c.key > after)).all()
    cursor = str(rows[limit - 1].key) if len(rows) > limit else None
    return Page(tuple(_stored(row) for row in rows[:limit]), cursor)


def remove(connection: Connection, id: str) -> None:
    """Remove the key *id*; raises `NotFound`."""
    if not connection.execute(delete(KEY).where(KEY.c.id == id)).rowcount:
        raise NotFound("key", id)


def _stored(row: Any) -> SigningKey:
    return SigningKey(
        id=row.id,
        name=row.name,
        kid=row.kid,
        algorithm=row.algorithm,
        jwk=msgspec.json.decode(row.jwk, type=dict[str, str]),
        created_at=row.created_at,
        created_by=msgspec.json.decode(row.created_by, type=Actor),
        agents=None if row.agents is None else msgspec.json.decode(row.agents, type=tuple[str, ...]),
    )
