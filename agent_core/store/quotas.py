"""What was spent and stored, and what of it a quota still allows."""

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    String,
    Subquery,
    Table,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    tuple_,
    union_all,
    update,
)

from agent_core import events as e
from agent_core.channels import channel_of
from agent_core.events import FactBody
from agent_core.ids import new_id
from agent_core.messages import Actor, Usage
from agent_core.quotas import (
    DAY,
    MINUTE,
    NOTHING_SPENT,
    Origin,
    Spending,
    Subject,
    Used,
    charge_of,
    key_of,
    refusal,
    subjects,
    tokens_of,
)
from agent_core.store import database
from agent_core.store.database import Statement, required
from agent_core.store.log import EVENT, RUN, RunRef, table_of
from agent_core.store.tables import DEFAULT_PROJECT, AgentRow, BlobRow, FeedbackRow, QuotaRow, ServedRow, SpendingRow

BLOB = table_of(BlobRow)
JSON = "application/json"


def put_blob(
    connection: Connection,
    session: int | None,
    mime: str,
    data: bytes,
    run: int | None = None,
    *,
    name: str | None = None,
) -> str:
    """Store *data*, which counts as stored by *run*, and return its id: *name*, or a new one."""
    name = name or new_id("blob")
    values = {"project": DEFAULT_PROJECT, "id": name, "session": session, "mime": mime, "data": data, "run": run}
    connection.execute(insert(BLOB).values(**values))
    return name


def get_blob(connection: Connection, name: str) -> tuple[str, bytes]:
    """Return mime type and bytes; raises `NotFound`."""
    query = select(BLOB.c.mime, BLOB.c.data).where(BLOB.c.project == DEFAULT_PROJECT, BLOB.c.id == name).limit(1)
    row = required(connection.execute(query), "blob", name)
    return row.mime, bytes(row.data)


def copy_blobs(connection: Connection, source: int, target: int, without: Collection[str]) -> None:
    """Give the fork *target* its own rows of the blobs of *source* but those *without*, so that it outlives that.

    Those of runs that the fork does not have are left out.
    """
    old, new = RUN.alias("old_run"), RUN.alias("new_run")
    twin = (new.c.session == target) & (new.c.first_seq == old.c.first_seq)
    copied = (
        select(BLOB.c.project, BLOB.c.id, literal(target), BLOB.c.mime, BLOB.c.data, new.c.key)
        .select_from(BLOB.outerjoin(old, old.c.key == BLOB.c.run).outerjoin(new, twin))
        .where(BLOB.c.session == source, BLOB.c.id.not_in(list(without)))
        .where(BLOB.c.run.is_(None) | new.c.key.is_not(None))
    )
    connection.execute(insert(BLOB).from_select(["project", "id", "session", "mime", "data", "run"], copied))


def rewrite_blobs(connection: Connection, session: int, change: Callable[[Any], Any]) -> None:
    """Replace the JSON in the blobs of a session by what *change* makes of it."""
    theirs = (BLOB.c.session == session) & (BLOB.c.mime == JSON)
    for key in connection.execute(select(BLOB.c.key).where(theirs)).scalars().all():
        data = bytes(connection.execute(select(BLOB.c.data).where(BLOB.c.key == key)).scalar_one())
        before = msgspec.json.decode(data)
        after = change(before)
        if after != before:
            connection.execute(update(BLOB).where(BLOB.c.key == key).values(data=msgspec.json.encode(after)))


QUOTA: Table = table_of(QuotaRow)
SERVED: Table = table_of(ServedRow)
_AGENT, _FEEDBACK = table_of(AgentRow), table_of(FeedbackRow)
MAX_REAPED = 1_000
"""Rows that one transaction removes: it is to be over soon."""
SERVED_FOR = 3_600_000
"""Milliseconds for which it matters when an actor was served."""
_COUNTS = Used.__struct_fields__
BILLED = (e.StepCompleted, e.StepFailed, e.ContextCompacted, e.CompactionFailed)
"""Facts that end a model call; those without `usage` were not billed."""
_PAIRS = {
    "minute": ("minute_messages",),
    "day": ("messages", "sessions", "tokens", "cost"),
}


def _added(period: str, count: str) -> str:
    """Add to *count*, which begins again with each *period*; what it was is kept for one period more."""
    return (
        f"{count} = CASE WHEN quota.{period} >= excluded.{period} THEN quota.{count} ELSE 0 END + excluded.{count}, "
        f"{count}_before = CASE WHEN quota.{period} >= excluded.{period} THEN quota.{count}_before "
        f"WHEN quota.{period} = excluded.{period} - 1 THEN quota.{count} ELSE 0 END"
    )


