"""The queue: which of the runs that wait starts next, over all sessions. Each function is one transaction's work.

Child runs come first, since their parents have begun. Else the next run is one of the actor who has the fewest under
way; of these, of the actor who was served or has begun to wait longest ago. So everybody's runs are started in rounds,
an actor with many waits with them, and one who asks for the first time waits for one run of each other at most. The
runs of one actor are ordered in the same manner by agent, and those of an agent by their age.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    text,
)

from agent_core.objects import ACTIVE
from agent_core.store.log import RUN, RunRef, table_of
from agent_core.store.statements import Statement, literal, literals
from agent_core.store.tables import AgentRow, ServedRow

SERVED, _AGENT = table_of(ServedRow), table_of(AgentRow)
IS_OPEN = RUN.c.status.in_(literals("queued", *ACTIVE))  # word for word the condition of the index `ix_run_open`
CAP = select(_AGENT.c.max_runs).where(_AGENT.c.key == RUN.c.agent).scalar_subquery()
"""How many runs of a run's agent may run at once, as the agent's newest version says; for statements on `run`."""
_ACTIVE, _EARLIER, _BUSY = RUN.alias("active_run"), RUN.alias("earlier_run"), RUN.alias("busy_run")
IS_FIRST = ~exists().where(
    _EARLIER.c.session == RUN.c.session,
    _EARLIER.c.parent.is_(None),
    _EARLIER.c.status == literal("queued"),
    _EARLIER.c.input_seq < RUN.c.input_seq,
)
IS_FREE = ~exists().where(
    _ACTIVE.c.session == RUN.c.session, _ACTIVE.c.parent.is_(None), _ACTIVE.c.status.in_(literals(*ACTIVE))
)
_IS_BUSY = (
    _BUSY.c.status.in_(literals("queued", *ACTIVE)),  # as for `IS_OPEN`
    _BUSY.c.status == literal("running"),
    _BUSY.c.parent.is_(None),
)
_NOTE = Statement(
    text(
        "INSERT INTO served (actor, agent, at) SELECT :b_actor, :b_agent, "
        "CASE WHEN latest.at > :b_now THEN latest.at + 1 ELSE :b_now + 1 END "
        "FROM (SELECT coalesce(max(at), 0) AS at FROM served) AS latest WHERE true "
        "ON CONFLICT (actor, agent) DO UPDATE SET at = excluded.at"
    ).bindparams(*(bindparam(name, type_=BigInteger, required=True) for name in ("b_actor", "b_agent", "b_now")))
)


def _later(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one > other, one), else_=other)


def of_agent(*columns: Any, where: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Select *columns* of the first `b_limit` queued runs that satisfy *where*, the next one first.

    *columns* are of `run`; *where* leaves at most one root run of each session, all of one agent.
    """
    rows = _waiting(columns, where)
    return select(*_own(columns, rows)).order_by(*_order(rows, rows.c.q_n)).limit(bindparam("b_limit"))


def of_all(*columns: Any, where: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Do as `of_agent` for the runs of all agents; those for which their agent has no room are left out.

    For each agent the same runs are the first ones as there: one that is found here may start.
    """
    rows = _waiting(columns, where)
    cap = select(_AGENT.c.max_runs).where(_AGENT.c.key == rows.c.q_agent).correlate(rows).scalar_subquery()
    running = select(func.count()).where(*_IS_BUSY, _BUSY.c.agent == rows.c.q_agent).correlate(rows).scalar_subquery()
    nth = func.row_number().over(partition_by=rows.c.q_agent, order_by=_order(rows, rows.c.q_n))
    room = case((rows.c.q_root == literal(1), cap - running))
    placed = select(rows, nth.label("q_nth"), room.label("q_room")).subquery()
    own = func.row_number().over(
        partition_by=(placed.c.q_root, placed.c.q_actor), order_by=(placed.c.q_n, placed.c.q_since, placed.c.q_key)
    )
    has_room = or_(placed.c.q_room.is_(None), placed.c.q_nth <= placed.c.q_room)
    candidates = select(placed, own.label("q_own")).where(has_room).subquery()
    return (
        select(*_own(columns, candidates)).order_by(*_order(candidates, candidates.c.q_own)).limit(bindparam("b_limit"))
    )


def _waiting(columns: Sequence[Any], where: Sequence[ColumnElement[bool]]) -> Subquery:
    """Select queued runs, numbered within their actor and agent by age, with what decides between actors."""
    age = func.row_number().over(partition_by=(RUN.c.actor, RUN.c.agent), order_by=RUN.c.key)
    aged = (
        select(
            *columns,
            RUN.c.key.label("q_key"),
            RUN.c.agent.label("q_agent"),
            RUN.c.actor.label("q_actor"),
            case((RUN.c.parent.is_(None), literal(1)), else_=literal(0)).label("q_root"),
            RUN.c.queued_at.label("q_since"),
            age.label("q_n"),
        )
        .where(*where)
        .subquery()
    )
    busy = select(_BUSY.c.actor, func.count().label("n")).where(*_IS_BUSY).group_by(_BUSY.c.actor).subquery()
    served = select(func.max(SERVED.c.at)).where(SERVED.c.actor == aged.c.q_actor)
    by_agent = served.where(SERVED.c.agent == aged.c.q_agent).scalar_subquery()
    return (
        select(
            *(each for each in aged.c if each.key != "q_since"),
            func.coalesce(busy.c.n, literal(0)).label("q_busy"),
            _later(aged.c.q_since, func.coalesce(by_agent, literal(0))).label("q_since"),
            func.coalesce(served.scalar_subquery(), literal(0)).label("q_served"),
        )
        .select_from(aged.outerjoin(busy, busy.c.actor == aged.c.q_actor))
        .where(aged.c.q_n <= bindparam("b_limit"))
        .subquery()
    )


def _order(rows: Subquery, nth: ColumnElement[int]) -> tuple[ColumnElement[int], ...]:
    """Return the order of the queue; *nth* numbers the runs of one actor."""
    return rows.c.q_root, rows.c.q_busy + nth, _later(rows.c.q_since, rows.c.q_served), rows.c.q_key


def _own(columns: Sequence[Any], rows: Subquery) -> list[ColumnElement[Any]]:
    return [rows.c[str(each.key)] for each in columns]


def note_start(connection: Connection, run: RunRef, now: int) -> None:
    """Note that *run*, which was queued, is started: its actor's next one comes after those of the others."""
    _NOTE.run(connection, b_actor=run.actor, b_agent=run.agent, b_now=now)
