"""The audit log of approvals, append-only. Each function is one transaction's work."""

from collections.abc import Collection
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, insert, select

from agent_core.messages import Actor
from agent_core.objects import AuditEntry, AuditKind
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT, AuditRow

_AUDIT = table_of(AuditRow)
_ADD = insert(_AUDIT).values({x.name: bindparam(f"b_{x.name}") for x in _AUDIT.c if x.name != "key"})


def add(
    connection: Connection,
    names: tuple[str, str, str],
    kind: AuditKind,
    *,
    now: int,
    actor: Actor | None,
    surface: str | None,
    place: str | None,
    data: dict[str, Any] | None,
) -> None:
    """Add a line about the approval, session and run of these *names*."""
    approval, session, run = names
    connection.execute(
        _ADD,
        {
            "b_project": DEFAULT_PROJECT,
            "b_approval": approval,
            "b_session": session,
            "b_run": run,
            "b_at": now,
            "b_kind": kind,
            "b_actor": msgspec.json.encode(actor) if actor else None,
            "b_surface": surface,
            "b_place": place,
            "b_data": msgspec.json.encode(data) if data else None,
        },
    )


def has(
    connection: Connection, approval: str, kind: AuditKind, *, actor: Actor | None, surface: str, place: str | None
) -> bool:
    """Return whether there is an equal line."""
    return bool(having(connection, (approval,), kind, actor=actor, surface=surface, place=place))


def having(
    connection: Connection,
    approvals: Collection[str],
    kind: AuditKind,
    *,
    actor: Actor | None,
    surface: str,
    place: str | None,
) -> set[str]:
    """Return those of *approvals* that have an equal line."""
    query = select(_AUDIT.c.approval, _AUDIT.c.actor, _AUDIT.c.place).where(
        _AUDIT.c.approval.in_(approvals), _AUDIT.c.kind == kind, _AUDIT.c.surface == surface
    )
    wanted = (msgspec.json.encode(actor) if actor else None, place)
    rows = connection.execute(query)
    return {row.approval for row in rows if (bytes(row.actor) if row.actor else None, row.place) == wanted}


def listed(connection: Connection, *, after: int, limit: int, approval: str | None = None) -> list[AuditEntry]:
    """Return up to *limit* lines after the line *after*, in order."""
    query = select(_AUDIT).where(_AUDIT.c.project == DEFAULT_PROJECT, _AUDIT.c.key > after)
    query = query.order_by(_AUDIT.c.key).limit(limit)
    if approval is not None:
        query = query.where(_AUDIT.c.approval == approval)
    return [_entry(row) for row in connection.execute(query)]


def _entry(row: Any) -> AuditEntry:
    return AuditEntry(
        seq=row.key,
        approval=row.approval,
        session=row.session,
        run=row.run,
        at=row.at,
        kind=row.kind,
        actor=msgspec.json.decode(row.actor, type=Actor) if row.actor else None,
        surface=row.surface,
        place=row.place,
        data=msgspec.json.decode(row.data) if row.data else None,
    )