def _upsert(rows: int) -> Statement:
    """Add to the counts of *rows* subjects and return them. As text: both databases have the same words for it."""
    values = ", ".join(
        "(" + ", ".join([":b_agent", f":b_subject_{n}", *(f":b_{count}" for count in _COUNTS)]) + ")"
        for n in range(rows)
    )
    changes = [_added(period, count) for period, counts in _PAIRS.items() for count in counts]
    changes += [
        f"{period} = CASE WHEN quota.{period} > excluded.{period} THEN quota.{period} ELSE excluded.{period} END"
        for period in _PAIRS
    ]
    changes.append(
        "stored = CASE WHEN quota.stored + excluded.stored > 0 THEN quota.stored + excluded.stored ELSE 0 END"
    )
    sql = text(
        f"INSERT INTO quota (agent, subject, {', '.join(_COUNTS)}) VALUES {values} "  # noqa: S608 - names of ours
        f"ON CONFLICT (agent, subject) DO UPDATE SET {', '.join(changes)} RETURNING subject, {', '.join(_COUNTS)}"
    )
    names = ["b_agent", *(f"b_subject_{n}" for n in range(rows)), *(f"b_{count}" for count in _COUNTS)]
    return Statement(sql.bindparams(*(bindparam(name, type_=BigInteger, required=True) for name in names)))


_UPSERTS = {rows: _upsert(rows) for rows in (1, 2, 3)}
_SIZE_OF_BLOBS = (
    select(func.sum(func.length(BLOB.c.data)))
    .where(BLOB.c.session == bindparam("b_session"), BLOB.c.run == bindparam("b_run"))
    .scalar_subquery()
)
_SIZE = Statement(
    select(func.sum(func.length(EVENT.c.data)), _SIZE_OF_BLOBS).where(
        EVENT.c.session == bindparam("b_session"),
        EVENT.c.seq >= bindparam("b_first"),
        EVENT.c.run == bindparam("b_run"),
    )
)
_OF_EVENTS = select(EVENT.c.run, func.length(EVENT.c.data).label("size")).where(
    EVENT.c.session == bindparam("b_session")
)
_OF_BLOBS = select(BLOB.c.run, func.length(BLOB.c.data).label("size")).where(BLOB.c.session == bindparam("b_session"))
_OF_COMMENTS = (
    select(RUN.c.agent, _FEEDBACK.c.charged, func.sum(_FEEDBACK.c.stored))
    .join(_FEEDBACK, _FEEDBACK.c.run == RUN.c.key)
    .where(_FEEDBACK.c.charged.is_not(None))
    .group_by(RUN.c.agent, _FEEDBACK.c.charged)
)


def _kept_bytes(sizes: Subquery) -> Select[Any, Any, Any]:
    """Sum the *sizes* of what runs keep by those whom they are charged to."""
    return (
        select(RUN.c.agent, RUN.c.charged, func.sum(sizes.c.size))
        .join(sizes, sizes.c.run == RUN.c.key)
        .where(RUN.c.session == bindparam("b_session"), RUN.c.charged.is_not(None), RUN.c.last_seq.is_not(None))
        .group_by(RUN.c.agent, RUN.c.charged)
    )


_KEPT = _kept_bytes(union_all(_OF_EVENTS, _OF_BLOBS).subquery())
_KEPT_IN = _kept_bytes(_OF_BLOBS.where(BLOB.c.id.in_(bindparam("b_blobs", expanding=True))).subquery())
_LEFT = QUOTA.c.stored - bindparam("b_stored", type_=BigInteger)
_GIVE_BACK = (
    update(QUOTA)
    .where(QUOTA.c.agent == bindparam("b_agent"), QUOTA.c.subject.in_(bindparam("b_subjects", expanding=True)))
    .values(stored=case((_LEFT > 0, _LEFT), else_=0))
)
_OLD = (
    select(QUOTA.c.agent, QUOTA.c.subject)
    .where(QUOTA.c.stored == database.literal(0), QUOTA.c.day < bindparam("b_day"))
    .limit(bindparam("b_limit"))
)
_REAP = delete(QUOTA).where(tuple_(QUOTA.c.agent, QUOTA.c.subject).in_(_OLD))
_REAP_SERVED = delete(SERVED).where(SERVED.c.at < bindparam("b_at"))


