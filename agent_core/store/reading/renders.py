"""Renders as clients read them: what was shown, found in the log by its id."""

import msgspec
from sqlalchemy import Connection, select

from agent_core import events as e
from agent_core.errors import NotFound
from agent_core.objects import RenderObject
from agent_core.store.log import EVENT, RENDER, RUN, SESSION
from agent_core.store.reading.listing import Wanted, filtered
from agent_core.store.work.catalog import AGENT

_DECODER = msgspec.json.Decoder(e.RenderShown)


def render(connection: Connection, id: str, wanted: Wanted) -> RenderObject:
    """Return the render *id* of the oldest session that is *wanted*: forks show what they copied under the same id.

    Raises `NotFound`.
    """
    placed = (
        RENDER.join(SESSION, SESSION.c.key == RENDER.c.session)
        .join(AGENT, AGENT.c.key == SESSION.c.agent)
        .join(EVENT, (EVENT.c.session == RENDER.c.session) & (EVENT.c.seq == RENDER.c.seq))
        .outerjoin(RUN, RUN.c.key == EVENT.c.run)
    )
    columns = (SESSION.c.id.label("session_id"), RUN.c.id.label("run_id"), EVENT.c.time, EVENT.c.data)
    query = select(*columns).select_from(placed).where(RENDER.c.id == id)
    row = connection.execute(filtered(query, wanted).order_by(RENDER.c.session, RENDER.c.seq).limit(1)).first()
    if row is None:
        raise NotFound("render", id)
    fact = _DECODER.decode(row.data)
    return RenderObject(
        id=id,
        session=row.session_id,
        run=row.run_id,
        call=fact.call,
        kind=fact.kind,
        title=fact.title,
        payload=fact.payload,
        text=fact.text,
        created_at=row.time,
    )
