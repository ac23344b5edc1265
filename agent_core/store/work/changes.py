"""Changes: messages are corrected or retracted, context is added. Each function is one transaction's work."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from sqlalchemy import Connection, Select, insert, select, update

from agent_core.context.quoted import context_facts
from agent_core.domain import events as e
from agent_core.domain.events import Fact, FactBody
from agent_core.domain.inbound import Context
from agent_core.domain.messages import Actor, Part, text_of
from agent_core.domain.objects import ENDED
from agent_core.errors import IdempotencyMismatch, NotFound, SessionClosed
from agent_core.loop.state import replay
from agent_core.store import log
from agent_core.store.codes import CODES
from agent_core.store.log import EVENT, RUN, RunRef, table_of
from agent_core.store.tables import ChangeRow, ReceiptRow
from agent_core.store.work import notes, runs, sessions
from agent_core.store.work.runs import Cancelled, Finish
from agent_core.store.work.sessions import SessionRef

_CHANGE, _RECEIPT = table_of(ChangeRow), table_of(ReceiptRow)
_QUOTED = 60
DELETED = "message deleted"
Kind = Literal["correct", "retract", "context", "order"]


class Changed(msgspec.Struct, frozen=True):
    """*seq* is the fact that says so; *cancelled* is what became of a run that had nothing else to answer."""

    seq: int
    facts: Sequence[Fact] = ()
    cancelled: Cancelled | None = None


class _Found(msgspec.Struct, frozen=True):
    """A message, the *run* that has it, open (with its *status*) or None, and its corrections, oldest first."""

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

    Of corrections with an *order* one that is older than another that came is left.

    A run that is open has it as news: in the message's place, or as a correction of what a step took. Where the run has
    ended the next one reports it. A message that was deleted stays so, and one that says the same already is left.
    """
    ref = sessions.hold(connection, session)
    if known := _seen(connection, ref, key, "correct"):
        return Changed(known)
    found = _find(connection, ref, name)
    seq, said = found.latest
    facts: list[Fact] = []
    if said not in ((), parts) and _is_newest(connection, ref, found.fact.seq, order):
        body = e.MessageCorrected(message=found.body.message, parts=parts, corrects=found.fact.seq)
        facts = _write(connection, ref, [(found.run, body)], now)
        seq = facts[0].seq
        if found.run is None and found.taken:
            notes.change(connection, ref.key, add=[seq])
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

    What no step took is not sent to the model, and a run that has nothing else to answer is cancelled. Of a message
    that the model has seen a note reports the deletion: in the open run, if it takes a step, else in the next one.
    """
    ref = sessions.hold(connection, session)
    if known := _seen(connection, ref, key, "retract"):
        return Changed(known)
    found = _find(connection, ref, name)
    seq, said = found.latest
    if not said:
        _remember(connection, ref, key, "retract", seq)
        return Changed(seq)
    gone = [found.fact.seq, *(fact.seq for fact in found.corrections)]
    bodies: list[FactBody] = [e.MessageCorrected(message=found.body.message, parts=(), corrects=each) for each in gone]
    if found.taken:
        bodies.append(e.ContextAdded(source="note", text=_note(by, said)))
    facts = _write(connection, ref, [(found.run, body) for body in bodies], now)
    if found.run is None:
        notes.change(connection, ref.key, add=[facts[-1].seq] if found.taken else [], drop=gone)
    _remember(connection, ref, key, "retract", facts[0].seq)
    done = None if found.taken else _cancel(connection, found, facts, by=by, finish=finish, owner=owner, now=now)
    return Changed(facts[0].seq, [*facts, *done.facts] if done else facts, done)


def add_context(
    connection: Connection, session: str, context: Sequence[Context], *, key: str | None, now: int
) -> Changed:
    """Write context that the next run shows the model before its message; raises `NotFound`, `SessionClosed`."""
    ref = sessions.hold(connection, session)
    if known := _seen(connection, ref, key, "context"):
        return Changed(known)
    if ref.closed:
        raise SessionClosed(f"Session `{ref.id}` is closed; open a new one.")
    facts = _write(connection, ref, [(None, body) for body in context_facts(context)], now)
    notes.change(connection, ref.key, add=[fact.seq for fact in facts])
    seq = facts[-1].seq if facts else ref.newest
    _remember(connection, ref, key, "context", seq)
    return Changed(seq, facts)


def _cancel(
    connection: Connection,
    found: _Found,
    facts: list[Fact],
    *,
    by: Actor,
    finish: Finish,
    owner: str | None,
    now: int,
) -> Cancelled | None:
    """Cancel the open run that had *found* and, after *facts*, has nothing to answer."""
    if found.run is None:
        return None
    state = replay(found.run.id, [*found.own, *facts])
    if state.step.n or state.inbox.user_messages:
        return None
    request = e.RunCancelling(by=by, reason=DELETED)
    return runs.cancel(connection, found.run, found.status, request, finish=finish, owner=owner, now=now)


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


def _note(by: Actor, said: Sequence[Part]) -> str:
    """Say that a message was deleted, and which one: its first words, on one line, as a JSON text."""
    begins = " ".join(text_of(tuple(said)).split())[:_QUOTED]
    name = " ".join((by.name or by.id).split())
    which = f" that begins {msgspec.json.encode(begins).decode()}" if begins else ""
    return f"{name} has deleted the message{which}. Treat it as withdrawn."


def _seen(connection: Connection, ref: SessionRef, key: str | None, kind: Kind) -> int | None:
    """Return what came of an earlier use of *key*; raises `IdempotencyMismatch` if that was no such change."""
    if key is None:
        return None
    known = (_CHANGE.c.session == ref.key) & (_CHANGE.c.name == key)
    row = connection.execute(select(_CHANGE.c.kind, _CHANGE.c.seq).where(known)).first()
    if row is not None and row.kind != kind:
        raise IdempotencyMismatch(key)
    return row.seq if row else None


def _is_newest(connection: Connection, ref: SessionRef, message: int, order: int | None) -> bool:
    """Return whether no correction of *message* with a later *order* came, and record this one."""
    if order is None:
        return True
    known = (_CHANGE.c.session == ref.key) & (_CHANGE.c.name == f"order:{message}")
    latest = connection.execute(select(_CHANGE.c.seq).where(known)).scalar()
    if latest is None:
        _remember(connection, ref, f"order:{message}", "order", order)
    elif latest < order:
        connection.execute(update(_CHANGE).where(known).values(seq=order))
    return latest is None or latest < order


def _remember(connection: Connection, ref: SessionRef, key: str | None, kind: Kind, seq: int) -> None:
    if key is not None:
        connection.execute(insert(_CHANGE).values(session=ref.key, name=key, kind=kind, seq=seq))