class AgentBounds(msgspec.Struct, frozen=True):
    """What an agent's row says of its limits: its cap on runs and its quotas, as JSON."""

    max_runs: int | None = None
    quotas: bytes | None = None


def take(
    connection: Connection,
    agent: int,
    quotas: bytes | None,
    actor: Actor,
    origin: Origin,
    spent: Spending,
    *,
    now: int,
) -> bytes | None:
    """Count *spent* towards the *quotas* of an agent and return who is charged, for the run's row.

    Raises `RateLimited` when it is too much for one of them: the transaction then leaves nothing.
    """
    charged = subjects(quotas, actor, origin)
    if not charged:
        return None
    rows = _spend(connection, agent, [each.key for each in charged], spent, now)
    for subject in charged:
        _refuse(subject, rows[subject.key], spent, now)
    return _packed([each.key for each in charged])


def open_copy(
    connection: Connection,
    agent: int,
    quotas: bytes | None,
    actor: Actor,
    origin: Origin,
    stored: int,
    *,
    now: int,
) -> bytes | None:
    """Count a session that is opened with *stored* bytes in it and return who is charged, as `take` does.

    Raises `RateLimited` too when no message could follow, which is not counted yet.
    """
    spent = Spending(messages=1, sessions=1, stored=stored)
    charged = take(connection, agent, quotas, actor, origin, spent, now=now)
    if charged is not None:
        _spend(connection, agent, _keys(charged), Spending(messages=-1), now)
    return charged


def charge(connection: Connection, session: int, charged: bytes) -> None:
    """Note who is *charged* for what the runs of *session*, all ended, keep: its deletion gives it back."""
    connection.execute(update(RUN).where(RUN.c.session == session).values(charged=charged))


def size_of_copy(connection: Connection, session: int, last: int) -> int:
    """Return the bytes that a copy of *session* up to seq *last* keeps of runs: what `give_back` takes off."""
    events = select(func.sum(func.length(EVENT.c.data))).where(
        EVENT.c.session == session, EVENT.c.seq <= last, EVENT.c.run.is_not(None)
    )
    of_runs = (
        select(func.sum(func.length(BLOB.c.data)))
        .join(RUN, RUN.c.key == BLOB.c.run)
        .where(BLOB.c.session == session, RUN.c.first_seq <= last)
    )
    return sum(int(connection.execute(query).scalar() or 0) for query in (events, of_runs))


def check_stored(
    connection: Connection, agent: int, quotas: bytes | None, actor: Actor, origin: Origin, stored: int, *, now: int
) -> None:
    """Raise `RateLimited` when *stored* bytes more are too much for one of the *quotas* of an agent; count nothing."""
    bound = [each for each in subjects(quotas, actor, origin) if each.quota.stored_bytes is not None]
    if not bound:
        return
    query = select(QUOTA.c.subject, QUOTA.c.stored).where(
        QUOTA.c.agent == agent, QUOTA.c.subject.in_([each.key for each in bound])
    )
    bytes_of = {row.subject: row.stored for row in connection.execute(query)}
    for each in bound:
        _refuse(each, Used(stored=bytes_of.get(each.key, 0) + stored), Spending(stored=stored), now)


def keep_comment(
    connection: Connection, agent: int, by: Actor, origin: Origin, size: int, *, is_more: bool, now: int
) -> bytes | None:
    """Count *size* bytes of a comment as stored by its author and return who is charged, as `take` does.

    Raises `RateLimited` when *is_more* than they had before and too much for one of their quotas.
    """
    bounds = connection.execute(select(_AGENT.c.quotas).where(_AGENT.c.key == agent)).scalar_one()
    charged = subjects(bounds, by, origin)
    if not charged or not size:
        return None
    rows = _spend(connection, agent, [each.key for each in charged], Spending(stored=size), now)
    for each in charged if is_more else ():  # of what else was used a comment uses nothing
        _refuse(each, Used(stored=rows[each.key].stored), Spending(stored=size), now)
    return _packed([each.key for each in charged])


def give_back_comments(connection: Connection, actor: str) -> None:
    """Take the comments of *actor*, which are about to be deleted, off the counts."""
    take_off(connection, connection.execute(_OF_COMMENTS.where(_FEEDBACK.c.actor == actor)).all())


