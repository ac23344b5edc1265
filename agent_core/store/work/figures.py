"""Figures: what is open over all processes, for those who watch. Each function is one transaction's work."""

from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from agent_core.store.log import EVENT, RUN
from agent_core.store.statements import literal
from agent_core.store.work import limits
from agent_core.store.work.workers import WORKER, now_ms

LIVE = 10_000
"""Milliseconds within which a process that lives has beaten."""
_BY_STATUS = select(RUN.c.status, func.count()).where(limits.IS_OPEN).group_by(RUN.c.status)
_ALIVE = select(WORKER.c.kind, func.count()).where(WORKER.c.beat_at > now_ms() - literal(LIVE)).group_by(WORKER.c.kind)
_OLDEST = (
    select(EVENT.c.time)
    .select_from(RUN.join(EVENT, (EVENT.c.session == RUN.c.session) & (EVENT.c.seq == RUN.c.first_seq)))
    .where(*limits.IS_NEXT)
    .order_by(RUN.c.key)
    .limit(1)
)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """*runs* that are open, by status; *waits* is for how many seconds the oldest has waited for a driver.

    *workers* are the processes that live, by kind; none on SQLite.
    """

    runs: dict[str, int]
    waits: float
    workers: dict[str, int]


def figures(connection: Connection, now: int) -> Figures:
    """Return the figures of *now*."""
    oldest = connection.execute(_OLDEST).scalar()
    return Figures(
        runs=_counts(connection.execute(_BY_STATUS)),
        waits=0.0 if oldest is None else max(0, now - oldest) / 1000,
        workers=_counts(connection.execute(_ALIVE)),
    )


def _counts(rows: Any) -> dict[str, int]:
    return {row[0]: row[1] for row in rows}
