"""Notes: facts that the next run of a session shows the model. Each function is one transaction's work."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import CompoundSelect, Connection, bindparam, insert, select, union_all, update

from agent_core import events as e
from agent_core.agent.state import (
    ANSWERED,
    BLAMELESS,
    DUE,
    HANDED_OVER,
    NO_CARRY_OVER,
    RESTARTED,
    CarryOver,
    RunState,
    replay,
)
from agent_core.channels import NO_OPTIONS, RunOptions, SteeredContext, read_options
from agent_core.errors import NewerRun, NotFound
from agent_core.events import Fact, FactBody
from agent_core.ids import new_id
from agent_core.objects import ACTIVE, ENDED
from agent_core.store import approvals, log, queue, quotas
from agent_core.store.codes import TYPES
from agent_core.store.database import Statement, literal, literals, required
from agent_core.store.log import EVENT, RUN, SESSION, Appended, RunRef, SessionKey
from agent_core.store.tables import DEFAULT_PROJECT

_READ = select(SESSION.c.noted).where(SESSION.c.key == bindparam("b_key"))
_SET = update(SESSION).where(SESSION.c.key == bindparam("b_key")).values(noted=bindparam("b_noted"))
_SEQS = msgspec.json.Decoder(tuple[int, ...])


def seqs_of(noted: bytes | None) -> tuple[int, ...]:
    """Return the seqs that a session's row holds."""
    return () if noted is None else _SEQS.decode(noted)


def change_notes(
    connection: Connection, session: int, *, add: Collection[int] = (), drop: Collection[int] = ()
) -> None:
    """Add *add* to the notes for the next run of a session, which is locked, and remove *drop*."""
    noted = seqs_of(connection.execute(_READ, {"b_key": session}).scalar())
    wanted = tuple(sorted({*noted, *add} - set(drop)))
    if wanted != noted:
        connection.execute(_SET, {"b_key": session, "b_noted": msgspec.json.encode(wanted) if wanted else None})


def consume_notes(connection: Connection, session: int, noted: bytes | None) -> tuple[int, ...]:
    """Return the notes for the run that starts now; *noted* is what the session's row holds."""
    if noted is not None:
        connection.execute(_SET, {"b_key": session, "b_noted": None})
    return seqs_of(noted)


def keep_steering(connection: Connection, run: RunRef, seq: int, settings: Mapping[str, Any], *, waiting: int) -> None:
    """Keep *settings* for the tools with the message at *seq* of *run*, before which *waiting* wait for a step.

    The run goes on with its own; this is for the next one, if that opens with the message.
    """
    options = read_options(run.options)
    left = options.steered[len(options.steered) - waiting :] if waiting < len(options.steered) else options.steered
    changed = replace(options, steered=(*left, SteeredContext(seq, dict(settings))))
    connection.execute(update(RUN).where(RUN.c.key == run.key).values(options=msgspec.json.encode(changed)))


def options_of(connection: Connection, ended: int, seq: int) -> bytes | None:
    """Return the options of the run that opens with the message at *seq*, which joined the run *ended*."""
    stored = connection.execute(select(RUN.c.options).where(RUN.c.key == ended)).scalar()
    contexts = (each.tool_context for each in read_options(stored).steered if each.seq == seq)
    options = RunOptions(tool_context=next(contexts, None))
    return None if options == NO_OPTIONS else msgspec.json.encode(options)


WOKEN = "rung"
Finish = Callable[[RunState], Sequence[FactBody]]

