"""Sessions, runs and messages as they are read."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import dropwhile
from types import MappingProxyType
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, func, select

from agent_core import events as e
from agent_core.agent.state import RunState, replay
from agent_core.agents import Definition, Snapshot
from agent_core.errors import NotFound
from agent_core.events import Fact
from agent_core.messages import UNKNOWN_USAGE, Actor, Part, text_of
from agent_core.objects import MessageObject, Page, PendingCall, RunError, RunObject, RunStatus
from agent_core.store import catalog, changes, log, sessions
from agent_core.store import runs as runs_module
from agent_core.store.catalog import AGENT
from agent_core.store.codes import CODES
from agent_core.store.database import Statement, literal, page_of, required
from agent_core.store.log import EVENT, PARENT, RUN, SESSION, RunRef, SessionKey
from agent_core.store.runs import find as find_run
from agent_core.store.sessions import SessionRef
from agent_core.store.tables import DEFAULT_PROJECT

# The run that asked a model last, as far back as its first step: that one names all its controls.
_LAST_ASKED = (
    select(RUN.c.first_seq)
    .select_from(EVENT.join(RUN, RUN.c.key == EVENT.c.run))
    .where(
        EVENT.c.session == bindparam("b_session"),
        EVENT.c.type == literal(CODES[e.StepCompleted.type]),
        RUN.c.parent.is_(None),
    )
    .order_by(EVENT.c.seq.desc())
    .limit(1)
)
_FIRST_OPEN = select(func.min(runs_module.open_roots(RUN.c.first_seq).subquery().c.first_seq))


class Loaded(msgspec.Struct, frozen=True):
    """What is read of a session.

    *facts* reach from the start of the window, of an open run, or of the run that asked a model last, to the newest;
    *recalled* are older ones.
    """

    session: SessionRef
    opener: Actor
    marker: str
    agent_id: str
    definition: Definition
    snapshot: Snapshot
    facts: list[Fact]
    recalled: list[Fact]


def load(connection: Connection, session: str) -> Loaded:
    """Read a session for its next step; the cost grows with its window, not its log. Raises `NotFound`."""
    ref = sessions.find(connection, session)
    first_open = connection.execute(_FIRST_OPEN, {"b_session": ref.key}).scalar()
    last_asked = connection.execute(_LAST_ASKED, {"b_session": ref.key}).scalar()
    start = min(ref.window_seq, first_open or ref.window_seq, last_asked or ref.window_seq)
    facts = log.up_to_unknown(log.facts_between(connection, ref.session_key, start - 1), start - 1)
    named = [*runs_module.seqs_of(ref.noted), *(seq for fact in facts for seq in _named(fact))]
    opener, marker = sessions.opener_and_marker(connection, ref)
    agent_id, definition = catalog.definition(connection, ref.agent, ref.agent_version)
    return Loaded(
        ref,
        opener,
        marker,
        agent_id,
        definition,
        catalog.snapshot(connection, ref.snapshot),
        facts,
        log.facts_at(connection, ref.session_key, [seq for seq in named if seq < start]),
    )


def of_run(connection: Connection, run: RunRef, seen: int) -> tuple[list[Fact], list[Fact], list[Fact]]:
    """Return the facts of *run*, the messages of an ended run that it answers, and the session's facts after *seen*."""
    place = SessionKey(run.session, run.session_id)
    own = log.facts_of_run(connection, place, run.id, run.first_seq, None)
    left = [seq for fact in own[:1] if fact.type == e.RunQueued.type for seq in _named(fact)]
    inputs = log.facts_at(connection, place, left) if left else []
    return own, inputs, log.facts_between(connection, place, seen)


def _named(fact: Fact) -> tuple[int, ...]:
    """Return the seqs of earlier facts that *fact* brings into the window."""
    if fact.type == e.StepStarted.type:
        body = fact.body
        assert isinstance(body, e.StepStarted)
        return body.takes
    if fact.type == e.RunQueued.type:
        body = fact.body
        assert isinstance(body, e.RunQueued)
        return body.inputs
    if fact.type == e.RunStarted.type:
        body = fact.body
        assert isinstance(body, e.RunStarted)
        return body.notes
    return ()


_ADOPTING = RUN.alias("adopting_run")
_RUNS = (
    select(RUN, AGENT.c.id.label("agent_id"), PARENT.c.id.label("parent_id"), SESSION.c.id.label("session_id"))
    .join(AGENT, AGENT.c.key == RUN.c.agent)
    .join(SESSION, SESSION.c.key == RUN.c.session)
    .outerjoin(PARENT, PARENT.c.key == RUN.c.parent)
    .where(RUN.c.project == DEFAULT_PROJECT)
)
_RUN = Statement(_RUNS.where(RUN.c.id == bindparam("b_id")))


