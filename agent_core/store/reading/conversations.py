"""What a person's list of conversations says of each: how it begins, and where its newest answer is."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, select

from agent_core.domain import events as e
from agent_core.domain.messages import text_of
from agent_core.domain.objects import ConversationObject, SessionObject
from agent_core.store.codes import CODES
from agent_core.store.log import EVENT, SESSION

MOST_TITLE = 80
"""Characters of a title that is the beginning of what was said."""


def described(connection: Connection, found: Sequence[SessionObject]) -> tuple[ConversationObject, ...]:
    """Return the sessions *found* as their person's list has them."""
    of_session = EVENT.c.session == SESSION.c.key
    answers = select(EVENT.c.seq).where(of_session, EVENT.c.type == CODES[e.MessageCompleted.type])
    newest = answers.order_by(EVENT.c.seq.desc()).limit(1).correlate(SESSION).scalar_subquery()
    asked = select(EVENT.c.data).where(of_session, EVENT.c.type == CODES[e.MessageReceived.type])
    first = asked.order_by(EVENT.c.seq).limit(1).correlate(SESSION).scalar_subquery()
    query = select(SESSION.c.id, newest.label("newest"), first.label("first"))
    ids = [each.id for each in found]
    rows = {row.id: row for row in connection.execute(query.where(SESSION.c.id.in_(ids)))}
    return tuple(_described(each, rows[each.id].newest, rows[each.id].first) for each in found if each.id in rows)


def _described(session: SessionObject, newest: int | None, first: bytes | None) -> ConversationObject:
    return ConversationObject(
        id=session.id,
        title=session.title or _beginning(first),
        status=session.status,
        created_at=session.created_at,
        last_activity_at=session.last_activity_at,
        newest_seq=newest or 0,
    )


def _beginning(first: bytes | None) -> str | None:
    """Return the beginning of the text of the message *first*, on one line."""
    if first is None:
        return None
    text = " ".join(text_of(msgspec.json.decode(bytes(first), type=e.MessageReceived).parts).split())
    return (text if len(text) <= MOST_TITLE else f"{text[: MOST_TITLE - 1].rstrip()}…") or None