_COLUMNS = (
    RUN.c.key,
    RUN.c.id,
    RUN.c.session,
    SESSION.c.id.label("session_id"),
    RUN.c.parent,
    RUN.c.status,
    RUN.c.epoch,
    RUN.c.owner,
    RUN.c.due_at,
    RUN.c.agent,
    RUN.c.agent_version,
    RUN.c.snapshot,
    RUN.c.first_seq,
    RUN.c.options,
    RUN.c.actor,
    RUN.c.queued_at,
    RUN.c.charged,
    RUN.c.asker,
    SESSION.c.address,
    SESSION.c.prefix,
    SESSION.c.window_seq,
    SESSION.c.noted,
    SESSION.c.redactions,
)
_SELECT = select(*_COLUMNS, log.PARENT.c.id.label("parent_id")).select_from(
    RUN.join(SESSION, SESSION.c.key == RUN.c.session).outerjoin(log.PARENT, log.PARENT.c.key == RUN.c.parent)
)
_BY_ID = Statement(_SELECT.where(RUN.c.id == bindparam("b_id"), RUN.c.project == bindparam("b_project")))
_BY_KEY = Statement(_SELECT.where(RUN.c.key == bindparam("b_key")))
_ACTIVE = Statement(
    _SELECT.where(RUN.c.session == bindparam("b_session"), RUN.c.parent.is_(None), RUN.c.status.in_(literals(*ACTIVE)))
)
_ALL_QUEUED = (
    _SELECT.add_columns(queue.CAP.label("max_runs"))
    .where(RUN.c.session == bindparam("b_session"), RUN.c.parent.is_(None), RUN.c.status == literal("queued"))
    .order_by(RUN.c.input_seq)
)
_QUEUED = Statement(_ALL_QUEUED.limit(1))
_SET_STATUS = Statement(
    update(RUN)
    .where(RUN.c.key == bindparam("b_key"))
    .values(status=bindparam("b_status"), owner=None, due_at=bindparam("b_due"), last_seq=bindparam("b_last"))
    .returning(queue.CAP.label("max_runs"))
)
_HOLD = Statement(
    update(RUN)
    .where(RUN.c.key == bindparam("b_key"))
    .values(status="running", epoch=bindparam("b_epoch"), owner=bindparam("b_owner"), due_at=bindparam("b_due"))
)
_SET_PREFIX = update(SESSION).where(SESSION.c.key == bindparam("b_session")).values(prefix=bindparam("b_prefix"))
_NEW = (
    "project", "id", "session", "agent", "agent_version", "status", "epoch", "owner", "input_seq", "first_seq",
    "snapshot", "options", "actor", "queued_at", "charged", "asker",
)  # fmt: skip
_INSERT = Statement(insert(RUN).values({name: bindparam(f"b_{name}") for name in _NEW}).returning(RUN.c.key))


class Ended(msgspec.Struct, frozen=True):
    """*facts* that were written; *started* is the next run of the session, now to be driven.

    *freed* is the key of a run that may have waited for this end: the next of a capped agent, or the session's next
    where this worker has no room.
    """

    facts: list[Fact]
    started: RunRef | None = None
    freed: int | None = None


class Cancelled(msgspec.Struct, frozen=True):
    """What a cancel did: *running* is the run whose driver must be interrupted, None when nothing is left to do."""

    facts: list[Fact]
    running: RunRef | None = None
    started: RunRef | None = None
    freed: int | None = None
    was_over: bool = False


def hold(connection: Connection, run: str, project: int = DEFAULT_PROJECT) -> tuple[RunRef, str]:
    """Return the run named *run*, its session locked as `log.lock` does, and its status; raises `NotFound`."""
    row = _held(connection, _BY_ID.run(connection, b_id=run, b_project=project).first())
    if row is None:
        raise NotFound("run", run)
    return _ref(row), row.status


def _held(connection: Connection, row: Any) -> Any:
    """Return the run of *row* as it is once its session is locked."""
    if row is None:
        return None
    log.lock(connection, row.session)
    return _BY_KEY.run(connection, b_key=row.key).first()


def find(connection: Connection, run: str, project: int = DEFAULT_PROJECT) -> tuple[RunRef, str]:
    """Return the run named *run* and its status; raises `NotFound`."""
    row = required(_BY_ID.run(connection, b_id=run, b_project=project), "run", run)
    return _ref(row), row.status


def active(connection: Connection, session: int) -> tuple[RunRef, str] | None:
    """Return the session's active root run and its status."""
    row = _ACTIVE.run(connection, b_session=session).first()
    return (_ref(row), row.status) if row else None


