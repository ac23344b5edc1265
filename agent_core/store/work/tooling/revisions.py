"""How often definitions of tools, servers and secrets have changed: processes of one database compare it."""

from collections.abc import Mapping
from typing import Literal

from sqlalchemy import Connection, insert, select, update

from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT, ProjectRow
from agent_core.store.work.tooling.tables import RevisionRow

NEWER = "a newer version of Parley may have stored it; run that one"
"""What is said of a row that this version cannot read."""
RevisionKind = Literal["tools", "mcp", "secrets"]
REVISION, PROJECT = table_of(RevisionRow), table_of(ProjectRow)
# A transaction that opens a session does not wait for this lock; SQLite has one writer at a time anyway.
_ALONE = select(PROJECT.c.key).where(PROJECT.c.key == DEFAULT_PROJECT).with_for_update(key_share=True)


def alone(connection: Connection) -> None:
    """Return when no other transaction changes agents, tools, servers or secrets; none does until this one ends."""
    connection.execute(_ALONE)


def bump(connection: Connection, kind: RevisionKind, project: int = DEFAULT_PROJECT) -> int:
    """Count one more change of *kind* and return their number; transactions that change it wait for one another."""
    alone(connection)
    where = (REVISION.c.project == project, REVISION.c.kind == kind)
    counted = update(REVISION).where(*where).values(n=REVISION.c.n + 1).returning(REVISION.c.n)
    revision = connection.execute(counted).scalar_one_or_none()
    if revision is None:
        connection.execute(insert(REVISION).values(project=project, kind=kind, n=1))
        return 1
    return revision


def current(connection: Connection, project: int = DEFAULT_PROJECT) -> Mapping[str, int]:
    """Return the number of changes of each kind that has ever changed."""
    rows = connection.execute(select(REVISION.c.kind, REVISION.c.n).where(REVISION.c.project == project))
    return {row.kind: row.n for row in rows}