def bill(connection: Connection, run: RunRef, bodies: Sequence[FactBody], *, ended: bool, now: int) -> None:
    """Count what *bodies*, just written by the driver of *run*, cost; and when it has *ended* what is kept of it."""
    if run.charged is None:
        return
    billed = [body for body in bodies if isinstance(body, BILLED)]
    spent = Spending(
        tokens=sum(tokens_of(body.usage) for body in billed),
        cost=sum(charge_of(body.cost) for body in billed),
        stored=_size_of(connection, run) if ended else 0,
    )
    if spent != NOTHING_SPENT:
        _spend(connection, run.agent, _keys(run.charged), spent, now)


def give_back(connection: Connection, session: int) -> None:
    """Take what is kept of the runs of *session*, which is about to be deleted, off the counts."""
    take_off(connection, connection.execute(_KEPT, {"b_session": session}).all())
    take_off(connection, connection.execute(_OF_COMMENTS.where(RUN.c.session == session)).all())


def give_back_blobs(connection: Connection, session: int, names: Collection[str]) -> None:
    """Take the blobs *names*, which are about to be deleted, off the counts; those of runs in progress are not in."""
    if names:
        parameters = {"b_session": session, "b_blobs": list(names)}
        take_off(connection, connection.execute(_KEPT_IN, parameters).all())


def take_off(connection: Connection, rows: Iterable[Any]) -> None:
    """Take *rows*, each with an agent's key, who is charged and bytes, off the counts."""
    for agent, charged, stored in rows:
        values = {"b_agent": agent, "b_subjects": _keys(charged), "b_stored": stored}
        connection.execute(_GIVE_BACK, values)


def forget(connection: Connection, actor: str) -> None:
    """Delete what is counted of the person *actor*, and the numbers that stand for them in their runs."""
    keys = [key_of(kind, actor) for kind in ("visitor", "user")]
    connection.execute(delete(QUOTA).where(QUOTA.c.subject.in_(keys)))
    connection.execute(delete(SERVED).where(SERVED.c.actor.in_(keys)))
    for run in connection.execute(select(RUN.c.key, RUN.c.charged).where(RUN.c.actor.in_(keys))).all():
        # Others whom the run counts towards keep it, so that its deletion gives them back what it takes.
        others = [each for each in _keys(run.charged or b"") if each not in keys]
        values = {"actor": 0, "charged": _packed(others) if others else None}
        connection.execute(update(RUN).where(RUN.c.key == run.key).values(values))