def next_queued(connection: Connection, session: int) -> RunRef | None:
    """Return the queued root run whose message came first."""
    row = _QUEUED.run(connection, b_session=session).first()
    return _ref(row) if row else None


def all_queued(connection: Connection, session: int) -> list[RunRef]:
    """Return the session's queued root runs, in message order."""
    return [_ref(row) for row in connection.execute(_ALL_QUEUED, {"b_session": session})]


def open_roots(*columns: Any) -> CompoundSelect[*tuple[Any, ...]]:
    """Select *columns* of a session's active and queued root runs; ended ones are not looked at."""
    roots = select(*columns).where(RUN.c.session == bindparam("b_session"), RUN.c.parent.is_(None))
    # A query per partial index; asking for `input_seq` keeps SQLite from the index of all the session's runs.
    queued = roots.where(RUN.c.status == literal("queued"), RUN.c.input_seq > literal(0))
    return union_all(roots.where(RUN.c.status.in_(literals(*ACTIVE))), queued)


def create(connection: Connection, run: RunRef, *, owner: str | None, input_seq: int, project: int) -> RunRef:
    """Insert *run*, running when *owner* is given, else queued; return it with its key."""
    status = "running" if owner else "queued"
    fields: dict[str, Any] = {"project": project, "status": status, "owner": owner, "input_seq": input_seq}
    values = {f"b_{name}": fields[name] if name in fields else getattr(run, name) for name in _NEW}
    key = _INSERT.run(connection, **values).scalar_one()
    return replace(run, key=key)


def append(
    connection: Connection,
    run: RunRef,
    record: Sequence[FactBody],
    announcement: Sequence[FactBody],
    *,
    after: int,
    now: int,
    left: CarryOver = NO_CARRY_OVER,
    owner: str | None = None,
) -> Appended:
    """Append as `log.append` does, and let the run's row follow a wait or an end that was written.

    *left* is what no step consumed. With *owner* the session's next queued run is started in the same transaction.
    """
    written = log.append(connection, run, record, announcement, after=after, now=now)
    if not written.whole:
        connection.execute(_RELEASE, {"b_key": run.key})
    approvals.follow(connection, run, [*record, *(announcement if written.announced else ())], now=now)
    last = announcement[-1] if announcement else None
    ends = written.announced and isinstance(last, e.TERMINAL)
    quotas.bill(connection, run, record, ended=ends, now=now)
    quotas.bill_costs(connection, run, record, now=now)
    if not written.announced or not isinstance(last, (*e.TERMINAL, e.RunWaiting)):
        return written
    ended = settle(connection, run, last, written.facts[-1].seq, left=left, owner=owner, now=now)
    facts = [*written.facts, *ended.facts]
    return Appended(facts, written.missed, announced=True, started=ended.started, freed=ended.freed)


def settle(
    connection: Connection,
    run: RunRef,
    last: e.Terminal | e.RunWaiting,
    seq: int,
    *,
    left: CarryOver,
    owner: str | None,
    now: int,
) -> Ended:
    """Let the rows follow *last*, the fact *seq* that ended *run* or put it to wait; start what comes next."""
    if isinstance(last, e.RunWaiting):
        status = "requires_action" if "client" in last.on else "waiting"
        end = approvals.first_end(connection, run.key) if "approval" in last.on else None
        cap = _SET_STATUS.run(connection, b_key=run.key, b_status=status, b_last=None, b_due=end).scalar()
        return Ended([], freed=queue.first_waiting(connection, run.agent) if cap else None)
    status = last.type.partition(".")[2]
    cap = _SET_STATUS.run(connection, b_key=run.key, b_status=status, b_last=seq, b_due=None).scalar()
    if run.parent is not None:
        return Ended([])
    adopted = _adopt(connection, run, left.messages, now) if left.messages else []
    if left.notes:
        change_notes(connection, run.session, add=left.notes)
    started = (
        start_next(connection, SessionKey(run.session, run.session_id), owner=owner, now=now) if owner else Ended([])
    )
    freed = queue.first_waiting(connection, run.agent) if cap else None
    if freed is None and owner is None and (waits := next_queued(connection, run.session)):
        freed = waits.key
    return Ended([*adopted, *started.facts], started.started, freed)


