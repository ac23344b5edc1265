"""Stopping: all runs of a session are cancelled. Each function is one transaction's work."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

from agent_core import events as e
from agent_core.events import Fact
from agent_core.messages import Actor
from agent_core.store.log import RunRef
from agent_core.store.work import runs, sessions
from agent_core.store.work.runs import Finish


class StopResult(msgspec.Struct, frozen=True):
    """*runs* are the ids of what was cancelled, the active one first; *running* is the one to be interrupted.

    *freed* are keys of runs elsewhere that may have waited for room.
    """

    facts: Sequence[Fact]
    runs: Sequence[str]
    running: RunRef | None
    freed: Sequence[int]


def stop(
    connection: Connection, session: str, *, by: Actor, reason: str | None, finish: Finish, now: int
) -> StopResult:
    """Cancel the active root run and all that are queued: what was said so far is not answered. Raises `NotFound`.

    The queued ones end first and the next gets no owner, so that none of them starts; what joined the active run and
    was not taken opens no next one.
    """
    ref = sessions.hold(connection, session)
    queued = runs.all_queued(connection, ref.key)
    busy = runs.active(connection, ref.key)
    request = e.RunCancelling(by=by, reason=reason, clears=True)
    facts: list[Fact] = []
    freed = set[int]()
    running: RunRef | None = None
    targets = [(run, "queued") for run in reversed(queued)] + ([busy] if busy else [])
    for run, status in targets:
        done = runs.cancel(connection, run, status, request, finish=finish, owner=None, now=now)
        facts += done.facts
        freed |= {done.freed} if done.freed is not None else set()
        running = done.running or running
    names = [run.id for run in ([busy[0]] if busy else []) + queued]
    return StopResult(facts, names, running, sorted(freed - {run.key for run, _ in targets}))
