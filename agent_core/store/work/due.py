"""Due: the runs that need a look, whether anything drives them and how far they got: one transaction's work each."""

import msgspec
from sqlalchemy import Connection, and_, bindparam, or_, select, update

from agent_core import events as e
from agent_core.loop.state import BLAMELESS
from agent_core.store.codes import CODES
from agent_core.store.log import EVENT, RUN, RunRef
from agent_core.store.statements import Statement, literal, literals
from agent_core.store.work import workers
from agent_core.store.work.queue import IS_FIRST, IS_FREE, IS_OPEN, of_all

_NEWS = 0
"""The deadline of a running run whose driver is to read the news: it is always in the past."""
_ALL = 2**31


class Due(msgspec.Struct, frozen=True):
    """A run that needs a look; *owner* has driven it so far."""

    key: int
    id: str
    epoch: int
    status: str
    owner: str | None
    due_at: int | None

    @property
    def has_news(self) -> bool:
        """Return whether its driver must stop and read the news: a cancel, which it may have missed."""
        return self.status == "running" and self.due_at == _NEWS


_COLUMNS = (RUN.c.key, RUN.c.id, RUN.c.epoch, RUN.c.status, RUN.c.owner, RUN.c.due_at)
_FOUND = select(*_COLUMNS)
_BEGUN = Statement(
    _FOUND.where(
        IS_OPEN,
        or_(
            and_(
                RUN.c.status == literal("running"),
                or_(RUN.c.owner == bindparam("b_owner"), workers.is_free(RUN.c.owner)),
            ),
            and_(RUN.c.status.in_(literals("waiting", "requires_action")), RUN.c.due_at <= bindparam("b_now")),
        ),
    ).order_by(RUN.c.key)
)
_QUEUED = Statement(
    of_all(
        *_COLUMNS,
        where=(
            IS_OPEN,
            RUN.c.status == literal("queued"),
            or_(RUN.c.due_at.is_(None), RUN.c.due_at <= bindparam("b_now")),
            IS_FREE,
            or_(RUN.c.parent.is_not(None), IS_FIRST),
        ),
    )
)
_SET = update(RUN).where(RUN.c.key == bindparam("b_key")).values(due_at=bindparam("b_due"))
_WAKE = (
    update(RUN)
    .where(RUN.c.key == bindparam("b_key"), RUN.c.status.in_(literals("waiting", "requires_action")))
    .values(status="running", owner=None, due_at=bindparam("b_now"))
    .returning(RUN.c.key)
)
_NEXT = Statement(
    select(RUN.c.due_at).where(IS_OPEN, RUN.c.due_at > bindparam("b_after")).order_by(RUN.c.due_at).limit(1)
)

_OWNERLESS = select(RUN.c.key).where(RUN.c.key == bindparam("b_key"), workers.is_free(RUN.c.owner))
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


def due(connection: Connection, now: int, *, owner: str = "", expire_after: int = 0, limit: int = _ALL) -> list[Due]:
    """Return the runs of *owner* and those without a live owner, those past their deadline, and those that may start.

    An owner has expired without a heartbeat for *expire_after* milliseconds. Of those that are queued, with nothing
    before them in their session and room under the cap of their agent, the first *limit* of the queue are returned, in
    its order.
    """
    begun = _BEGUN.run(connection, b_owner=owner, b_expire_after=expire_after, b_now=now)
    queued = _QUEUED.run(connection, b_now=now, b_limit=limit) if limit else ()
    return [Due(*row) for row in (*begun, *queued)]


def next_deadline(connection: Connection, after: int) -> int | None:
    """Return the earliest deadline of an open run later than *after*, in milliseconds."""
    return _NEXT.run(connection, b_after=after).scalar()


def set_deadline(connection: Connection, key: int, at: int) -> None:
    """Have the run looked at at *at* milliseconds, whatever its state is then."""
    connection.execute(_SET, {"b_key": key, "b_due": at})


def wake(connection: Connection, key: int, now: int) -> bool:
    """Make a waiting run running, for the first worker that takes it; return whether it waited.

    It is running without an owner, so the sweep finds it even if the notification is lost.
    """
    return connection.execute(_WAKE, {"b_key": key, "b_now": now}).first() is not None


def note_news(connection: Connection, key: int) -> None:
    """Have the driver of a running run stop and read the news, even if no call reaches it."""
    set_deadline(connection, key, _NEWS)


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


def is_ownerless(connection: Connection, key: int, expire_after: int) -> bool:
    """Return whether the run's owner has no heartbeat for *expire_after* milliseconds."""
    return connection.execute(_OWNERLESS, {"b_key": key, "b_expire_after": expire_after}).first() is not None
