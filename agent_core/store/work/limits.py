"""Limits: how many runs of an agent may run at once, and how much may wait. Each function is one transaction's work.

A start of a run of a capped agent takes the agent's lock, after the session's, until the commit: a transaction has
one session and one agent, so no two wait for each other. For agents without a cap no statement is run.
"""

from sqlalchemy import Connection, Integer, bindparam, cast, func, select

from agent_core.errors import RateLimited
from agent_core.store.log import RUN
from agent_core.store.statements import Statement, literal
from agent_core.store.work.queue import IS_FIRST, IS_FREE, IS_OPEN, of_agent

MAX_QUEUED = 100
"""Runs of one session that may wait: no person types more than that ahead of the answers."""
RETRY_AFTER = 5
"""Seconds after which a post that was refused is worth another try."""
_LOCK_CLASS = 7_275_539
"""Tells our locks from other advisory ones; the second number of each is the agent's key."""

_LOCK = select(func.pg_advisory_xact_lock(literal(_LOCK_CLASS), cast(bindparam("b_agent"), Integer)))
_QUEUED = (RUN.c.parent.is_(None), RUN.c.status == literal("queued"))  # and of `ix_run_queued_root`
_RUNNING = (
    select(func.count())
    .select_from(RUN)
    .where(IS_OPEN, RUN.c.status == literal("running"), RUN.c.parent.is_(None), RUN.c.agent == bindparam("b_agent"))
)

IS_NEXT = (IS_OPEN, *_QUEUED, IS_FREE, IS_FIRST)
_NEXT = of_agent(RUN.c.key, where=(*IS_NEXT, RUN.c.agent == bindparam("b_agent"), RUN.c.due_at.is_(None)))
_IN_SESSION = Statement(select(func.count()).select_from(RUN).where(RUN.c.session == bindparam("b_session"), *_QUEUED))
_WAITING = select(func.count()).select_from(RUN).where(IS_OPEN, RUN.c.status == literal("queued"))


def admits(connection: Connection, agent: int, cap: int | None, *, run: int | None = None) -> bool:
    """Return whether a root run of *agent* may start now: there is room under *cap*, and it is next.

    *run* is the key of a queued run; a new one has none, and comes after those that wait. Holds until the commit.
    """
    if cap is None:
        return True
    if connection.dialect.name == "postgresql":  # on SQLite there is one writer anyway
        connection.execute(_LOCK, {"b_agent": agent})
    free = cap - _running(connection, agent)
    if free <= 0:
        return False
    first = connection.execute(_NEXT, {"b_agent": agent, "b_limit": free}).scalars().all()
    return run in first or len(first) < free


def first_waiting(connection: Connection, agent: int) -> int | None:
    """Return the key of the agent's run that is to start next, of those that wait for nothing but room."""
    return connection.execute(_NEXT, {"b_agent": agent, "b_limit": 1}).scalar()


def queued_in(connection: Connection, session: int) -> int:
    """Return how many runs of *session* wait."""
    return _IN_SESSION.run(connection, b_session=session).scalar_one()


def refusal_of(session: str, queued: int) -> RateLimited | None:
    """Return what a message to *session*, in which *queued* wait, is answered when that is too many."""
    if queued < MAX_QUEUED:
        return None
    text = f"{queued} messages wait in session `{session}`; send this one again when some are answered."
    return RateLimited(text, RETRY_AFTER, limit="session")


def _running(connection: Connection, agent: int) -> int:
    return connection.execute(_RUNNING, {"b_agent": agent}).scalar_one()


def count_queued(connection: Connection) -> int:
    """Return how many runs are queued over all sessions."""
    return connection.execute(_WAITING).scalar_one()
