"""Revocations in the store. Each function is one transaction's work."""

from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from agent_core.errors import NotFound
from agent_core.ids import new_id
from agent_core.objects import Page, Revocation, RevocationKind
from agent_core.store.access.tables import RevocationRow
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT

REVOCATION = table_of(RevocationRow)


def add(connection: Connection, kind: RevocationKind, subject: str, *, now: int) -> Revocation:
    """Revoke *subject* from *now* on, again if it was revoked before; it keeps its id."""
    same = (REVOCATION.c.kind == kind) & (REVOCATION.c.subject == subject)
    stored = connection.execute(update(REVOCATION).where(same).values(at=now).returning(REVOCATION)).first()
    if stored is not None:
        return _revocation(stored)
    made = Revocation(id=new_id("rvk"), kind=kind, subject=subject, at=now)
    values = {"project": DEFAULT_PROJECT, "id": made.id, "kind": kind, "subject": subject, "at": now}
    connection.execute(insert(REVOCATION).values(**values))
    return made


def since(connection: Connection, at: int) -> list[Revocation]:
    """Return what was revoked at *at* or later."""
    return [_revocation(row) for row in connection.execute(select(REVOCATION).where(REVOCATION.c.at >= at))]


def listed(connection: Connection, *, limit: int, before: int | None) -> Page[Revocation]:
    """Return up to *limit* revocations, newest first, with a row's key below *before*."""
    query = select(REVOCATION).order_by(REVOCATION.c.key.desc()).limit(limit + 1)
    rows = connection.execute(query if before is None else query.where(REVOCATION.c.key < before)).all()
    cursor = str(rows[limit - 1].key) if len(rows) > limit else None
    return Page(tuple(_revocation(row) for row in rows[:limit]), cursor)


def find(connection: Connection, id: str) -> Revocation:
    """Return the revocation *id*; raises `NotFound`."""
    row = connection.execute(select(REVOCATION).where(REVOCATION.c.id == id)).first()
    if row is None:
        raise NotFound("revocation", id)
    return _revocation(row)


def tidy(connection: Connection, before: int) -> None:
    """Remove the revocations of tokens and actors from before *before*: what they revoke has expired since."""
    old = (REVOCATION.c.kind != "session") & (REVOCATION.c.at < before)
    connection.execute(delete(REVOCATION).where(old))


def _revocation(row: Any) -> Revocation:
    return Revocation(id=row.id, kind=row.kind, subject=row.subject, at=row.at)