def reap(connection: Connection, now: int) -> int:
    """Remove the counts that no period includes any more, up to `MAX_REAPED`, and return how many those were."""
    connection.execute(_REAP_SERVED, {"b_at": now - SERVED_FOR})
    return connection.execute(_REAP, {"b_day": now // DAY - 1, "b_limit": MAX_REAPED}).rowcount


def _spend(connection: Connection, agent: int, keys: Sequence[int], spent: Spending, now: int) -> dict[int, Used]:
    """Add *spent* to the counts of *keys*, and return them."""
    counts = dict.fromkeys(_COUNTS, 0) | {
        "minute": now // MINUTE,
        "minute_messages": spent.messages,
        "day": now // DAY,
        **msgspec.structs.asdict(spent),
    }
    parameters = {f"b_subject_{n}": key for n, key in enumerate(keys)} | {f"b_{name}": n for name, n in counts.items()}
    rows = _UPSERTS[len(keys)].run(connection, b_agent=agent, **parameters)
    return {row[0]: Used(**dict(zip(_COUNTS, row[1:], strict=True))) for row in rows}


def _refuse(subject: Subject, used: Used, spent: Spending, now: int) -> None:
    if refused := refusal(subject, used, spent, now):
        raise refused


def _size_of(connection: Connection, run: RunRef) -> int:
    """Return the bytes of the facts and of the blobs of *run*."""
    (sizes,) = _SIZE.run(connection, b_session=run.session, b_first=run.first_seq, b_run=run.key)
    return sum(int(size or 0) for size in sizes)


def _packed(keys: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(keys)}q", *keys)


def _keys(charged: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(charged) // 8}q", charged))


SPENDING: Table = table_of(SpendingRow)
TOKENS = Usage.__struct_fields__
SUMS = (*TOKENS, "cost", "uncached_cost")
_SPENDING_COUNTS = ("runs", "steps", "unmeasured", "unpriced")
_PLACE = ("day", "agent", "channel", "actor", "session")
_COLUMNS = (*_PLACE, "project", "run", *_SPENDING_COUNTS, *SUMS)


def _plus(name: str) -> str:
    """Add to the sum *name*; what is unknown changes nothing."""
    return f"{name} = COALESCE(spending.{name} + excluded.{name}, spending.{name}, excluded.{name})"


# A run that is billed again is counted already; rows that are merged (their `run` is 0) count all of theirs.
_RUNS = "CASE WHEN excluded.run <> 0 AND spending.run = excluded.run THEN 0 ELSE excluded.runs END"
_MERGE = ", ".join(
    (
        f"runs = spending.runs + {_RUNS}",
        "run = excluded.run",
        *(f"{name} = spending.{name} + excluded.{name}" for name in _SPENDING_COUNTS[1:]),
        *map(_plus, SUMS),
    )
)
_INSERT = f"INSERT INTO spending ({', '.join(_COLUMNS)})"
_ON_CONFLICT = f"ON CONFLICT ({', '.join(_PLACE)}) DO UPDATE SET {_MERGE}"


def _add() -> Statement:
    """Add one append's calls to their row. As text: both databases have the same words for it."""
    columns = [name for name in _COLUMNS if name != "agent"]
    values = ["(SELECT id FROM agent WHERE key = :b_agent)" if name == "agent" else f":b_{name}" for name in _COLUMNS]
    texts = ("channel", "actor", "session")
    binds = [bindparam(f"b_{name}", type_=String() if name in texts else BigInteger()) for name in ("agent", *columns)]
    return Statement(text(f"{_INSERT} VALUES ({', '.join(values)}) {_ON_CONFLICT}").bindparams(*binds))


def _moved(emptied: str) -> Any:
    """Add the rows of one id in the column *emptied* to those without one, in the order of their keys.

    Two such transactions lock the same rows in the same order.
    """
    columns = ["''" if name == emptied else "0" if name == "run" else name for name in _COLUMNS]
    rows = f"SELECT {', '.join(columns)} FROM spending WHERE {emptied} = :b_id ORDER BY {', '.join(_PLACE)}"  # noqa: S608
    return text(f"{_INSERT} {rows} {_ON_CONFLICT}").bindparams(bindparam("b_id", type_=String))


_ADD = _add()
_MOVE_SESSION, _MOVE_ACTOR = _moved("session"), _moved("actor")


def asker_of(actor: Actor) -> bytes:
    """Return *actor*, who asks for a run, as the run's row holds it: without a name."""
    return msgspec.json.encode(Actor(actor.id, actor.kind))


def bill_costs(connection: Connection, run: RunRef, bodies: Sequence[FactBody], *, now: int) -> None:
    """Add the model calls that *bodies*, just written by the driver of *run*, record to what its asker has spent."""
    asker = msgspec.json.decode(run.asker, type=Actor) if run.asker else None
    calls = [body for body in bodies if isinstance(body, BILLED) and body.usage is not None]
    if not calls:
        return
    usages = [body.usage for body in calls if body.usage is not None]
    _ADD.run(
        connection,
        b_day=now // DAY,
        b_project=DEFAULT_PROJECT,
        b_steps=sum(isinstance(body, e.StepCompleted) for body in calls),
        b_unmeasured=sum(usage.input is None or usage.output is None for usage in usages),
        b_unpriced=sum(body.cost is None for body in calls),
        b_agent=run.agent,
        b_run=run.key,
        b_runs=1,
        b_channel=channel_of(run.address, asker),
        b_actor=asker.id if asker else "",
        b_session=run.session_id,
        **{f"b_{name}": _total([getattr(usage, name) for usage in usages]) for name in TOKENS},
        b_cost=_total([_nano(body.cost) for body in calls]),
        b_uncached_cost=_total([_nano(body.uncached_cost) for body in calls]),
    )


def forget_session(connection: Connection, session: str) -> None:
    """Keep what was spent in *session*, which is about to be deleted, without its id."""
    connection.execute(_MOVE_SESSION, {"b_id": session})
    connection.execute(delete(SPENDING).where(SPENDING.c.session == session))


def forget_actor(connection: Connection, actor: str) -> None:
    """Keep what the person *actor* spent without their id, and take it out of their runs."""
    connection.execute(_MOVE_ACTOR, {"b_id": actor})
    connection.execute(delete(SPENDING).where(SPENDING.c.actor == actor))
    askers = [asker_of(Actor(actor, kind)) for kind in ("user", "visitor", "service", "agent")]
    connection.execute(update(RUN).where(RUN.c.asker.in_(askers)).values(asker=None))


def _nano(cost: str | None) -> int | None:
    return None if cost is None else charge_of(cost)


def _total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of what is known of *counts*, None if nothing is."""
    counted = [count for count in counts if count is not None]
    return sum(counted) if counted else None
