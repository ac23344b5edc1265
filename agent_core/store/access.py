"""Keys, revocations and what operators did."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from sqlalchemy import Connection, delete, func, insert, select, update

from agent_core.errors import Conflict, NotFound
from agent_core.ids import new_id
from agent_core.messages import Actor
from agent_core.objects import (
    KeyChanges,
    KeyObject,
    Operation,
    OperationEntry,
    Page,
    Revocation,
    RevocationKind,
    SigningKey,
    StoredKey,
)
from agent_core.store.database import page_of, required
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT, ApiKeyRow, KeptRow, OperationRow, RevocationRow, SigningKeyRow

KEY = table_of(ApiKeyRow)


def add_key(connection: Connection, key: StoredKey) -> None:
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


def usable_keys(connection: Connection) -> list[StoredKey]:
    """Return every key that is not revoked; expired ones are among them."""
    return [_stored(row) for row in connection.execute(select(KEY).where(KEY.c.revoked_at.is_(None)))]


def listed_keys(connection: Connection, *, limit: int, after: int | None) -> Page[KeyObject]:
    """Return up to *limit* keys, the revoked ones too, oldest first, with a row's key above *after*."""
    query = select(KEY).where(KEY.c.project == DEFAULT_PROJECT)
    return page_of(connection, query, KEY.c.key, lambda row: _stored(row).object, limit=limit, after=after)


def find_key(connection: Connection, id: str) -> StoredKey:
    """Return the key *id*, revoked or not; raises `NotFound`."""
    return _stored(required(connection.execute(select(KEY).where(KEY.c.id == id)), "key", id))


def change_key(connection: Connection, id: str, changes: KeyChanges) -> StoredKey:
    """Change a key that is not revoked; raises `NotFound`."""
    values: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET
    }
    if "scopes" in values:
        values["scopes"] = " ".join(values["scopes"])
    return _set(connection, id, values) if values else _usable(connection, id)


def rotate_key(connection: Connection, id: str, digest: bytes, *, now: int, until: int) -> StoredKey:
    """Give a key another secret; the one before works *until* then. Raises `NotFound`."""
    before = _usable(connection, id)
    values = {"digest": digest, "previous": before.digest, "previous_until": until, "rotated_at": now}
    return _set(connection, id, values)


def revoke_key(connection: Connection, id: str, *, now: int) -> StoredKey:
    """Revoke a key for good; raises `NotFound`, also for a revoked one."""
    return _set(connection, id, {"revoked_at": now, "previous": None, "previous_until": None})


def note_keys_used(connection: Connection, used: Mapping[str, int]) -> None:
    """Note when keys were last used, by their ids."""
    for id, at in used.items():
        later = KEY.c.used_at.is_(None) | (KEY.c.used_at < at)
        connection.execute(update(KEY).where(KEY.c.id == id, later).values(used_at=at))


def _usable(connection: Connection, id: str) -> StoredKey:
    key = find_key(connection, id)
    if key.object.revoked_at is not None:
        raise NotFound("key", id)
    return key


def _set(connection: Connection, id: str, values: dict[str, Any]) -> StoredKey:
    change = update(KEY).where(KEY.c.id == id, KEY.c.revoked_at.is_(None)).values(values).returning(KEY)
    return _stored(required(connection.execute(change), "key", id))


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


OPERATION = table_of(OperationRow)
_MAX_LENGTH = 200
"""Characters of an object's id: those of its column."""


def add_operation(connection: Connection, done: Operation) -> None:
    """Add a line."""
    values = {
        "project": DEFAULT_PROJECT,
        "at": done.at,
        "actor": msgspec.json.encode(done.actor),
        "route": done.route,
        "object": None if done.object is None else done.object[:_MAX_LENGTH],
        "result": done.result,
    }
    connection.execute(insert(OPERATION).values(**values))


def listed_operations(connection: Connection, *, after: int, limit: int) -> list[OperationEntry]:
    """Return up to *limit* lines after the line *after*, in order."""
    query = select(OPERATION).where(OPERATION.c.key > after).order_by(OPERATION.c.key).limit(limit)
    return [_entry(row) for row in connection.execute(query)]


def _entry(row: Any) -> OperationEntry:
    actor = msgspec.json.decode(row.actor, type=Actor)
    return OperationEntry(seq=row.key, at=row.at, actor=actor, route=row.route, object=row.object, result=row.result)


REVOCATION = table_of(RevocationRow)


def add_revocation(connection: Connection, kind: RevocationKind, subject: str, *, now: int) -> Revocation:
    """Revoke *subject* from *now* on, again if it was revoked before; it keeps its id."""
    same = (REVOCATION.c.kind == kind) & (REVOCATION.c.subject == subject)
    stored = connection.execute(update(REVOCATION).where(same).values(at=now).returning(REVOCATION)).first()
    if stored is not None:
        return _revocation(stored)
    made = Revocation(id=new_id("rvk"), kind=kind, subject=subject, at=now)
    values = {"project": DEFAULT_PROJECT, "id": made.id, "kind": kind, "subject": subject, "at": now}
    connection.execute(insert(REVOCATION).values(**values))
    return made


