"""Compactions of sessions in which nothing runs. Each function is one transaction's work."""

import msgspec
from sqlalchemy import Connection

from agent_core.domain import events as e
from agent_core.domain.channels import channel_of
from agent_core.domain.events import Fact
from agent_core.errors import NotFound, SessionBusy
from agent_core.store import log
from agent_core.store.work import quotas, runs, sessions, spending

OUTDATED = "outdated"


class Compacted(msgspec.Struct, frozen=True):
    """The *facts* that were written: none where the session is gone."""

    facts: list[Fact]


def write_idle(
    connection: Connection,
    read: sessions.SessionRef,
    made: e.ContextCompacted | e.CompactionFailed,
    *,
    after: int,
    run: str,
    now: int,
) -> Compacted:
    """Write what was *made* of a session whose newest fact was *after*, and bill it to whom the run *run* was charged.

    It belongs to no run. Where the session is no longer as it was *read* (something came in, it was closed, or a
    person's data was deleted from it) the compaction is given up: what it cost is still in the log. Where it is gone
    the cost counts to its agent alone.
    """
    try:
        ref = sessions.hold(connection, read.id)
        run_ref, _ = runs.find(connection, run)
    except NotFound:
        spending.bill_deleted(connection, read.agent, channel_of(read.address, None), [made], now=now)
        return Compacted([])
    body, is_redacted = made, ref.redactions != read.redactions
    is_late = ref.newest != after or ref.closed or _is_busy(connection, ref)
    if is_redacted or (is_late and isinstance(made, e.ContextCompacted)):  # why a model refused may repeat words too
        text = "The conversation changed while the summary was written."
        body = e.CompactionFailed(
            model=made.model or "",
            code=OUTDATED,
            message=text,
            usage=made.usage,
            cost=made.cost,
            uncached_cost=made.uncached_cost,
        )
    first = log.take_seqs(connection, ref.key, 1)
    facts = log.write(connection, ref.session_key, first, [(None, body)], now=now)
    quotas.bill(connection, run_ref, [body], ended=False, now=now)
    spending.bill(connection, run_ref, [body], now=now)
    return Compacted(facts)


def _is_busy(connection: Connection, ref: sessions.SessionRef) -> bool:
    try:
        sessions.refuse_busy(connection, ref, "compact")
    except SessionBusy:
        return True
    return False
