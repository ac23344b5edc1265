"""The record of what operators did, append-only. Each function is one transaction's work."""

from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select

from agent_core.messages import Actor
from agent_core.objects import Operation, OperationEntry
from agent_core.store.access.tables import OperationRow
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT

OPERATION = table_of(OperationRow)
_MAX_LENGTH = 200
"""Characters of an object's id: those of its column."""


def add(connection: Connection, done: Operation) -> None:
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


def listed(connection: Connection, *, after: int, limit: int) -> list[OperationEntry]:
    """Return up to *limit* lines after the line *after*, in order."""
    query = select(OPERATION).where(OPERATION.c.key > after).order_by(OPERATION.c.key).limit(limit)
    return [_entry(row) for row in connection.execute(query)]


def _entry(row: Any) -> OperationEntry:
    actor = msgspec.json.decode(row.actor, type=Actor)
    return OperationEntry(seq=row.key, at=row.at, actor=actor, route=row.route, object=row.object, result=row.result)
