"""The newest part of a log: it begins where no run is open, so that it can be read as a log of its own."""

from sqlalchemy import Connection, func, select

from agent_core.events import Fact
from agent_core.store import log
from agent_core.store.codes import CODES
from agent_core.store.log import EVENT, RUN
from agent_core.store.work import sessions

_MESSAGES = (CODES["message.received"], CODES["message.completed"])


def start_of(connection: Connection, session: str, *, last: int, before: int = log.MAX_SEQ) -> int:
    """Return the seq after which the *last* newest of the messages before seq *before* follow, 0 for the whole log.

    There may be more of them, as no root run is open there, nor one that later takes a message from before it.
    Raises `NotFound`.
    """
    key = sessions.find(connection, session).key
    messages = select(EVENT.c.seq).where(EVENT.c.session == key, EVENT.c.type.in_(_MESSAGES))
    newest = messages.where(EVENT.c.seq < before).order_by(EVENT.c.seq.desc()).offset(last - 1).limit(1)
    first = connection.execute(newest).scalar()
    if first is None:
        return 0
    spans = (RUN.c.session == key) & RUN.c.parent.is_(None)
    while True:
        is_open = (RUN.c.input_seq < first) & (RUN.c.last_seq.is_(None) | (RUN.c.last_seq >= first))
        begun = connection.execute(select(func.min(RUN.c.input_seq)).where(spans, is_open)).scalar()
        if begun is None:
            break
        first = begun
    has_more = connection.execute(messages.where(EVENT.c.seq < first).limit(1)).first()
    return first - 1 if has_more else 0


def page(connection: Connection, session: str, *, last: int, before: int) -> tuple[int, list[Fact]]:
    """Return where the page of the *last* newest messages before seq *before* begins, as `start_of`, and its facts."""
    after = start_of(connection, session, last=last, before=before)
    return after, log.facts_between(connection, sessions.find(connection, session).session_key, after, before)