def start_next(connection: Connection, session_key: SessionKey, *, owner: str, now: int) -> Ended:
    """Start the session's first queued run for *owner*; not while another is active, or its agent's cap is reached."""
    if active(connection, session_key.key):
        return Ended([])
    row = _QUEUED.run(connection, b_session=session_key.key).first()
    if row is None or not queue.admits(connection, row.agent, row.max_runs, run=row.key):
        return Ended([])
    run = replace(_ref(row), epoch=row.epoch + 1)
    begun = e.RunStarted(epoch=run.epoch, notes=consume_notes(connection, session_key.key, row.noted))
    bodies = [begun, *freeze(connection, run, row.prefix)]
    _HOLD.run(connection, b_key=run.key, b_epoch=run.epoch, b_owner=owner, b_due=None)
    queue.note_start(connection, run, now)
    first = log.take_seqs(connection, session_key.key, len(bodies))
    return Ended(log.write(connection, session_key, first, [(run, body) for body in bodies], now=now), run)


def freeze(connection: Connection, run: RunRef, prefix: str) -> list[FactBody]:
    """Return the fact that changes the session's prompt prefix, when *run* needs another than *prefix*."""
    if run.snapshot == prefix:
        return []
    connection.execute(_SET_PREFIX, {"b_session": run.session, "b_prefix": run.snapshot})
    return [e.SnapshotFrozen(hash=run.snapshot, reason="run")]


def resume(
    connection: Connection, key: int, *, owner: str, cause: str, expire_after: int, epoch: int | None, now: int
) -> Ended:
    """Take over an interrupted or waiting run by raising its epoch, or start a queued one; ended runs stay ended.

    A running run is taken from an owner without a heartbeat for *expire_after* ms; from *owner* itself unless it was
    only woken: it may be on its way to its driver. Every resume without progress lengthens the pause before the next
    one (`due_at`); progress or a wake-up ends it. One found with another *epoch* is left to the worker that took it
    meanwhile. Raises `NewerRun` when its log has facts that this version does not know.
    """
    row = _held(connection, _BY_KEY.run(connection, b_key=key).first())
    if row is None or row.status in ENDED or epoch not in (None, row.epoch):
        return Ended([])
    if not _is_readable(connection, row):
        if row.owner != owner:
            raise NewerRun(row.id)
        connection.execute(_RELEASE, {"b_key": key})
        return Ended([])
    session_key = SessionKey(row.session, row.session_id)
    if row.status == "queued":
        return start_next(connection, session_key, owner=owner, now=now)
    run = replace(_ref(row), epoch=row.epoch + 1)
    if row.status == "running":
        if cause == WOKEN if row.owner == owner else not queue.is_ownerless(connection, key, expire_after):
            return Ended([])
        nobodys = HANDED_OVER if row.due_at is None else ANSWERED
        cause = nobodys if row.owner is None else RESTARTED if cause == WOKEN else cause
    late = approvals.expire(connection, run, now) if row.status != "running" else []
    if late or (row.status != "running" and cause != WOKEN):
        cause = DUE
    failed = queue.failed_resumes(connection, run)
    if failed and cause not in (WOKEN, *BLAMELESS) and row.due_at is not None and row.due_at > now:
        return Ended([])
    pause = queue.pause_after(failed)
    _HOLD.run(connection, b_key=key, b_epoch=run.epoch, b_owner=owner, b_due=now + pause * 1000 if pause else None)
    first = log.take_seqs(connection, run.session, 1)
    begun = log.write(connection, session_key, first, [(run, e.RunResumed(epoch=run.epoch, cause=cause))], now=now)
    return Ended([*late, *begun], run)


_RELEASE = update(RUN).where(RUN.c.key == bindparam("b_key")).values(owner=None)
_UNKNOWN = (
    select(EVENT.c.seq)
    .where(EVENT.c.session == bindparam("b_session"), EVENT.c.seq >= bindparam("b_first"))
    .where(EVENT.c.type.not_in(literals(*TYPES)))
    .limit(1)
)


