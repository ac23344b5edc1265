"""What is written to a session beside its runs: corrections, replies, feedback, stops."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Literal

import msgspec
from sqlalchemy import Connection, Select, bindparam, delete, insert, select, update

from agent_core import events as e
from agent_core.agent.frames import context_facts, reply_fact
from agent_core.agent.state import replay
from agent_core.channels import Context
from agent_core.errors import IdempotencyMismatch, NotFound, SessionClosed
from agent_core.events import Fact, FactBody
from agent_core.messages import Actor, Part, text_of
from agent_core.objects import ENDED, Feedback, Rating
from agent_core.quotas import Origin
from agent_core.store import log, quotas, runs, sessions
from agent_core.store.codes import CODES
from agent_core.store.database import Statement
from agent_core.store.log import EVENT, RUN, SESSION, RunRef, table_of
from agent_core.store.runs import Cancelled, Finish
from agent_core.store.sessions import SessionRef
from agent_core.store.tables import ChangeRow, FeedbackRow, ReceiptRow

MAX_OWN = 500
"""Ratings of one person that are read at once: pages draw fewer answers."""
_FEEDBACK = table_of(FeedbackRow)
_OF = Statement(
    select(_FEEDBACK).where(_FEEDBACK.c.run == bindparam("b_run")).order_by(_FEEDBACK.c.created_at, _FEEDBACK.c.actor)
)


def give_feedback(
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


def feedback_of_actor(connection: Connection, session: str, by: Actor) -> tuple[Feedback, ...]:
    """Return the feedback of *by* on the runs of *session*, the newest first, `MAX_OWN` at most."""
    joined = _FEEDBACK.join(RUN, RUN.c.key == _FEEDBACK.c.run).join(SESSION, SESSION.c.key == RUN.c.session)
    theirs = (SESSION.c.id == session) & (_FEEDBACK.c.kind == by.kind) & (_FEEDBACK.c.actor == by.id)
    query = select(RUN.c.id, _FEEDBACK.c.rating, _FEEDBACK.c.comment, _FEEDBACK.c.created_at).select_from(joined)
    rows = connection.execute(query.where(theirs).order_by(_FEEDBACK.c.created_at.desc()).limit(MAX_OWN))
    return tuple(
        Feedback(run=run, actor=by, rating=rating, comment=comment, created_at=at) for run, rating, comment, at in rows
    )


def feedback_of(connection: Connection, key: int, run: str) -> tuple[Feedback, ...]:
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


_CHANGE, _RECEIPT = table_of(ChangeRow), table_of(ReceiptRow)
_QUOTED = 60
_MAX_ATTACHED = 8
"""Facts before a message that are looked through for what came with it; those of one source are one fact."""
DELETED = "message deleted"
Kind = Literal["correct", "retract", "context", "order", "reply"]
Also = Callable[[Connection, str, int], None]
"""Writes what is committed together with a change of the session with this id, at this time."""


class Changed(msgspec.Struct, frozen=True):
    """A change in the log: the *seq* of its fact; *cancelled* is the end of a run with nothing else to answer.

    *reply* is the fact of a reply, written now or before.
    """

    seq: int
    facts: Sequence[Fact] = ()
    cancelled: Cancelled | None = None
    reply: Fact | None = None


class _Found(msgspec.Struct, frozen=True):
    """A message, its open *run* with *status* and *own* facts (None: it has ended), and its corrections.

    *taken*: a step has consumed the message.
    """

    fact: Fact
    body: e.MessageReceived
    run: RunRef | None
    status: str
    own: list[Fact]
    taken: bool
    corrections: list[Fact]

    @property
    def latest(self) -> tuple[int, tuple[Part, ...]]:
        """What the message says now, and which fact says so; no parts of one that was deleted."""
        last = self.corrections[-1] if self.corrections else self.fact
        assert isinstance(last.body, e.MessageReceived | e.MessageCorrected)
        return last.seq, last.body.parts


def correct(
    connection: Connection,
    session: str,
    name: str,
    parts: tuple[Part, ...],
    *,
    key: str | None,
    order: int | None,
    now: int,
) -> Changed:
    """Write that the message *name* (its id, or the key it came with) says *parts*; raises `NotFound`.

    A correction whose *order* is lower than that of one already written is ignored.

    An open run gets it as news: in the message's place, or as a correction of what a step consumed. If the run has
    ended, the next one gets it. A deleted message stays deleted, and a correction that changes nothing is not written.
    """
    ref = sessions.hold(connection, session)
    if earlier := _seen(connection, ref, key, "correct"):
        return Changed(earlier)
    target = _find(connection, ref, name)
    seq, current = target.latest
    facts: list[Fact] = []
    if current not in ((), parts) and _is_newest(connection, ref, target.fact.seq, order):
        actor = target.body.actor if ref.shared or target.body.named else None
        body = e.MessageCorrected(message=target.body.message, parts=parts, corrects=target.fact.seq, actor=actor)
        facts = _write(connection, ref, [(target.run, body)], now)
        seq = facts[0].seq
        if target.run is None and target.taken:
            runs.change_notes(connection, ref.key, add=[seq])
    _remember(connection, ref, key, "correct", seq)
    return Changed(seq, facts)


def retract(
    connection: Connection,
    session: str,
    name: str,
    *,
    by: Actor,
    key: str | None,
    finish: Finish,
    owner: str | None,
    now: int,
) -> Changed:
    """Write that *by* deleted the message *name*, as `correct` finds it; raises `NotFound`.

    A message that no step has consumed is not sent to the model, and a run with nothing else to answer is cancelled. If
    the model has seen it, a note reports the deletion: in the open run if it takes another step, else in the next one.
    """
    ref = sessions.hold(connection, session)
    if earlier := _seen(connection, ref, key, "retract"):
        return Changed(earlier)
    target = _find(connection, ref, name)
    seq, current = target.latest
    if not current:
        _remember(connection, ref, key, "retract", seq)
        return Changed(seq)
    gone = [target.fact.seq, *(fact.seq for fact in target.corrections)]
    gone += [] if target.taken else _attached(connection, ref, target.fact.seq)
    bodies: list[FactBody] = [e.MessageCorrected(message=target.body.message, parts=(), corrects=each) for each in gone]
    if target.taken:
        bodies.append(e.ContextAdded(source="note", text=_note(by, current)))
    facts = _write(connection, ref, [(target.run, body) for body in bodies], now)
    if target.run is None:
        runs.change_notes(connection, ref.key, add=[facts[-1].seq] if target.taken else [], drop=gone)
    _remember(connection, ref, key, "retract", facts[0].seq)
    done = None if target.taken else _cancel(connection, target, facts, by=by, finish=finish, owner=owner, now=now)
    return Changed(facts[0].seq, [*facts, *done.facts] if done else facts, done)


def add_context(
    connection: Connection, session: str, context: Sequence[Context], *, key: str | None, now: int
) -> Changed:
    """Write context that the next run shows the model before its message; raises `NotFound`, `SessionClosed`."""
    ref = sessions.hold(connection, session)
    if earlier := _seen(connection, ref, key, "context"):
        return Changed(earlier)
    if ref.closed:
        raise SessionClosed(f"Session `{ref.id}` is closed; open a new one.")
    facts = _write(connection, ref, [(None, body) for body in context_facts(context)], now)
    runs.change_notes(connection, ref.key, add=[fact.seq for fact in facts])
    seq = facts[-1].seq if facts else ref.newest
    _remember(connection, ref, key, "context", seq)
    return Changed(seq, facts)


def reply(
    connection: Connection, session: str, message: e.MessageCompleted, *, key: str | None, also: Also | None, now: int
) -> Changed:
    """Write *message*, which a person sends to the user; raises `NotFound`, `SessionClosed`, `IdempotencyMismatch`.

    The message is of no run, so that no run's answer changes by it. The model reads a note of it with its next step: in
    the active run if it takes another one, else in the next run. A reply starts no run.
    """
    assert message.actor is not None
    ref = sessions.hold(connection, session)
    name = None if key is None else f"reply:{hashlib.sha256(key.encode()).hexdigest()}"
    if earlier := _seen(connection, ref, name, "reply"):
        (before,) = log.facts_at(connection, ref.session_key, [earlier])
        body = before.body
        if not isinstance(body, e.MessageCompleted) or (body.parts, body.actor) != (message.parts, message.actor):
            raise IdempotencyMismatch(key or "")
        return Changed(earlier, reply=before)
    if ref.closed:
        raise SessionClosed(f"Session `{ref.id}` is closed; open a new one.")
    busy = runs.active(connection, ref.key)
    note = reply_fact(message.actor, text_of(message.parts))
    facts = _write(connection, ref, [(None, message), (busy[0] if busy else None, note)], now)
    if busy is None:
        runs.change_notes(connection, ref.key, add=[facts[1].seq])
    _remember(connection, ref, name, "reply", facts[0].seq)
    if also is not None:
        also(connection, session, now)
    return Changed(facts[0].seq, facts, reply=facts[0])


def _cancel(
    connection: Connection,
    target: _Found,
    facts: list[Fact],
    *,
    by: Actor,
    finish: Finish,
    owner: str | None,
    now: int,
) -> Cancelled | None:
    """Cancel the open run that had *target* and, after *facts*, has nothing to answer."""
    if target.run is None:
        return None
    state = replay(target.run.id, [*target.own, *facts])
    if state.step.n or state.inbox.user_messages:
        return None
    request = e.RunCancelling(by=by, reason=DELETED)
    return runs.cancel(connection, target.run, target.status, request, finish=finish, owner=owner, now=now)


def _write(
    connection: Connection, ref: SessionRef, drafts: Sequence[tuple[RunRef | None, FactBody]], now: int
) -> list[Fact]:
    first = log.take_seqs(connection, ref.key, len(drafts))
    return log.write(connection, ref.session_key, first, drafts, now=now)


def _find(connection: Connection, ref: SessionRef, name: str) -> _Found:
    fact = _message(connection, ref, name)
    body = fact.body
    assert isinstance(body, e.MessageReceived)
    holder, status = runs.find(connection, _holder(connection, ref, fact))
    own = log.facts_of_run(connection, ref.session_key, holder.id, holder.first_seq, None)
    taken = any(isinstance(each.body, e.StepStarted) and fact.seq in each.body.takes for each in own)
    return _Found(
        fact=fact,
        body=body,
        run=None if status in ENDED else holder,
        status=status,
        own=own,
        taken=taken,
        corrections=_corrections(connection, ref, fact.seq, body.message),
    )


def _message(connection: Connection, ref: SessionRef, name: str) -> Fact:
    """Return the message that came with the key *name*, or has this id; raises `NotFound`."""
    by_key = select(_RECEIPT.c.seq).where(
        _RECEIPT.c.scope == "session", _RECEIPT.c.owner == ref.key, _RECEIPT.c.name == name
    )
    seq = connection.execute(by_key).scalar()
    if seq is None:
        rows = connection.execute(_of_type(ref, e.MessageReceived, 0).order_by(EVENT.c.seq.desc()))
        decoder = msgspec.json.Decoder(e.MessageReceived)
        seq = next((row.seq for row in rows if decoder.decode(row.data).message == name), None)
    if seq is None:
        raise NotFound("message", name)
    return log.facts_at(connection, ref.session_key, [seq])[0]


def _holder(connection: Connection, ref: SessionRef, message: Fact) -> str:
    """Return the id of the run that has *message*: its own, or the one that adopted it when that had ended."""
    run = message.run or ""
    while True:
        last = connection.execute(select(RUN.c.last_seq).where(RUN.c.id == run)).scalar()
        following = log.facts_at(connection, ref.session_key, [last + 1]) if last is not None else []
        opened = following[0].body if following else None
        if not isinstance(opened, e.RunQueued) or message.seq not in opened.inputs:
            return run
        run = following[0].run or ""


def _corrections(connection: Connection, ref: SessionRef, seq: int, message: str) -> list[Fact]:
    rows = connection.execute(_of_type(ref, e.MessageCorrected, seq).order_by(EVENT.c.seq))
    decoder = msgspec.json.Decoder(e.MessageCorrected)
    seqs = [row.seq for row in rows if decoder.decode(row.data).message == message]
    return log.facts_at(connection, ref.session_key, seqs)


def _of_type(ref: SessionRef, kind: type[e.MessageReceived | e.MessageCorrected], after: int) -> Select[int, bytes]:
    return select(EVENT.c.seq, EVENT.c.data).where(
        EVENT.c.session == ref.key, EVENT.c.seq > after, EVENT.c.type == CODES[kind.type]
    )


def _attached(connection: Connection, ref: SessionRef, message: int) -> list[int]:
    """Return the seqs of what came with the message at the seq *message*, right before it."""
    before = log.facts_between(connection, ref.session_key, max(0, message - 1 - _MAX_ATTACHED), message)
    return [fact.seq for fact in takewhile(_is_attached, reversed(before))]


def _is_attached(fact: Fact) -> bool:
    return isinstance(fact.body, e.ContextAdded) and fact.body.attached


def _note(by: Actor, parts: Sequence[Part]) -> str:
    """Return the note that a message was deleted; it quotes its first words, on one line, as a JSON string."""
    begins = " ".join(text_of(tuple(parts)).split())[:_QUOTED]
    name = " ".join((by.name or by.id).split())
    which = f" that begins {msgspec.json.encode(begins).decode()}" if begins else ""
    return f"{name} has deleted the message{which}. Treat it as withdrawn."


def _seen(connection: Connection, ref: SessionRef, key: str | None, kind: Kind) -> int | None:
    """Return the seq that an earlier use of *key* led to; raises `IdempotencyMismatch` if its kind differs."""
    if key is None:
        return None
    same_key = (_CHANGE.c.session == ref.key) & (_CHANGE.c.name == key)
    row = connection.execute(select(_CHANGE.c.kind, _CHANGE.c.seq).where(same_key)).first()
    if row is not None and row.kind != kind:
        raise IdempotencyMismatch(key)
    return row.seq if row else None


def _is_newest(connection: Connection, ref: SessionRef, message: int, order: int | None) -> bool:
    """Return whether no correction of *message* with a later *order* came, and record this one."""
    if order is None:
        return True
    same_order = (_CHANGE.c.session == ref.key) & (_CHANGE.c.name == f"order:{message}")
    latest = connection.execute(select(_CHANGE.c.seq).where(same_order)).scalar()
    if latest is None:
        _remember(connection, ref, f"order:{message}", "order", order)
    elif latest < order:
        connection.execute(update(_CHANGE).where(same_order).values(seq=order))
    return latest is None or latest < order


def _remember(connection: Connection, ref: SessionRef, key: str | None, kind: Kind, seq: int) -> None:
    if key is not None:
        connection.execute(insert(_CHANGE).values(session=ref.key, name=key, kind=kind, seq=seq))
