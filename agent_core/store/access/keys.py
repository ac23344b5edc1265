"""API keys in the store. Each function is one transaction's work."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from sqlalchemy import Connection, insert, select, update

from agent_core.errors import NotFound
from agent_core.messages import Actor
from agent_core.objects import KeyChanges, KeyObject, Page, StoredKey
from agent_core.store.access.tables import ApiKeyRow
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT

KEY = table_of(ApiKeyRow)


def add(connection: Connection, key: StoredKey) -> None:
    """Store a new key."""
    made = key.object
    values = {
        "project": DEFAULT_PROJECT,
        "id": made.id,
        "name": made.name,
        "actor": made.actor,
        "scopes": " ".join(made.scopes),
        "digest": key.digest,
        "created_at": made.created_at,
        "created_by": msgspec.json.encode(made.created_by),
        "expires_at": made.expires_at,
    }
    connection.execute(insert(KEY).values(**values))


def usable(connection: Connection) -> list[StoredKey]:
    """Return every key that is not revoked; expired ones are among them."""
    return [_stored(row) for row in connection.execute(select(KEY).where(KEY.c.revoked_at.is_(None)))]


def listed(connection: Connection, *, limit: int, after: int | None) -> Page[KeyObject]:
    """Return up to *limit* keys, the revoked ones too, oldest first, with a row's key above *after*."""
    query = select(KEY).where(KEY.c.project == DEFAULT_PROJECT).order_by(KEY.c.key).limit(limit + 1)
    rows = connection.execute(query if after is None else query.where(KEY.c.key > after)).all()
    cursor = str(rows[limit - 1].key) if len(rows) > limit else None
    return Page(tuple(_stored(row).object for row in rows[:limit]), cursor)


def find(connection: Connection, id: str) -> StoredKey:
    """Return the key *id*, revoked or not; raises `NotFound`."""
    row = connection.execute(select(KEY).where(KEY.c.id == id)).first()
    if row is None:
        raise NotFound("key", id)
    return _stored(row)


def change(connection: Connection, id: str, changes: KeyChanges) -> StoredKey:
    """Change a key that is not revoked; raises `NotFound`."""
    values: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET
    }
    if "scopes" in values:
        values["scopes"] = " ".join(values["scopes"])
    return _set(connection, id, values) if values else _usable(connection, id)


def rotate(connection: Connection, id: str, digest: bytes, *, now: int, until: int) -> StoredKey:
    """Give a key another secret; the one before works *until* then. Raises `NotFound`."""
    before = _usable(connection, id)
    values = {"digest": digest, "previous": before.digest, "previous_until": until, "rotated_at": now}
    return _set(connection, id, values)


def revoke(connection: Connection, id: str, *, now: int) -> StoredKey:
    """Revoke a key for good; raises `NotFound`, also for a revoked one."""
    return _set(connection, id, {"revoked_at": now, "previous": None, "previous_until": None})


def note_used(connection: Connection, used: Mapping[str, int]) -> None:
    """Note when keys were last used, by their ids."""
    for id, at in used.items():
        later = KEY.c.used_at.is_(None) | (KEY.c.used_at < at)
        connection.execute(update(KEY).where(KEY.c.id == id, later).values(used_at=at))


def _usable(connection: Connection, id: str) -> StoredKey:
    key = find(connection, id)
    if key.object.revoked_at is not None:
        raise NotFound("key", id)
    return key


def _set(connection: Connection, id: str, values: dict[str, Any]) -> StoredKey:
    change = update(KEY).where(KEY.c.id == id, KEY.c.revoked_at.is_(None)).values(values).returning(KEY)
    row = connection.execute(change).first()
    if row is None:
        raise NotFound("key", id)
    return _stored(row)


def _stored(row: Any) -> StoredKey:
    made = KeyObject(
        id=row.id,
        name=row.name,
        actor=row.actor,
        scopes=tuple(row.scopes.split()),
        created_at=row.created_at,
        created_by=msgspec.json.decode(row.created_by, type=Actor),
        expires_at=row.expires_at,
        used_at=row.used_at,
        rotated_at=row.rotated_at,
        revoked_at=row.revoked_at,
    )
    previous = None if row.previous is None else bytes(row.previous)
    return StoredKey(object=made, digest=bytes(row.digest), previous=previous, previous_until=row.previous_until)
