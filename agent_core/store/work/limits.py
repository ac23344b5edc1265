"""Limits: how many runs of an agent may run at once, and how much may wait. Each function is one transaction's work.

A start of a run of a capped agent takes the agent's lock, after the session's, until the commit: a transaction has
one session and one agent, so no two wait for each other. For agents without a cap no statement is run.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Integer, bindparam, cast, exists, func, select

from agent_core.domain.objects import ACTIVE
from agent_core.errors import RateLimited
from agent_core.store.log import RUN, table_of
from agent_core.store.statements import Statement, literal, literals
from agent_core.store.tables import AgentRow

MAX_QUEUED = 100
"""Runs of one session that may wait: no person types more than that ahead of the answers."""
RETRY_AFTER = 5
"""Seconds after which a post that was refused is worth another try."""
_LOCK_CLASS = 7_275_539
"""Tells our locks from other advisory ones; the second number of each is the agent's key."""
_LAST = 2**62

_AGENT = table_of(AgentRow)
CAP = select(_AGENT.c.max_runs).where(_AGENT.c.key == RUN.c.agent).scalar_subquery()
"""How many runs of a run's agent may run at once, as the agent's newest version says; for statements on `run`."""

_LOCK = select(func.pg_advisory_xact_lock(literal(_LOCK_CLASS), cast(bindparam("b_agent"), Integer)))
IS_OPEN = RUN.c.status.in_(literals("queued", *ACTIVE))  # word for word the condition of the index `ix_run_open`
_QUEUED = (RUN.c.parent.is_(None), RUN.c.status == literal("queued"))  # and of `ix_run_queued_root`
_RUNNING = (
    select(func.count())
    .select_from(RUN)
    .where(IS_OPEN, RUN.c.status == literal("running"), RUN.c.parent.is_(None), RUN.c.agent == bindparam("b_agent"))
)

_ACTIVE, _EARLIER = RUN.alias("active_run"), RUN.alias("earlier_run")
IS_FIRST = ~exists().where(
    _EARLIER.c.session == RUN.c.session,
    _EARLIER.c.parent.is_(None),
    _EARLIER.c.status == literal("queued"),
    _EARLIER.c.input_seq < RUN.c.input_seq,
)
IS_NEXT = (
    IS_OPEN,
    *_QUEUED,
    ~exists().where(
        _ACTIVE.c.session == RUN.c.session, _ACTIVE.c.parent.is_(None), _ACTIVE.c.status.in_(literals(*ACTIVE))
    ),
    IS_FIRST,
)
_AHEAD = (
    select(RUN.c.key)
    .where(*IS_NEXT, RUN.c.agent == bindparam("b_agent"), RUN.c.due_at.is_(None), RUN.c.key < bindparam("b_before"))
    .order_by(RUN.c.key)
    .limit(bindparam("b_limit"))
)
_IN_SESSION = Statement(select(func.count()).select_from(RUN).where(RUN.c.session == bindparam("b_session"), *_QUEUED))
_WAITING = select(func.count()).select_from(
    select(RUN.c.key).where(IS_OPEN, RUN.c.status == literal("queued")).limit(bindparam("b_limit")).subquery()
)


class Found(Protocol):
    """A run that a sweep found; *max_runs* is given for queued root runs only."""

    @property
    def agent(self) -> int: ...
    @property
    def max_runs(self) -> int | None: ...


F = TypeVar("F", bound=Found)


def admits(connection: Connection, agent: int, cap: int | None, *, before: int = _LAST) -> bool:
    """Return whether a root run of *agent* may start now: there is room under *cap*, and no older one has precedence.

    *before* is the run's key, which gives its age; a new run is younger than all. Holds until the commit.
    """
    if cap is None:
        return True
    if connection.dialect.name == "postgresql":  # on SQLite there is one writer anyway
        connection.execute(_LOCK, {"b_agent": agent})
    free = cap - _running(connection, agent)
    if free <= 0:
        return False
    ahead = connection.execute(_AHEAD, {"b_agent": agent, "b_before": before, "b_limit": free}).all()
    return len(ahead) < free


def first_waiting(connection: Connection, agent: int) -> int | None:
    """Return the key of the agent's oldest run that waits for nothing but room."""
    return connection.execute(_AHEAD, {"b_agent": agent, "b_before": _LAST, "b_limit": 1}).scalar()


def startable(connection: Connection, found: Sequence[F]) -> list[F]:
    """Leave out of *found*, oldest first, the queued runs for which their agents have no room."""
    caps = {run.agent: run.max_runs for run in found if run.max_runs is not None}
    free = {agent: cap - _running(connection, agent) for agent, cap in caps.items()}
    left: list[F] = []
    for run in found:
        if run.max_runs is not None:
            free[run.agent] -= 1
        if run.max_runs is None or free[run.agent] >= 0:
            left.append(run)
    return left


def queued_in(connection: Connection, session: int) -> int:
    """Return how many runs of *session* wait."""
    return _IN_SESSION.run(connection, b_session=session).scalar_one()


def refusal_of(session: str, queued: int) -> RateLimited | None:
    """Return what a message to *session*, in which *queued* wait, is answered when that is too many."""
    if queued < MAX_QUEUED:
        return None
    text = f"{queued} messages wait in session `{session}`; send this one again when some are answered."
    return RateLimited(text, RETRY_AFTER)


def _running(connection: Connection, agent: int) -> int:
    return connection.execute(_RUNNING, {"b_agent": agent}).scalar_one()


def count_queued(connection: Connection, *, limit: int) -> int:
    """Return how many runs are queued over all sessions, counting no further than *limit*."""
    return connection.execute(_WAITING, {"b_limit": limit}).scalar_one()
