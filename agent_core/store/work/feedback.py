"""Feedback: what people think of runs. Each function is one transaction's work."""

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent_core.messages import Actor
from agent_core.objects import Feedback, Rating
from agent_core.quotas import Origin
from agent_core.store.log import RUN, SESSION, table_of
from agent_core.store.statements import Statement
from agent_core.store.work import quotas, runs
from agent_core.store.work.tables import FeedbackRow

MAX_OWN = 500
"""Ratings of one person that are read at once: pages draw fewer answers."""
_FEEDBACK = table_of(FeedbackRow)
_OF = Statement(
    select(_FEEDBACK).where(_FEEDBACK.c.run == bindparam("b_run")).order_by(_FEEDBACK.c.created_at, _FEEDBACK.c.actor)
)


def give(
    connection: Connection, run: str, *, by: Actor, rating: Rating, comment: str | None, origin: Origin, now: int
) -> Feedback:
    """Store the feedback of *by* on *run*, replacing their earlier one; raises `NotFound`, `RateLimited`."""
    ref, _ = runs.hold(connection, run)
    theirs = (_FEEDBACK.c.run == ref.key) & (_FEEDBACK.c.kind == by.kind) & (_FEEDBACK.c.actor == by.id)
    gone = delete(_FEEDBACK).where(theirs).returning(_FEEDBACK.c.charged, _FEEDBACK.c.stored)
    before, size = connection.execute(gone).first(), len((comment or "").encode())
    if before is not None and before.charged is not None:
        quotas.take_off(connection, [(ref.agent, before.charged, before.stored)])
    is_more = size > ((before and before.stored) or 0)
    charged = quotas.keep_comment(connection, ref.agent, by, origin, size, is_more=is_more, now=now)
    values = {"run": ref.key, "kind": by.kind, "actor": by.id, "name": by.name, "rating": rating, "comment": comment}
    counted = {"charged": charged, "stored": None if charged is None else size}
    connection.execute(insert(_FEEDBACK).values(**values, **counted, created_at=now))
    return Feedback(run=ref.id, actor=by, rating=rating, comment=comment, created_at=now)


def of_actor(connection: Connection, session: str, by: Actor) -> tuple[Feedback, ...]:
    """Return the feedback of *by* on the runs of *session*, the newest first, `MAX_OWN` at most."""
    joined = _FEEDBACK.join(RUN, RUN.c.key == _FEEDBACK.c.run).join(SESSION, SESSION.c.key == RUN.c.session)
    theirs = (SESSION.c.id == session) & (_FEEDBACK.c.kind == by.kind) & (_FEEDBACK.c.actor == by.id)
    query = select(RUN.c.id, _FEEDBACK.c.rating, _FEEDBACK.c.comment, _FEEDBACK.c.created_at).select_from(joined)
    rows = connection.execute(query.where(theirs).order_by(_FEEDBACK.c.created_at.desc()).limit(MAX_OWN))
    return tuple(
        Feedback(run=run, actor=by, rating=rating, comment=comment, created_at=at) for run, rating, comment, at in rows
    )


def of(connection: Connection, key: int, run: str) -> tuple[Feedback, ...]:
    """Return what people think of the run *run*, whose key is *key*, oldest first."""
    return tuple(
        Feedback(
            run=run,
            actor=Actor(row.actor, row.kind, row.name),
            rating=row.rating,
            comment=row.comment,
            created_at=row.created_at,
        )
        for row in _OF.run(connection, b_run=key)
    )
