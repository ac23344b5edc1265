"""What a driver needs of a session that is not in memory: its newest facts, as far back as its window reaches."""

import msgspec
from sqlalchemy import Connection, bindparam, func, select

from agent_core import events as e
from agent_core.agents import Definition, Snapshot
from agent_core.events import Fact
from agent_core.messages import Actor
from agent_core.store import log
from agent_core.store.codes import CODES
from agent_core.store.log import EVENT, RUN, RunRef, SessionKey
from agent_core.store.statements import literal
from agent_core.store.work import catalog, notes, runs, sessions
from agent_core.store.work.sessions import SessionRef

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
_FIRST_OPEN = select(func.min(runs.open_roots(RUN.c.first_seq).subquery().c.first_seq))


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
    named = [*notes.seqs_of(ref.noted), *(seq for fact in facts for seq in _named(fact))]
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
