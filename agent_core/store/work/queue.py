"""The queue: which of the runs that wait starts next, over all sessions. Each function is one transaction's work.

Operators' runs come before those of people. Within a lane the next run is one of the actor who has the fewest under
way; of these, of the actor who was served or has begun to wait longest ago. So everybody's runs are started in rounds,
whoever has many waits with them, and who asks for the first time waits for one run of each of the others at most. The
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
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    text,
)

from agent_core.domain.objects import ACTIVE
from agent_core.store.log import RUN, RunRef, table_of
from agent_core.store.statements import Statement, word, words
from agent_core.store.tables import AgentRow, ServedRow

SERVED, _AGENT = table_of(ServedRow), table_of(AgentRow)
IS_OPEN = RUN.c.status.in_(words("queued", *ACTIVE))  # word for word the condition of the index `ix_run_open`
CAP = select(_AGENT.c.max_runs).where(_AGENT.c.key == RUN.c.agent).scalar_subquery()
"""How many runs of a run's agent may run at once, as the agent's newest version says; for statements on `run`."""
_ACTIVE, _EARLIER, _BUSY = RUN.alias("active_run"), RUN.alias("earlier_run"), RUN.alias("busy_run")
IS_FIRST = ~exists().where(
    _EARLIER.c.session == RUN.c.session,
    _EARLIER.c.parent.is_(None),
    _EARLIER.c.status == word("queued"),
    _EARLIER.c.input_seq < RUN.c.input_seq,
)
IS_FREE = ~exists().where(
    _ACTIVE.c.session == RUN.c.session, _ACTIVE.c.parent.is_(None), _ACTIVE.c.status.in_(words(*ACTIVE))
)
_IS_BUSY = (
    _BUSY.c.status.in_(words("queued", *ACTIVE)),  # as for `IS_OPEN`
    _BUSY.c.status == word("running"),
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


def in_order(*columns: Any, where: Sequence[ColumnElement[bool]], capped: bool = False) -> Select[Any]:
    """Select *columns* of the queued runs that satisfy *where*, the next one first.

    *columns* are of `run`, *where* leaves at most one root run of each session. *capped*: only those for which their
    agents have room.
    """
    rows, names = _numbered(columns, where), [str(each.key) for each in columns]
    order = (rows.c.q_lane, rows.c.q_busy + rows.c.q_own, _later(rows.c.q_since, rows.c.q_served), rows.c.q_key)
    if not capped:
        return select(*(rows.c[name] for name in names)).order_by(*order)
    running = select(func.count()).where(*_IS_BUSY, _BUSY.c.agent == rows.c.q_agent).correlate(rows).scalar_subquery()
    nth = func.row_number().over(partition_by=rows.c.q_agent, order_by=order)
    room = case((rows.c.q_cap.is_not(None), rows.c.q_cap - running))
    ranked = select(
        rows, nth.label("q_nth"), room.label("q_room"), *(each.label(f"q_order_{n}") for n, each in enumerate(order))
    ).subquery()
    return (
        select(*(ranked.c[name] for name in names))
        .where(or_(ranked.c.q_room.is_(None), ranked.c.q_nth <= ranked.c.q_room))
        .order_by(*(ranked.c[f"q_order_{n}"] for n in range(len(order))))
    )


def _numbered(columns: Sequence[Any], where: Sequence[ColumnElement[bool]]) -> Subquery:
    """Select the runs of each actor numbered in the order in which the actor has them started."""
    is_child = RUN.c.parent.is_not(None)
    age = func.row_number().over(partition_by=(RUN.c.lane, RUN.c.actor, RUN.c.agent), order_by=RUN.c.key)
    aged = (
        select(
            *columns,
            RUN.c.key.label("q_key"),
            RUN.c.agent.label("q_agent"),
            RUN.c.actor.label("q_actor"),
            case((is_child, word(-1)), else_=RUN.c.lane).label("q_lane"),
            case((is_child, None), else_=CAP).label("q_cap"),
            _later(RUN.c.queued_at, func.coalesce(SERVED.c.at, word(0))).label("q_since"),
            age.label("q_n"),
        )
        .select_from(RUN.outerjoin(SERVED, and_(SERVED.c.actor == RUN.c.actor, SERVED.c.agent == RUN.c.agent)))
        .where(*where)
        .subquery()
    )
    busy = select(_BUSY.c.actor, func.count().label("n")).where(*_IS_BUSY).group_by(_BUSY.c.actor).subquery()
    served = select(func.max(SERVED.c.at)).where(SERVED.c.actor == aged.c.q_actor).scalar_subquery()
    own = func.row_number().over(
        partition_by=(aged.c.q_lane, aged.c.q_actor), order_by=(aged.c.q_n, aged.c.q_since, aged.c.q_key)
    )
    return (
        select(
            aged,
            own.label("q_own"),
            func.coalesce(busy.c.n, word(0)).label("q_busy"),
            func.coalesce(served, word(0)).label("q_served"),
        )
        .select_from(aged.outerjoin(busy, busy.c.actor == aged.c.q_actor))
        .subquery()
    )


def note_start(connection: Connection, run: RunRef, now: int) -> None:
    """Note that *run*, which was queued, is started: its actor's next one comes after those of the others."""
    _NOTE.run(connection, b_actor=run.actor, b_agent=run.agent, b_now=now)