def run(connection: Connection, name: str) -> RunObject:
    """Return a run as clients read it; raises `NotFound`."""
    row = required(_RUN.run(connection, b_id=name), "run", name)
    return _object(connection, row)


def runs(
    connection: Connection,
    *,
    agent: str | None,
    session: str | None,
    status: RunStatus | None,
    limit: int,
    before: int | None,
) -> Page[RunObject]:
    """Return up to *limit* runs, newest first, with a key below *before*."""
    query = _RUNS
    if agent is not None:
        query = query.where((AGENT.c.id == agent) | (AGENT.c.name == agent))
    if session is not None:
        query = query.where(SESSION.c.id == session)
    if status is not None:
        query = query.where(RUN.c.status == status)
    make = partial(_object, connection)
    return page_of(connection, query, RUN.c.key, make, limit=limit, after=before, is_newest_first=True)


def tree(connection: Connection, name: str) -> tuple[RunObject, ...]:
    """Return a run and its descendants, parents first; raises `NotFound`."""
    root = _RUN.run(connection, b_id=name).first()
    if root is None:
        raise NotFound("run", name)
    runs, generation = [root], [root.key]
    while generation:
        rows = connection.execute(_RUNS.where(RUN.c.parent.in_(generation)).order_by(RUN.c.key)).all()
        runs += rows
        generation = [row.key for row in rows]
    return tuple(_object(connection, row) for row in runs)


def transcript(connection: Connection, session: str, *, after: int, limit: int) -> Page[MessageObject]:
    """Return up to *limit* messages after seq *after*, oldest first; raises `NotFound`."""
    session_key = sessions.find(connection, session).session_key
    facts = log.message_facts(connection, session_key, after, limit + 1)
    moved = _adopted(connection, facts) if facts else {}
    cursor = str(facts[limit - 1].seq) if len(facts) > limit else None
    return Page(tuple(message_object(fact, moved) for fact in facts[:limit]), cursor)


def _adopted(connection: Connection, facts: Sequence[Fact]) -> dict[int, str]:
    """Return the later runs that answer steered messages of *facts*: they open right after the end of the first run."""
    ended = {fact.run for fact in facts if fact.type == e.MessageReceived.type}
    next_fact = (EVENT.c.session == RUN.c.session) & (EVENT.c.seq == RUN.c.last_seq + 1)
    query = (
        select(EVENT.c.data, _ADOPTING.c.id)
        .select_from(RUN.join(EVENT, next_fact).join(_ADOPTING, _ADOPTING.c.key == EVENT.c.run))
        .where(RUN.c.id.in_(ended), EVENT.c.type == log.CODES["run.queued"])
    )
    moved: dict[int, str] = {}
    for row in connection.execute(query):
        moved |= dict.fromkeys(msgspec.json.decode(row.data, type=e.RunQueued).inputs, str(row.id))
    return moved


def message_object(fact: Fact, moved: Mapping[int, str] = MappingProxyType({})) -> MessageObject:
    """Return the message that *fact* holds as clients read it; *moved* are later runs that took one, by its seq."""
    body = fact.body
    if isinstance(body, e.MessageReceived):
        return MessageObject(
            id=body.message,
            seq=fact.seq,
            role="user",
            actor=body.actor,
            run=moved.get(fact.seq, fact.run),
            parts=body.parts,
            partial=False,
            created_at=fact.time,
        )
    assert isinstance(body, e.MessageCompleted)
    return MessageObject(
        id=body.message,
        seq=fact.seq,
        role=body.role,
        actor=body.actor,
        run=fact.run,
        parts=body.parts,
        partial=body.partial,
        created_at=fact.time,
    )


def _object(connection: Connection, row: Any) -> RunObject:
    session_key = SessionKey(row.session, row.session_id)
    facts = log.facts_of_run(connection, session_key, row.id, row.first_seq, row.last_seq)
    state = replay(row.id, facts)
    end = _last(facts, *e.TERMINAL)
    text, parts = _output(facts)
    return RunObject(
        id=row.id,
        session=row.session_id,
        agent=row.agent_id,
        agent_version=row.agent_version,
        parent_run=row.parent_id,
        root_run=_root(connection, row),
        status=row.status,
        stop_reason=end.body.stop_reason if end and isinstance(end.body, e.RunCompleted) else None,
        error=_error(end),
        text=text,
        parts=parts,
        structured=end.body.structured if end and isinstance(end.body, e.RunCompleted) else msgspec.UNSET,
        usage=state.usage or UNKNOWN_USAGE,
        cost=state.cost,
        steps=state.step.n,
        pending=_pending(state),
        started_by=_asker(connection, session_key, facts),
        created_at=facts[0].time,
        started_at=_time(next((f for f in facts if f.type == e.RunStarted.type), None)),
        last_activity_at=facts[-1].time,
        completed_at=_time(end),
        feedback=changes.feedback_of(connection, row.key, row.id),
    )


