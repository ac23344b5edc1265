"""Progress: how far a run got, and whether anything drives it. Each function is one transaction's work."""

import msgspec
from sqlalchemy import Connection, bindparam, select

from agent_core.domain import events as e
from agent_core.loop.state import BLAMELESS
from agent_core.store.codes import CODES
from agent_core.store.log import EVENT, RUN, RunRef
from agent_core.store.statements import literal, literals
from agent_core.store.work import workers

_PAUSES = (0, 1, 5, 30, 120)
"""Seconds before a resume, by the number of resumes without progress."""
_RESUME_OR_PROGRESS = ("run.resumed", "step.completed", "tool.completed", "run.waiting")
_PROGRESS = (
    select(EVENT.c.type, EVENT.c.data)
    .where(
        EVENT.c.session == bindparam("b_session"),
        EVENT.c.run == bindparam("b_run"),
        EVENT.c.seq >= bindparam("b_first"),
    )
    .where(EVENT.c.type.in_(literals(*map(CODES.__getitem__, _RESUME_OR_PROGRESS))))
    .order_by(EVENT.c.seq.desc())
    .limit(literal(4 * len(_PAUSES)))
)


def failed_resumes(connection: Connection, run: RunRef) -> int:
    """Count the resumes of *run* since its last progress; those that no crash caused do not count."""
    count = 0
    values = {"b_session": run.session, "b_run": run.key, "b_first": run.first_seq}
    for row in connection.execute(_PROGRESS, values):
        if row.type != CODES["run.resumed"]:
            break
        count += msgspec.json.decode(row.data, type=e.RunResumed).cause not in BLAMELESS
    return count


def pause_after(failed: int) -> int:
    """Return how many seconds to wait before the next resume of a run, after *failed* ones without progress."""
    return _PAUSES[min(failed, len(_PAUSES) - 1)]


_FREE = select(RUN.c.key).where(RUN.c.key == bindparam("b_key"), workers.is_free(RUN.c.owner))


def is_free(connection: Connection, key: int, expire_after: int) -> bool:
    """Return whether the run's owner has no heartbeat for *expire_after* milliseconds."""
    return connection.execute(_FREE, {"b_key": key, "b_expire_after": expire_after}).first() is not None