def _is_readable(connection: Connection, row: Any) -> bool:
    """Return whether this version knows every type of fact that a driver of the run would read."""
    session_key = {"b_session": row.session, "b_first": min(row.window_seq, row.first_seq)}
    return connection.execute(_UNKNOWN, session_key).first() is None


def cancel(
    connection: Connection,
    run: RunRef,
    status: str,
    request: e.RunCancelling,
    *,
    finish: Finish,
    owner: str | None,
    now: int,
) -> Cancelled:
    """Note the *request*; end the run here when it has no driver (queued, waiting)."""
    if status in ENDED:
        return Cancelled([], was_over=True)
    session_key = SessionKey(run.session, run.session_id)
    own = log.facts_of_run(connection, session_key, run.id, run.first_seq, None)
    if status == "running":  # its driver is notified, or finds this at its next sweep
        queue.note_news(connection, run.key)
    earlier = [fact.body for fact in own if isinstance(fact.body, e.RunCancelling)]
    if status == "running" and any(body.clears or not request.clears for body in earlier):
        return Cancelled([], running=run)
    first = log.take_seqs(connection, run.session, 1)
    facts = log.write(connection, session_key, first, [(run, request)], now=now)
    if status == "running":
        return Cancelled(facts, running=run)
    if owner is not None and not _is_readable(connection, _BY_KEY.run(connection, b_key=run.key).one()):
        owner = None  # what comes next in this session is a newer version's
    state = replay(run.id, [*own, *facts])
    bodies = finish(state)
    first = log.take_seqs(connection, run.session, len(bodies))
    facts += log.write(connection, session_key, first, [(run, body) for body in bodies], now=now)
    e.note_tools(facts, state.waiting.tools)
    approvals.follow(connection, run, bodies, now=now)
    quotas.bill(connection, run, (), ended=True, now=now)
    end = bodies[-1]
    assert isinstance(end, e.TERMINAL)
    ended = settle(connection, run, end, facts[-1].seq, left=state.inbox.carry_over, owner=owner, now=now)
    return Cancelled([*facts, *ended.facts], started=ended.started, freed=ended.freed)


def cancel_named(
    connection: Connection, run: str, request: e.RunCancelling, *, finish: Finish, owner: str | None, now: int
) -> Cancelled:
    """Cancel the run named *run*, see `cancel`; raises `NotFound`."""
    return cancel(connection, *hold(connection, run), request, finish=finish, owner=owner, now=now)


def _adopt(connection: Connection, ended: RunRef, orphans: Sequence[int], now: int) -> list[Fact]:
    """Open a queued run for steered messages that *ended* left unconsumed."""
    session_key = SessionKey(ended.session, ended.session_id)
    first = log.take_seqs(connection, ended.session, 1)
    row = connection.execute(_SESSION_OF_RUN, {"b_key": ended.session}).one()
    options = options_of(connection, ended.key, min(orphans))
    fresh = replace(ended, id=new_id("run"), epoch=0, first_seq=first, snapshot=row.snapshot)
    run = replace(fresh, options=options, queued_at=now)
    run = create(connection, run, owner=None, input_seq=min(orphans), project=row.project)
    return log.write(connection, session_key, first, [(run, e.RunQueued(inputs=tuple(orphans)))], now=now)


_SESSION_OF_RUN = select(SESSION.c.project, SESSION.c.snapshot).where(SESSION.c.key == bindparam("b_key"))


def _ref(row: Any) -> RunRef:
    return RunRef(
        key=row.key,
        id=row.id,
        session=row.session,
        session_id=row.session_id,
        parent=row.parent_id,
        epoch=row.epoch,
        agent=row.agent,
        agent_version=row.agent_version,
        snapshot=row.snapshot,
        first_seq=row.first_seq,
        options=row.options,
        actor=row.actor,
        queued_at=row.queued_at,
        charged=row.charged,
        redactions=row.redactions,
        asker=row.asker,
        address=row.address,
    )
