"""What a person's list of conversations says of each beside its session: where its newest answer is."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from agent_core import events as e
from agent_core.objects import ConversationObject, SessionObject
from agent_core.store.codes import CODES
from agent_core.store.log import EVENT, SESSION


def described(connection: Connection, sessions: Sequence[SessionObject]) -> tuple[ConversationObject, ...]:
    """Return *sessions* as their person's list has them."""
    of_session = EVENT.c.session == SESSION.c.key
    answers = select(EVENT.c.seq).where(of_session, EVENT.c.type == CODES[e.MessageCompleted.type])
    newest = answers.order_by(EVENT.c.seq.desc()).limit(1).correlate(SESSION).scalar_subquery()
    query = select(SESSION.c.id, newest.label("newest")).where(SESSION.c.id.in_([each.id for each in sessions]))
    seqs = {row.id: row.newest or 0 for row in connection.execute(query)}
    return tuple(_described(each, seqs[each.id]) for each in sessions if each.id in seqs)


def _described(session: SessionObject, newest: int) -> ConversationObject:
    return ConversationObject(
        id=session.id,
        title=" ".join((session.title or "").split()) or None,
        status=session.status,
        created_at=session.created_at,
        last_activity_at=session.last_activity_at,
        newest_seq=newest,
    )
