"""What model calls used and cost, summed as they are written; each function is one transaction's work.

A row per actor, session and UTC day. An append that records a billed call runs one statement more, others none.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Connection, String, Table, bindparam, delete, text, update

from agent_core import events as e
from agent_core.channels import channel_of
from agent_core.events import FactBody
from agent_core.messages import Actor, Usage
from agent_core.quotas import DAY, charge_of
from agent_core.store.log import RUN, RunRef, table_of
from agent_core.store.statements import Statement
from agent_core.store.tables import DEFAULT_PROJECT
from agent_core.store.work.tables import SpendingRow

SPENDING: Table = table_of(SpendingRow)
BILLED = (e.StepCompleted, e.StepFailed, e.ContextCompacted, e.CompactionFailed)
"""Facts that end a model call; those without `usage` were not billed."""
TOKENS = Usage.__struct_fields__
SUMS = (*TOKENS, "cost", "uncached_cost")
_COUNTS = ("runs", "steps", "unmeasured", "unpriced")
_PLACE = ("day", "agent", "channel", "actor", "session")
_COLUMNS = (*_PLACE, "project", "run", *_COUNTS, *SUMS)


def _plus(name: str) -> str:
    """Add to the sum *name*; what is unknown changes nothing."""
    return f"{name} = COALESCE(spending.{name} + excluded.{name}, spending.{name}, excluded.{name})"


# A run that is billed again is counted already; rows that are merged (their `run` is 0) count all of theirs.
_RUNS = "CASE WHEN excluded.run <> 0 AND spending.run = excluded.run THEN 0 ELSE excluded.runs END"
_MERGE = ", ".join(
    (
        f"runs = spending.runs + {_RUNS}",
        "run = excluded.run",
        *(f"{name} = spending.{name} + excluded.{name}" for name in _COUNTS[1:]),
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


def bill(connection: Connection, run: RunRef, bodies: Sequence[FactBody], *, now: int) -> None:
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
