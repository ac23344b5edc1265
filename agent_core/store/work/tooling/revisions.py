"""How often definitions of tools, servers and secrets have changed: processes of one database compare it."""

from collections.abc import Mapping
from typing import Literal

from sqlalchemy import Connection, insert, select, update

from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT
from agent_core.store.work.tooling.tables import RevisionRow

RevisionKind = Literal["tools", "mcp", "secrets"]
REVISION = table_of(RevisionRow)


def bump(connection: Connection, kind: RevisionKind, project: int = DEFAULT_PROJECT) -> int:
    """Count one more change of *kind* and return their number; transactions that change it wait for one another."""
    where = (REVISION.c.project == project, REVISION.c.kind == kind)
    counted = update(REVISION).where(*where).values(n=REVISION.c.n + 1).returning(REVISION.c.n)
    found = connection.execute(counted).scalar_one_or_none()
    if found is None:
        connection.execute(insert(REVISION).values(project=project, kind=kind, n=1))
        return 1
    return found


def current(connection: Connection, project: int = DEFAULT_PROJECT) -> Mapping[str, int]:
    """Return the number of changes of each kind that has ever changed."""
    rows = connection.execute(select(REVISION.c.kind, REVISION.c.n).where(REVISION.c.project == project))
    return {row.kind: row.n for row in rows}