def run_context(connection: Connection, run: RunRef) -> tuple[str | None, tuple[Actor, ...], str]:
    """Return the address of a run's session, the actors who wrote to the run, newest last, and its first messages.

    Those who sent messages on behalf of others come first.
    """
    session_key = SessionKey(run.session, run.session_id)
    facts = log.facts_of_run(connection, session_key, run.id, run.first_seq, None)
    address = connection.execute(select(SESSION.c.address).where(SESSION.c.key == run.session)).scalar_one()
    asking = _opening_messages(connection, session_key, facts)
    own = [fact.body for fact in facts if isinstance(fact.body, e.MessageReceived)]
    messages = [*asking, *(each for each in own if each not in asking)]
    speakers = tuple(dict.fromkeys(each.actor for each in reversed(messages)))[::-1]
    senders = dict.fromkeys(each.via for each in messages if each.via is not None and each.via not in speakers)
    return address, (*senders, *speakers), "\n\n".join(text_of(each.parts) for each in asking)


def question(connection: Connection, name: str) -> str:
    """Return the question that led to the run *name*, as it is now: corrected, and without what was deleted."""
    row = connection.execute(select(RUN.c.id, RUN.c.parent).where(RUN.c.id == name)).one()
    run, _ = find_run(connection, _root(connection, row))
    session_key = SessionKey(run.session, run.session_id)
    facts = log.facts_of_run(connection, session_key, run.id, run.first_seq, None)
    now = {fact.body.message: fact.body.parts for fact in facts if isinstance(fact.body, e.MessageCorrected)}
    messages = _opening_messages(connection, session_key, facts)
    return "\n\n".join(text for each in messages if (text := text_of(now.get(each.message, each.parts)).strip()))


def _output(facts: list[Fact]) -> tuple[str, tuple[Part, ...]]:
    """Return the text and the parts of the last assistant message, its continuations joined.

    What comes before `run.queued` was imported: a history's answers are not the run's own.
    """
    text, parts = "", ()
    goes_on = False
    own = dropwhile(lambda fact: fact.type != e.RunQueued.type, facts)
    for body in (fact.body for fact in own if fact.type == e.MessageCompleted.type):
        if isinstance(body, e.MessageCompleted) and body.role == "assistant":
            output = text_of(body.parts)
            text, parts = (text + output, (*parts, *body.parts)) if goes_on else (output, body.parts)
            goes_on = body.stop in ("length", "continue")
    return text, parts


def _error(end: Fact | None) -> RunError | None:
    if end is None or not isinstance(end.body, e.RunFailed):
        return None
    return RunError(end.body.code, end.body.message, end.body.retryable, end.body.detail)


def _pending(state: RunState) -> tuple[PendingCall, ...]:
    return tuple(
        PendingCall(
            call=c.call,
            on=c.on,
            tool=c.name,
            arguments=c.arguments,
            approval=c.approval.approval if c.approval and c.on == "approval" else None,
        )
        for c in state.waiting.calls
        if c.status == "pending" and c.on
    )


def _asker(connection: Connection, session_key: SessionKey, facts: list[Fact]) -> Actor | None:
    return next((message.actor for message in _opening_messages(connection, session_key, facts)), None)


def _opening_messages(connection: Connection, session_key: SessionKey, facts: list[Fact]) -> list[e.MessageReceived]:
    """Return the messages that a run began with."""
    queued = next((f for f in facts if isinstance(f.body, e.RunQueued)), None)
    if queued is not None and isinstance(queued.body, e.RunQueued) and queued.body.inputs:
        own = log.facts_at(connection, session_key, queued.body.inputs)
    else:
        own = [f for f in facts if queued is None or f.seq < queued.seq]
    return [f.body for f in own if isinstance(f.body, e.MessageReceived)]


def _root(connection: Connection, row: Any) -> str:
    name, parent = row.id, row.parent
    while parent is not None:
        above = connection.execute(select(RUN.c.id, RUN.c.parent).where(RUN.c.key == parent)).one()
        name, parent = above.id, above.parent
    return name


def _last(facts: list[Fact], *kinds: type[Any]) -> Fact | None:
    names = {kind.type for kind in kinds}
    return next((fact for fact in reversed(facts) if fact.type in names), None)


def _time(fact: Fact | None) -> int | None:
    return fact.time if fact else None