def revocations_since(connection: Connection, at: int) -> list[Revocation]:
    """Return what was revoked at *at* or later."""
    return [_revocation(row) for row in connection.execute(select(REVOCATION).where(REVOCATION.c.at >= at))]


def listed_revocations(connection: Connection, *, limit: int, before: int | None) -> Page[Revocation]:
    """Return up to *limit* revocations, newest first, with a row's key below *before*."""
    query, key = select(REVOCATION), REVOCATION.c.key
    return page_of(connection, query, key, _revocation, limit=limit, after=before, is_newest_first=True)


def find_revocation(connection: Connection, id: str) -> Revocation:
    """Return the revocation *id*; raises `NotFound`."""
    return _revocation(required(connection.execute(select(REVOCATION).where(REVOCATION.c.id == id)), "revocation", id))


def tidy_revocations(connection: Connection, before: int) -> None:
    """Remove the revocations of tokens and actors from before *before*: what they revoke has expired since."""
    old = (REVOCATION.c.kind != "session") & (REVOCATION.c.at < before)
    connection.execute(delete(REVOCATION).where(old))


def _revocation(row: Any) -> Revocation:
    return Revocation(id=row.id, kind=row.kind, subject=row.subject, at=row.at)


MAX_KEYS = 100
"""Keys that are registered at once: each process has them in memory."""
SIGNING_KEY = table_of(SigningKeyRow)


def add_signing_key(connection: Connection, key: SigningKey) -> None:
    """Register a key; raises `Conflict` when another has its `kid`, or there are too many."""
    if connection.execute(select(SIGNING_KEY.c.id).where(SIGNING_KEY.c.kid == key.kid)).first() is not None:
        raise Conflict(f"A key with the kid `{key.kid}` is registered already; remove that one, or choose another kid.")
    if connection.execute(select(func.count()).select_from(SIGNING_KEY)).scalar_one() >= MAX_KEYS:
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
    connection.execute(insert(SIGNING_KEY).values(**values))


def every_signing_key(connection: Connection) -> list[SigningKey]:
    """Return all keys."""
    return [_signing_key(row) for row in connection.execute(select(SIGNING_KEY).order_by(SIGNING_KEY.c.key))]


def listed_signing_keys(connection: Connection, *, limit: int, after: int | None) -> Page[SigningKey]:
    """Return up to *limit* keys, oldest first, with a row's key above *after*."""
    return page_of(connection, select(SIGNING_KEY), SIGNING_KEY.c.key, _signing_key, limit=limit, after=after)


def remove_signing_key(connection: Connection, id: str) -> None:
    """Remove the key *id*; raises `NotFound`."""
    if not connection.execute(delete(SIGNING_KEY).where(SIGNING_KEY.c.id == id)).rowcount:
        raise NotFound("key", id)


def _signing_key(row: Any) -> SigningKey:
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


KEPT = table_of(KeptRow)
REMEMBERED_SECONDS = 900
"""Seconds for which a request that counts once is known: well beyond the 300 for which signatures are usually valid."""
_TIME = 8
"""Bytes of a time: written so, times compare as bytes do."""


def keep_shared(connection: Connection, name: str, value: bytes) -> bytes:
    """Keep *value* under *name* unless something is kept there, and return what is kept there then."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - three megabytes that SQLite does without
    else:
        from sqlalchemy.dialects.sqlite import insert  # noqa: PLC0415 - as above
    connection.execute(insert(KEPT).values(name=name, value=value).on_conflict_do_nothing())
    return connection.execute(select(KEPT.c.value).where(KEPT.c.name == name)).scalar_one()


def is_first(connection: Connection, name: str, *, now: int, seconds: int = REMEMBERED_SECONDS) -> bool:
    """Return whether *name*, `<kind>:<at most 32 characters>`, is kept for the first time within about *seconds*.

    *now* is in milliseconds. What is older of its kind is removed, so that little is kept.
    """
    kind, own = name.partition(":")[0], new_id("own").encode()
    old = (now - seconds * 1000).to_bytes(_TIME)
    of_kind = KEPT.c.name.startswith(f"{kind}:", autoescape=True)  # no range: in most collations `;` is before `:`
    connection.execute(delete(KEPT).where(of_kind, KEPT.c.value < old))
    mine = now.to_bytes(_TIME) + own
    return keep_shared(connection, name, mine) == mine


def shared_value(connection: Connection, name: str) -> bytes | None:
    """Return what is kept under *name*."""
    return connection.execute(select(KEPT.c.value).where(KEPT.c.name == name)).scalar()
