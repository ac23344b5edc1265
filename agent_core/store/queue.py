"""Which runs wait for whom: the queue, its workers, what is due and what is full."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Subquery,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from agent_core import events as e
from agent_core.agent.state import BLAMELESS
from agent_core.errors import RateLimited
from agent_core.objects import ACTIVE
from agent_core.store.codes import CODES, TYPES
from agent_core.store.database import Statement, literal, literals
from agent_core.store.log import EVENT, RUN, SESSION, RunRef, table_of
from agent_core.store.tables import AgentRow, ServedRow, WorkerRow

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


PROTOCOL = len(TYPES)
"""How many types of facts this version knows. None is ever taken away: who knows more, knows all of these."""
FOREVER = 2**52
"""A timeout, in milliseconds, that never expires a registered worker."""
Kind = Literal["both", "web", "worker"]
WORKER = table_of(WorkerRow)
REAPING, PRUNING = 7_275_540, 7_275_541
"""The advisory locks of what one worker does for all."""
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class now_ms(FunctionElement[int]):  # noqa: N801 - it reads as SQL's own functions do
    """The database's clock, in milliseconds; zero on SQLite, where no worker has a row."""

    type = BigInteger()
    inherit_cache = True


@compiles(now_ms, "postgresql")
def _now_there(_element: now_ms, _compiler: SQLCompiler, **_: Any) -> str:
    return _NOW


@compiles(now_ms, "sqlite")
def _now_here(_element: now_ms, _compiler: SQLCompiler, **_: Any) -> str:
    return "0"


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A process of this database."""

    id: str
    host: str
    pid: int
    kind: Kind
    protocol: int = PROTOCOL


_IS_EXPIRED = WORKER.c.beat_at <= now_ms() - cast(bindparam("b_expire_after"), BigInteger)


def is_free(owner: ColumnElement[str | None]) -> ColumnElement[bool]:
    """Return whether *owner* has expired: no heartbeat for `b_expire_after` milliseconds, or no row at all."""
    return or_(owner.is_(None), ~exists(select(WORKER.c.id).where(WORKER.c.id == owner, ~_IS_EXPIRED)))


# As text: the words for it in Python would import all of SQLAlchemy's Postgres, on SQLite too.
_BEAT = text(
    f"""
        INSERT INTO worker (id, host, pid, kind, protocol, room, running, started_at, beat_at)
        VALUES (:b_id, :b_host, :b_pid, :b_kind, :b_protocol, :b_room, :b_running, {_NOW}, {_NOW})
        ON CONFLICT (id) DO UPDATE
        SET room = excluded.room, running = excluded.running, beat_at = excluded.beat_at
        RETURNING beat_at
        """  # noqa: S608 - constants only
)
_RELEASE = (
    update(RUN)
    .where(
        RUN.c.status.in_(literals("queued", *ACTIVE)),  # word for word the condition of the index `ix_run_open`
        RUN.c.status == literal("running"),
        RUN.c.owner == bindparam("b_id"),
    )
    .values(owner=None)
    .returning(RUN.c.key)
)
_GIVE_BACK = (
    update(RUN)
    .where(RUN.c.key == bindparam("b_key"), RUN.c.epoch == bindparam("b_epoch"), RUN.c.status == literal("running"))
    .values(owner=None)
)
_LEAVE = delete(WORKER).where(WORKER.c.id == bindparam("b_id"))
_EXPIRED = select(WORKER.c.id).where(_IS_EXPIRED)  # not hot: it runs through another driver too
_NEWER = select(func.count()).where(
    RUN.c.status.in_(literals("queued", *ACTIVE)),
    or_(RUN.c.status == literal("queued"), (RUN.c.status == literal("running")) & is_free(RUN.c.owner)),
    RUN.c.session == SESSION.c.key,
    exists().where(
        EVENT.c.session == SESSION.c.key, EVENT.c.seq >= SESSION.c.window_seq, EVENT.c.type.not_in(literals(*TYPES))
    ),
)


def heartbeat(connection: Connection, worker: Worker, *, room: int, running: int) -> int:
    """Note that *worker* lives, drives *running* runs and may drive *room* more; return the time, in milliseconds."""
    values = {f"b_{name}": value for name, value in msgspec.structs.asdict(worker).items()}
    return connection.execute(_BEAT, {**values, "b_room": room, "b_running": running}).scalar_one()


def leave(connection: Connection, worker: str) -> list[int]:
    """Take *worker* off the list and its name off its runs; return their keys, for others to go on with."""
    released: list[int] = [row[0] for row in connection.execute(_RELEASE, {"b_id": worker})]
    connection.execute(_LEAVE, {"b_id": worker})
    return released


def give_back_run(connection: Connection, run: RunRef) -> None:
    """Take the owner's name off *run*, unless another one has taken it since."""
    connection.execute(_GIVE_BACK, {"b_key": run.key, "b_epoch": run.epoch})


def expired_workers(connection: Connection, expire_after: int) -> list[str]:
    """Return the ids of the workers without a heartbeat for *expire_after* milliseconds."""
    return list(connection.execute(_EXPIRED, {"b_expire_after": expire_after}).scalars())


