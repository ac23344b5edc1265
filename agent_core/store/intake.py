"""A message is received: what it opens, joins or waits for, in one transaction; and agents that changed meanwhile."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from sqlalchemy import Connection, bindparam, func, insert, select, update

from agent_core import events as e
from agent_core.agent.frames import context_facts, joined_note
from agent_core.agents import Snapshot
from agent_core.channels import INTERRUPTED, Inbound
from agent_core.errors import IdempotencyMismatch, NotFound, RateLimited, SessionBusy, SessionClosed
from agent_core.events import Fact, FactBody
from agent_core.messages import File, Part, text_of
from agent_core.objects import Receipt
from agent_core.quotas import Spending, key_of
from agent_core.store import catalog, files, log, queue, quotas, runs, sessions
from agent_core.store.catalog import keep_snapshot
from agent_core.store.codes import CODES
from agent_core.store.database import Statement, literal
from agent_core.store.log import EVENT, RUN, SESSION, RunRef, table_of
from agent_core.store.runs import Finish
from agent_core.store.sessions import BusySession, SessionRef, StaleAgent, StaleSession
from agent_core.store.tables import DEFAULT_PROJECT, ReceiptRow

RefreezeReason = Literal["idle", "compaction", "asked"]
_MOVE = Statement(
    update(SESSION)
    .where(SESSION.c.key == bindparam("b_session"))
    .values(agent_version=bindparam("b_version"), snapshot=bindparam("b_snapshot"), prefix=bindparam("b_prefix"))
)


class Refreeze(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is to take up: the newest *version* of its agent, with the *snapshot* that this makes here."""

    version: int
    snapshot: Snapshot
    reason: RefreezeReason

    def prefix_after(self, snapshot: str, prefix: str) -> str:
        """Return the prompt in force in a session of *snapshot* that takes this up, in which *prefix* is in force.

        If the session's own prompt is unchanged, that of a run stays in force until the next run.
        """
        return prefix if snapshot == self.snapshot.hash else self.snapshot.hash


class Refrozen(msgspec.Struct, frozen=True):
    """The session as it is afterwards, and the fact that says so, if its prompt is another one now."""

    ref: SessionRef
    facts: list[Fact] = []


def moves(session: SessionRef, wanted: Refreeze, *, after: int, is_busy: bool) -> bool:
    """Return whether a locked *session* is to be moved to what is *wanted*, False if it is there already.

    Raises `StaleAgent` if its agent has a newer version, `BusySession` while it *is_busy*, and `StaleSession` if it has
    facts beyond the seq *after*, up to which it was found to be due.
    """
    if session.newest_version != wanted.version:
        raise StaleAgent
    if (session.agent_version, session.snapshot) == (wanted.version, wanted.snapshot.hash):
        return False
    if is_busy:
        raise BusySession
    if session.newest != after:
        raise StaleSession
    return True


def refreeze(connection: Connection, session: SessionRef, wanted: Refreeze, *, now: int) -> Refrozen:
    """Move a locked, idle *session* to the version and the prompt that are *wanted*.

    The log gets a fact only if the prompt is another than the one in force: thinking survives an equal one.
    """
    new, prefix = wanted.snapshot.hash, wanted.prefix_after(session.snapshot, session.prefix)
    if session.snapshot != new:
        keep_snapshot(connection, wanted.snapshot)
    moved = {"b_version": wanted.version, "b_snapshot": new, "b_prefix": prefix}
    _MOVE.run(connection, b_session=session.key, **moved)
    ref = msgspec.structs.replace(session, agent_version=wanted.version, snapshot=new, prefix=prefix)
    if prefix == session.prefix:
        return Refrozen(ref)
    first = log.take_seqs(connection, session.key, 1)
    frozen = e.SnapshotFrozen(hash=new, reason=wanted.reason)
    facts = log.write(connection, session.session_key, first, [(None, frozen)], now=now)
    return Refrozen(msgspec.structs.replace(ref, newest=first), facts)


