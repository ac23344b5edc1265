"""Workers: which processes on a Postgres live, by its own clock. Each function is one transaction's work.

On SQLite there is one process and no heartbeats: the table is empty there.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
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

from agent_core.objects import ACTIVE
from agent_core.store.codes import TYPES
from agent_core.store.log import EVENT, RUN, SESSION, RunRef, table_of
from agent_core.store.statements import literal, literals
from agent_core.store.tables import WorkerRow

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


def give_back(connection: Connection, run: RunRef) -> None:
    """Take the owner's name off *run*, unless another one has taken it since."""
    connection.execute(_GIVE_BACK, {"b_key": run.key, "b_epoch": run.epoch})


def expired(connection: Connection, expire_after: int) -> list[str]:
    """Return the ids of the workers without a heartbeat for *expire_after* milliseconds."""
    return list(connection.execute(_EXPIRED, {"b_expire_after": expire_after}).scalars())


def registered(connection: Connection) -> set[str]:
    """Return the ids of all registered workers."""
    return set(connection.execute(select(WORKER.c.id)).scalars())


def newer_runs(connection: Connection, expire_after: int) -> int:
    """Return how many runs wait for a worker of a newer version: they have no driver, and this one cannot read them."""
    return connection.execute(_NEWER, {"b_expire_after": expire_after}).scalar_one()


def wins(connection: Connection, lock: int) -> bool:
    """Take *lock* until the commit, unless another has it; return whether it was free."""
    return bool(connection.execute(select(func.pg_try_advisory_xact_lock(lock))).scalar())


def reap(connection: Connection, workers: Sequence[str], expire_after: int) -> None:
    """Remove the rows of *workers* that are still expired; other workers take their runs."""
    connection.execute(delete(WORKER).where(WORKER.c.id.in_(workers), _IS_EXPIRED), {"b_expire_after": expire_after})