def registered_workers(connection: Connection) -> set[str]:
    """Return the ids of all registered workers."""
    return set(connection.execute(select(WORKER.c.id)).scalars())


def newer_runs(connection: Connection, expire_after: int) -> int:
    """Return how many runs wait for a worker of a newer version: they have no driver, and this one cannot read them."""
    return connection.execute(_NEWER, {"b_expire_after": expire_after}).scalar_one()


def wins(connection: Connection, lock: int) -> bool:
    """Take *lock* until the commit, unless another has it; return whether it was free."""
    return bool(connection.execute(select(func.pg_try_advisory_xact_lock(lock))).scalar())


def reap_workers(connection: Connection, workers: Sequence[str], expire_after: int) -> None:
    """Remove the rows of *workers* that are still expired; other workers take their runs."""
    connection.execute(delete(WORKER).where(WORKER.c.id.in_(workers), _IS_EXPIRED), {"b_expire_after": expire_after})


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
                or_(RUN.c.owner == bindparam("b_owner"), is_free(RUN.c.owner)),
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

_OWNERLESS = select(RUN.c.key).where(RUN.c.key == bindparam("b_key"), is_free(RUN.c.owner))
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
    connection.execute(_SET, {"b_key": key, "b_due": _NEWS})


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


MAX_QUEUED = 100
"""Runs of one session that may wait: no person types more than that ahead of the answers."""
RETRY_AFTER = 5
"""Seconds after which a post that was refused is worth another try."""
_LOCK_CLASS = 7_275_539
"""Tells our locks from other advisory ones; the second number of each is the agent's key."""

_LOCK = select(func.pg_advisory_xact_lock(literal(_LOCK_CLASS), cast(bindparam("b_agent"), Integer)))
_IS_QUEUED_ROOT = (RUN.c.parent.is_(None), RUN.c.status == literal("queued"))  # and of `ix_run_queued_root`
_RUNNING = (
    select(func.count())
    .select_from(RUN)
    .where(IS_OPEN, RUN.c.status == literal("running"), RUN.c.parent.is_(None), RUN.c.agent == bindparam("b_agent"))
)

IS_NEXT = (IS_OPEN, *_IS_QUEUED_ROOT, IS_FREE, IS_FIRST)
_NEXT_OF_AGENT = of_agent(RUN.c.key, where=(*IS_NEXT, RUN.c.agent == bindparam("b_agent"), RUN.c.due_at.is_(None)))
_IN_SESSION = Statement(
    select(func.count()).select_from(RUN).where(RUN.c.session == bindparam("b_session"), *_IS_QUEUED_ROOT)
)
_WAITING = select(func.count()).select_from(RUN).where(IS_OPEN, RUN.c.status == literal("queued"))


def admits(connection: Connection, agent: int, cap: int | None, *, run: int | None = None) -> bool:
    """Return whether a root run of *agent* may start now: there is room under *cap*, and it is next.

    *run* is the key of a queued run; a new one has none, and comes after those that wait. Holds until the commit.
    """
    if cap is None:
        return True
    if connection.dialect.name == "postgresql":  # on SQLite there is one writer anyway
        connection.execute(_LOCK, {"b_agent": agent})
    free: int = cap - connection.execute(_RUNNING, {"b_agent": agent}).scalar_one()
    if free <= 0:
        return False
    first = connection.execute(_NEXT_OF_AGENT, {"b_agent": agent, "b_limit": free}).scalars().all()
    return run in first or len(first) < free


def first_waiting(connection: Connection, agent: int) -> int | None:
    """Return the key of the agent's run that is to start next, of those that wait for nothing but room."""
    return connection.execute(_NEXT_OF_AGENT, {"b_agent": agent, "b_limit": 1}).scalar()


def queued_in(connection: Connection, session: int) -> int:
    """Return how many runs of *session* wait."""
    return _IN_SESSION.run(connection, b_session=session).scalar_one()


def refusal_of(session: str, queued: int) -> RateLimited | None:
    """Return what a message to *session*, in which *queued* wait, is answered when that is too many."""
    if queued < MAX_QUEUED:
        return None
    text = f"{queued} messages wait in session `{session}`; send this one again when some are answered."
    return RateLimited(text, RETRY_AFTER, limit="session")


def count_queued(connection: Connection) -> int:
    """Return how many runs are queued over all sessions."""
    return connection.execute(_WAITING).scalar_one()


LIVE = 10_000
"""Milliseconds within which a process that lives has beaten."""
_BY_STATUS = select(RUN.c.status, func.count()).where(IS_OPEN).group_by(RUN.c.status)
_ALIVE = select(WORKER.c.kind, func.count()).where(WORKER.c.beat_at > now_ms() - literal(LIVE)).group_by(WORKER.c.kind)
_OLDEST = (
    select(EVENT.c.time)
    .select_from(RUN.join(EVENT, (EVENT.c.session == RUN.c.session) & (EVENT.c.seq == RUN.c.first_seq)))
    .where(*IS_NEXT)
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
        runs={row[0]: row[1] for row in connection.execute(_BY_STATUS)},
        waits=0.0 if oldest is None else max(0, now - oldest) / 1000,
        workers={row[0]: row[1] for row in connection.execute(_ALIVE)},
    )