def ask_to_refreeze(connection: Connection, name: str, wanted: Refreeze, *, now: int) -> Refrozen:
    """Freeze the session *name* again because an operator asks for it.

    Raises `NotFound`, `SessionClosed`, `SessionBusy`, `StaleAgent`.
    """
    session = sessions.hold(connection, name)
    if session.closed:
        raise SessionClosed(f"Session `{session.id}` is closed; its prompt is not used any more.")
    sessions.refuse_busy(connection, session, "refreeze")
    if not moves(session, wanted, after=session.newest, is_busy=False):
        return Refrozen(session)
    return refreeze(connection, session, wanted, now=now)


_RECEIPT = table_of(ReceiptRow)
BEGINNING = 80
_SEEN = Statement(
    select(
        _RECEIPT.c.digest,
        _RECEIPT.c.seq,
        _RECEIPT.c.message,
        RUN.c.id,
        RUN.c.first_seq,
        SESSION.c.id.label("session_id"),
    )
    .join(RUN, RUN.c.key == _RECEIPT.c.run)
    .join(SESSION, SESSION.c.key == RUN.c.session)
    .where(
        _RECEIPT.c.scope == bindparam("b_scope"),
        _RECEIPT.c.owner == bindparam("b_owner"),
        _RECEIPT.c.name == bindparam("b_name"),
    )
)
_KEEP = Statement(
    insert(_RECEIPT).values(
        {x: bindparam(f"b_{x}") for x in ("scope", "owner", "name", "project", "digest", "run", "seq", "message")}
    )
)
_SET_TITLE = Statement(
    update(SESSION)
    .where(SESSION.c.key == bindparam("b_key"), SESSION.c.title.is_(None))
    .values(title=bindparam("b_title"))
)
_OF_RUN = (EVENT.c.session == bindparam("b_session"), EVENT.c.run == bindparam("b_run"))
_LATEST_STEP = (
    select(EVENT.c.seq)
    .where(*_OF_RUN, EVENT.c.seq > bindparam("b_first"), EVENT.c.type == literal(CODES[e.StepStarted.type]))
    .order_by(EVENT.c.seq.desc())
    .limit(1)
    .scalar_subquery()
)
_NEWEST_MESSAGE = (
    select(EVENT.c.data)
    .where(EVENT.c.session == bindparam("b_session"), EVENT.c.type == literal(CODES[e.MessageReceived.type]))
    .order_by(EVENT.c.seq.desc())
    .limit(1)
)
_STEERED = Statement(
    select(func.count())
    .select_from(EVENT)
    .where(
        *_OF_RUN,
        EVENT.c.seq > func.coalesce(_LATEST_STEP, bindparam("b_first")),
        EVENT.c.type == literal(CODES[e.MessageReceived.type]),
    )
)


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """A message to receive, prepared outside the transaction.

    *agent*, if given, is the id or name of the agent whose session it must be. *run* and *message* are fresh ids;
    *owner* is this worker when it has room to drive another run. *snapshot* is what the run will use, to be stored when
    it is *new_prefix*. *step* is the announcement of the first step, valid if the run starts at once, there is no fact
    beyond the seq *after*, nothing is noted, and the prefix changes exactly if *freezes* says so. *loaded* is the
    session as it was loaded, *refreeze* what it takes up first, if it is due for that. *refusal* is raised if the
    message needs a run of its own, since too many are queued; *refused* unless it is repeated, since a quota has just
    refused the same actor.
    """

    inbound: Inbound
    agent: str | None
    run: str
    message: str
    history: tuple[str, ...]
    snapshot: Snapshot
    new_prefix: bool
    options: bytes | None
    owner: str | None
    after: int
    step: tuple[FactBody, ...]
    freezes: bool
    now: int
    loaded: sessions.SessionRef | None = None
    refreeze: Refreeze | None = None
    refusal: RateLimited | None = None
    refused: RateLimited | None = None

    def foresees(self, session: sessions.SessionRef, *, freezes: bool) -> bool:
        """Return whether *step* is what a run that starts now in *session* announces."""
        return bool(self.step) and self.after == session.newest and not session.noted and self.freezes == freezes


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of receiving a message.

    *started*: the new run if it started, now to be driven; *announced*: its first step is announced; *interrupted*: a
    run to be stopped; *freed*: the key of a run that waits for capacity only; *opened*: the session, if it was opened;
    *refrozen*: the session as it is since it took up what it was due for.
    """

    receipt: Receipt
    opened: sessions.SessionRef | None = None
    facts: list[Fact] = []
    missed: list[Fact] = []
    started: RunRef | None = None
    announced: bool = False
    interrupted: RunRef | None = None
    freed: int | None = None
    refrozen: sessions.SessionRef | None = None


def seen(connection: Connection, inbound: Inbound, owner: int) -> Receipt | None:
    """Return the receipt of an earlier use of the key; raises `IdempotencyMismatch` for another body."""
    if inbound.key is None:
        return None
    row = _SEEN.run(connection, b_scope=inbound.key_scope, b_owner=owner, b_name=inbound.key).first()
    if row is None:
        return None
    if row.digest != inbound.digest:
        raise IdempotencyMismatch(inbound.key)
    return Receipt(
        session=row.session_id,
        message=row.message,
        run=row.id,
        seq=row.seq,
        before=row.first_seq - 1,
        repeated=True,
    )


def receive(connection: Connection, name: str, intake: Intake, finish: Finish) -> Received:
    """Write the message and what follows from it at once in the session *name*, up to the first step of its run.

    Raises `NotFound`, `SessionClosed`, `SessionBusy` (overlap `reject`), `IdempotencyMismatch`, `RateLimited`; for a
    session that is not what it was prepared for `StaleSession`, `StaleAgent`, `BusySession`.
    """
    session, inbound = _hold(connection, name, intake), intake.inbound
    if receipt := seen(connection, inbound, _key_owner(session, inbound)):
        return Received(receipt=receipt)
    if session.closed:
        raise SessionClosed(f"Session `{session.id}` is closed; open a new one.")
    if intake.refused is not None:
        raise intake.refused
    who, spent = (inbound.actor, inbound.origin), Spending(messages=1)
    charged = quotas.take(connection, session.agent, session.bounds.quotas, *who, spent, now=intake.now)
    if inbound.metadata:
        sessions.merge_metadata(connection, session, inbound.metadata)
    intake = _named(connection, session, intake)
    return _place(connection, session, intake, charged, finish)


def _place(
    connection: Connection, session: sessions.SessionRef, intake: Intake, charged: bytes | None, finish: Finish
) -> Received:
    """Add the message to the active run or open a run for it, by its overlap policy."""
    inbound, busy = intake.inbound, runs.active(connection, session.key)
    queued = queue.queued_in(connection, session.key)
    if (wanted := intake.refreeze) is not None:
        is_busy = busy is not None or queued > 0
        if moves(session, wanted, after=intake.after, is_busy=is_busy):
            return _after_refreeze(connection, session, intake, charged, wanted)
    if busy and inbound.overlap == "steer":
        return _join(connection, session, intake, busy[0])
    if inbound.overlap == "reject" and (busy or queued):
        raise SessionBusy(f"Session `{session.id}` is answering; send again when it is idle, or use another `overlap`.")
    if refusal := intake.refusal or queue.refusal_of(session.id, queued):
        raise refusal
    stopped = None
    if busy and inbound.overlap == "interrupt":
        request = e.RunCancelling(by=inbound.actor, reason=INTERRUPTED)
        stopped = runs.cancel(connection, *busy, request, finish=finish, owner=None, now=intake.now)
        busy, queued = runs.active(connection, session.key), queue.queued_in(connection, session.key)
    free = busy is None and not queued
    if stopped is None:
        return _open_run(connection, session, intake, charged, free=free)
    received = _open_run(connection, sessions.find(connection, session.id), intake, charged, free=free)
    freed = received.freed if stopped.freed is None else stopped.freed
    facts = [*stopped.facts, *received.facts]
    return msgspec.structs.replace(received, facts=facts, interrupted=stopped.running, freed=freed)


def _after_refreeze(
    connection: Connection,
    session: sessions.SessionRef,
    intake: Intake,
    charged: bytes | None,
    wanted: Refreeze,
) -> Received:
    """Let a session without a run take up what is *wanted*, and open the run of the message."""
    if refusal := intake.refusal:
        raise refusal
    done = refreeze(connection, session, wanted, now=intake.now)
    intake = msgspec.structs.replace(intake, after=done.ref.newest)
    received = _open_run(connection, done.ref, intake, charged, free=True)
    return msgspec.structs.replace(received, facts=[*done.facts, *received.facts], refrozen=done.ref)


def _hold(connection: Connection, name: str, intake: Intake) -> sessions.SessionRef:
    """Return the session *name*, locked, if it is what *intake* was prepared for; raises `NotFound`, `StaleSession`."""
    session = sessions.hold(connection, name)
    if intake.loaded is not None and intake.loaded.is_outdated(session):
        raise sessions.StaleSession
    if intake.agent is not None and catalog.key_of(connection, intake.agent) != session.agent:
        raise NotFound(f"session of agent `{intake.agent}`", name)
    return session


def receive_first(connection: Connection, opening: sessions.NewSession, snapshot: Snapshot, intake: Intake) -> Received:
    """Open a session with *snapshot* and write its first message, up to the first step of its run.

    A known key opens none. Raises `StaleAgent`, `IdempotencyMismatch`, `RateLimited`.
    """
    bounds = sessions.share_agent(connection, opening)  # first: keys are looked up under the agent as it is now
    if receipt := seen(connection, intake.inbound, opening.agent):
        return Received(receipt=receipt)
    if refusal := intake.refusal or intake.refused:
        raise refusal
    who, spent = (intake.inbound.actor, intake.inbound.origin), Spending(messages=1, sessions=1)
    charged = quotas.take(connection, opening.agent, bounds.quotas, *who, spent, now=intake.now)
    catalog.keep_snapshot(connection, snapshot)
    session, facts = sessions.open_session(connection, opening, bounds)
    received = _open_run(connection, session, intake, charged, free=True)
    return msgspec.structs.replace(received, facts=[*facts, *received.facts], opened=session)


def _join(connection: Connection, session: sessions.SessionRef, intake: Intake, run: RunRef) -> Received:
    """Add the message to the active run, whose next step consumes it; refuse it when too many wait for that."""
    steered = _STEERED.run(connection, b_session=session.key, b_run=run.key, b_first=run.first_seq).scalar_one()
    waiting, inbound = steered + queue.queued_in(connection, session.key), intake.inbound
    if refusal := queue.refusal_of(session.id, waiting):
        raise refusal
    body = _received(intake)
    drafts: list[tuple[RunRef | None, FactBody]] = [(run, each) for each in (*context_facts(inbound.context), body)]
    first = log.take_seqs(connection, session.key, len(drafts))
    facts = log.write(connection, session.session_key, first, drafts, now=intake.now)
    if inbound.tool_context:
        runs.keep_steering(connection, run, facts[-1].seq, inbound.tool_context, waiting=steered)
    receipt = _keep_receipt(connection, session, intake, run, facts[-1].seq)
    return Received(receipt=receipt, facts=facts)


def _open_run(
    connection: Connection, session: sessions.SessionRef, intake: Intake, charged: bytes | None, *, free: bool
) -> Received:
    """Open a run for the message: started at once if the session is *free* and this worker has capacity."""
    first = session.newest + 1
    free_here = free and intake.owner is not None
    missed = log.facts_between(connection, session.session_key, intake.after, first) if free_here else []
    may_start = free_here and log.is_whole(missed, intake.after, first)
    starts = may_start and queue.admits(connection, session.agent, session.bounds.max_runs)
    if intake.new_prefix:
        catalog.keep_snapshot(connection, intake.snapshot, is_held=True)
    run = _draft(session, intake, charged, epoch=1 if starts else 0)
    owner = intake.owner if starts else None
    run = runs.create(connection, run, owner=owner, input_seq=first, project=DEFAULT_PROJECT)
    opening = input_facts(intake)
    count = len(opening)
    frozen = runs.freeze(connection, run, session.prefix) if starts else []
    if starts:
        begun = e.RunStarted(epoch=1, notes=runs.consume_notes(connection, session.key, session.noted))
        opening = [*opening, begun, *frozen]
    is_announced = starts and intake.foresees(session, freezes=bool(frozen))
    bodies = [*opening, *intake.step] if is_announced else opening
    log.take_seqs(connection, session.key, len(bodies))
    facts = log.write(connection, session.session_key, first, [(run, body) for body in bodies], now=intake.now)
    if title := title_of(intake.inbound.parts):
        _SET_TITLE.run(connection, b_key=session.key, b_title=title)
    receipt = _keep_receipt(connection, session, intake, run, first + count - 2)
    started, freed = (run, None) if starts else (None, run.key if free and intake.owner is None else None)
    if not starts:
        missed = []
    return Received(receipt=receipt, facts=facts, missed=missed, started=started, announced=is_announced, freed=freed)


def title_of(parts: Sequence[Part]) -> str:
    """Return what a session is called after its first message, of *parts*: the text, else the first file."""
    names = (part.name for part in parts if isinstance(part, File))
    return (text_of(tuple(parts)) or next(names, ""))[:BEGINNING]


def _draft(session: sessions.SessionRef, intake: Intake, charged: bytes | None, *, epoch: int) -> RunRef:
    """Return the run that the message opens, which has no key yet."""
    inbound = intake.inbound
    return RunRef(
        key=0,
        id=intake.run,
        session=session.key,
        session_id=session.id,
        parent=None,
        epoch=epoch,
        agent=session.agent,
        agent_version=session.agent_version,
        snapshot=intake.snapshot.hash,
        first_seq=session.newest + 1,
        options=intake.options,
        actor=key_of(inbound.actor.kind, inbound.actor.id),
        queued_at=intake.now,
        charged=charged,
        redactions=session.redactions,
        asker=quotas.asker_of(inbound.actor),
        address=session.address,
    )


def input_facts(intake: Intake) -> list[FactBody]:
    """Return the facts that a new run opens with: imported messages, context, the message itself, `run.queued`."""
    inbound = intake.inbound
    imported = [
        e.MessageCompleted(
            message=name, role="assistant" if old.role == "assistant" else "user", parts=old.parts, stop="done"
        )
        for name, old in zip(intake.history, inbound.history, strict=True)
    ]
    return [*imported, *context_facts(inbound.context), _received(intake), e.RunQueued()]


def _named(connection: Connection, session: sessions.SessionRef, intake: Intake) -> Intake:
    """Return *intake* of a message that the model reads with its speaker's name if several people write here.

    The first one by another than the opener says who wrote what has no name; the step that was announced for it does
    not take that, so it is announced again.
    """
    inbound = intake.inbound
    named = sessions.is_named(connection, session, inbound.actor.id)
    if not named or inbound.shared:
        return intake
    before = None if session.shared else connection.execute(_NEWEST_MESSAGE, {"b_session": session.key}).scalar()
    if before is not None:
        opener = msgspec.json.decode(before, type=e.MessageReceived).actor
        inbound = msgspec.structs.replace(inbound, context=(joined_note(opener), *inbound.context))
        intake = msgspec.structs.replace(intake, step=())
    return msgspec.structs.replace(intake, inbound=msgspec.structs.replace(inbound, shared=True))


def _received(intake: Intake) -> e.MessageReceived:
    inbound = intake.inbound
    return e.MessageReceived(
        message=intake.message, actor=inbound.actor, parts=inbound.parts, via=inbound.via, named=inbound.shared
    )


def _keep_receipt(
    connection: Connection, session: sessions.SessionRef, intake: Intake, run: RunRef, seq: int
) -> Receipt:
    inbound = intake.inbound
    files.take(connection, session.key, seq, inbound.parts, actor=inbound.actor, origin=inbound.origin, now=intake.now)
    if intake.inbound.key is not None:
        _KEEP.run(
            connection,
            b_scope=intake.inbound.key_scope,
            b_owner=_key_owner(session, intake.inbound),
            b_name=intake.inbound.key,
            b_project=DEFAULT_PROJECT,
            b_digest=intake.inbound.digest,
            b_run=run.key,
            b_seq=seq,
            b_message=intake.message,
        )
    return Receipt(session=session.id, message=intake.message, run=run.id, seq=seq, before=run.first_seq - 1)


def _key_owner(session: sessions.SessionRef, inbound: Inbound) -> int:
    return session.key if inbound.key_scope == "session" else session.agent
