"""Lists for the API: sessions, runs, messages, renders, costs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Label,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    column,
    desc,
    exists,
    func,
    or_,
    select,
    table,
    tuple_,
)

from agent_core import events as e
from agent_core.messages import Actor, CostFilter, CostGroup, CostItem, Usage, text_of
from agent_core.objects import ACTIVE, Page, RenderObject, SessionObject, SessionStatus
from agent_core.quotas import NANO
from agent_core.store import conversations
from agent_core.store.catalog import AGENT
from agent_core.store.codes import CODES
from agent_core.store.conversations import BRANCH
from agent_core.store.database import Statement, literals, page_of, required
from agent_core.store.log import EVENT, RENDER, RUN, SESSION
from agent_core.store.quotas import SPENDING, SUMS, TOKENS
from agent_core.store.tables import DEFAULT_PROJECT

EPOCH = date(1970, 1, 1).toordinal()
_COUNTS = ("runs", "steps", "unmeasured", "unpriced")
_SPENT = tuple(name for name in TOKENS if name != "reasoning")  # which is a part of the output


def costs(
    connection: Connection, by: CostGroup, wanted: CostFilter, *, limit: int, after: int | None
) -> Page[CostItem]:
    """Return up to *limit* sums: days with the latest first, others with the most expensive first, then by tokens.

    *after* is the day before which days are listed, or how many of the others precede: their order moves while money
    is spent, and nothing else would hold better.
    """
    key = SPENDING.c[by]
    query = _filtered(select(key.label("key"), *map(_sum, (*_COUNTS, *SUMS))), wanted).group_by(key)
    if by == "day":
        query = query.order_by(key.desc()) if after is None else query.where(key < after).order_by(key.desc())
    else:
        spent = sum((func.coalesce(func.sum(SPENDING.c[name]), 0) for name in _SPENT), start=_ZERO)
        ranks = (func.coalesce(func.sum(SPENDING.c.cost), 0).desc(), spent.desc(), key)
        query = query.order_by(*ranks).offset(after or 0)
    rows = connection.execute(query.limit(limit + 1)).all()
    names = _names(connection, [row.key for row in rows]) if by == "agent" else {}
    items = tuple(_item(by, row, names) for row in rows[:limit])
    if len(rows) <= limit:
        return Page(items, None)
    return Page(items, str(rows[limit - 1].key if by == "day" else (after or 0) + limit))


_ZERO: ColumnElement[Any] = cast(0, BigInteger)


def _sum(name: str) -> Label[Any]:
    return func.sum(SPENDING.c[name]).label(name)


def _filtered(query: Select[*tuple[Any, ...]], wanted: CostFilter) -> Select[*tuple[Any, ...]]:
    query = query.where(SPENDING.c.project == DEFAULT_PROJECT)
    if wanted.first is not None:
        query = query.where(SPENDING.c.day >= wanted.first)
    if wanted.end is not None:
        query = query.where(SPENDING.c.day < wanted.end)
    if wanted.agent is not None:
        named = select(AGENT.c.id).where(AGENT.c.project == DEFAULT_PROJECT, AGENT.c.name == wanted.agent)
        query = query.where((SPENDING.c.agent == wanted.agent) | SPENDING.c.agent.in_(named))
    for name in ("actor", "channel", "session"):
        if (id := getattr(wanted, name)) is not None:
            query = query.where(SPENDING.c[name] == id)
    return query


def _names(connection: Connection, agents: list[str]) -> dict[str, str]:
    rows = connection.execute(select(AGENT.c.id, AGENT.c.name).where(AGENT.c.id.in_(agents)))
    return {row.id: row.name for row in rows}


def _item(by: CostGroup, row: Any, names: dict[str, str]) -> CostItem:
    sums = {name: None if getattr(row, name) is None else int(getattr(row, name)) for name in SUMS}
    return CostItem(
        key=date.fromordinal(EPOCH + row.key).isoformat() if by == "day" else row.key or None,
        name=names.get(row.key),
        **{name: int(getattr(row, name)) for name in _COUNTS},
        usage=Usage(**{name: sums[name] for name in TOKENS}),
        cost=_dollars(sums["cost"]),
        uncached_cost=_dollars(sums["uncached_cost"]),
    )


def _dollars(nano: int | None) -> str | None:
    """Return billionths of a dollar as a decimal in dollars."""
    return None if nano is None else f"{(Decimal(nano) / NANO).normalize():f}"


MAX_OF_ONE = 20_000
"""Newest facts of one session in which words are looked for."""
_REVOKED = table("revocation", column("kind"), column("subject"))
"""The table of `store.access`, which stands above this."""
# PostgreSQL's driver would fetch all rows of an answer at once, and each may hold a long text.
_IN_PARTS = {"yield_per": 20}
_SAID = (e.MessageReceived, e.MessageCorrected, e.MessageCompleted)
_DECODERS = {CODES[kind.type]: msgspec.json.Decoder(kind) for kind in _SAID}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are listed: of an opener *actor* of these *kinds*, with *agent* (id or name), in this *status*.

    *own*: the opener looks among their own. Those that go on as others are left out, copies as long as nothing was said
    in them, and words are looked for in titles and in what was said alone: who else wrote there is not found by
    guessing. *unrevoked* leaves out those that are closed to visitors.
    """

    actor: str | None = None
    kinds: Collection[str] | None = None
    agent: str | None = None
    status: SessionStatus | None = None
    own: bool = False
    unrevoked: bool = False


class Moment(msgspec.Struct, frozen=True, order=True):
    """A place in the list by activity: when something was written last, in milliseconds, and the session's key."""

    at: int
    key: int


class Candidate(msgspec.Struct, frozen=True):
    """A session whose log has *facts*, at its *moment*; *words* is what its row says of it, folded."""

    moment: Moment
    facts: int
    words: str


def get(connection: Connection, session: str) -> SessionObject:
    """Return the session as clients read it; raises `NotFound`."""
    return _object(required(_OBJECT.run(connection, b_id=session), "session", session))


def listed(connection: Connection, wanted: Wanted, *, limit: int, before: int | None) -> Page[SessionObject]:
    """Return up to *limit* sessions, the newest first, with a key below *before*."""
    query = filtered(_objects(), wanted)
    return page_of(connection, query, SESSION.c.key, _object, limit=limit, after=before, is_newest_first=True)


def recent(connection: Connection, wanted: Wanted, *, limit: int, before: Moment | None) -> list[Candidate]:
    """Return up to *limit* sessions below *before*, those with the latest activity first."""
    columns = (SESSION.c.key, SESSION.c.id, SESSION.c.title, SESSION.c.about, SESSION.c.next_seq, _NEWEST.label("at"))
    query = filtered(_joined(*columns), wanted).order_by(desc("at"), SESSION.c.key.desc()).limit(limit)
    if before is not None:
        query = query.where(tuple_(_NEWEST, SESSION.c.key) < (before.at, before.key))
    return [_candidate(row, own=wanted.own) for row in connection.execute(query)]


def objects(connection: Connection, keys: Sequence[int]) -> list[SessionObject]:
    """Return the sessions with these *keys*, in their order, without those that were deleted meanwhile."""
    rows = {row.key: row for row in connection.execute(_objects().where(SESSION.c.key.in_(keys)))}
    return [_object(rows[key]) for key in keys if key in rows]


def words_in(
    connection: Connection, candidates: Sequence[Candidate], words: Collection[str], *, own: bool = False
) -> dict[int, set[str]]:
    """Return which of the folded *words* people and the model said in each of the sessions, by its key.

    Names and ids of people count too, except in one's *own*. A message that was corrected counts as it says now; of a
    session with more than `MAX_OF_ONE` facts the newest count.
    """
    short = [each.moment.key for each in candidates if each.facts <= MAX_OF_ONE]
    places = [EVENT.c.session.in_(short)] if short else []
    places += [
        and_(EVENT.c.session == each.moment.key, EVENT.c.seq > each.facts - MAX_OF_ONE)
        for each in candidates
        if each.facts > MAX_OF_ONE
    ]
    # Of each message the words and the name alone are kept: its text may be long, and messages are many.
    held: dict[tuple[int, str], tuple[set[str], str]] = {}
    for place in places:
        query = select(EVENT.c.session, EVENT.c.type, EVENT.c.data).where(place, _may_say(connection, words))
        for row in connection.execute(query.order_by(EVENT.c.session, EVENT.c.seq), execution_options=_IN_PARTS):
            body = _DECODERS[row.type].decode(bytes(row.data))
            _, before = held.get((row.session, body.message), ((), ""))
            name = before if own else _name_of(getattr(body, "actor", None)).casefold() or before
            held[row.session, body.message] = (_of(words, text_of(body.parts).casefold()), name)
    words_of: dict[int, set[str]] = {}
    for (session, _), (in_text, name) in held.items():
        words_of.setdefault(session, set()).update(in_text, _of(words, name))
    return words_of


def _of(words: Collection[str], text: str) -> set[str]:
    return {word for word in words if word in text}


def _may_say(connection: Connection, words: Collection[str]) -> ColumnElement[bool]:
    """Return the condition for the messages that may hold one of *words*, and for all corrections.

    A database folds the case of ASCII alone as we do; with other letters every message is read.
    """
    kinds = EVENT.c.type.in_(literals(*_DECODERS))
    if not all(word.isascii() for word in words):
        return kinds
    is_postgres = connection.dialect.name == "postgresql"
    data = func.lower(func.convert_from(EVENT.c.data, "UTF8") if is_postgres else cast(EVENT.c.data, Text))
    place = func.strpos if is_postgres else func.instr
    holds = (place(data, msgspec.json.encode(word).decode()[1:-1]) > 0 for word in words)
    return and_(kinds, or_(EVENT.c.type == CODES[e.MessageCorrected.type], *holds))


def _candidate(row: Any, *, own: bool) -> Candidate:
    actor = row.about["actor"]
    named = () if own else (row.id, actor["id"], actor.get("name") or "")
    words = " ".join((row.title or "", *named)).casefold()
    return Candidate(Moment(row.at, row.key), row.next_seq - 1, words)


def _name_of(actor: Actor | None) -> str:
    return f"{actor.id} {actor.name or ''}" if actor is not None else ""


_NEWEST = (
    select(EVENT.c.time)
    .where(EVENT.c.session == SESSION.c.key, EVENT.c.seq == SESSION.c.next_seq - 1)
    .correlate(SESSION)
    .scalar_subquery()
)
_OLDEST = (
    select(EVENT.c.time).where(EVENT.c.session == SESSION.c.key, EVENT.c.seq == 1).correlate(SESSION).scalar_subquery()
)

_TARGET = SESSION.alias("target")
_SUCCESSOR = (
    select(_TARGET.c.id)
    .join(BRANCH, BRANCH.c.target == _TARGET.c.key)
    .where(BRANCH.c.source == SESSION.c.key)
    .correlate(SESSION)
    .scalar_subquery()
)


def _joined(*columns: Any) -> Select[*tuple[Any, ...]]:
    chosen: Select[*tuple[Any, ...]] = select(*columns)
    return (
        chosen.join(AGENT, AGENT.c.key == SESSION.c.agent)
        .outerjoin(RUN, (RUN.c.session == SESSION.c.key) & RUN.c.parent.is_(None) & RUN.c.status.in_(literals(*ACTIVE)))
        .where(SESSION.c.project == DEFAULT_PROJECT)
    )


def _objects() -> Select[*tuple[Any, ...]]:
    times = (_OLDEST.label("created_at"), _NEWEST.label("active_at"))
    return _joined(SESSION, AGENT.c.id.label("agent_id"), RUN.c.status, _SUCCESSOR.label("replaced_by"), *times)


def filtered(query: Select[*tuple[Any, ...]], wanted: Wanted) -> Select[*tuple[Any, ...]]:
    """Return *query*, of sessions with their agents and active runs, for those that are *wanted* alone."""
    if wanted.actor is not None:
        query = query.where(SESSION.c.actor == wanted.actor)
    if wanted.kinds is not None:
        query = query.where(SESSION.c.actor_kind.in_(wanted.kinds))
    if wanted.own:
        query = query.where(conversations.findable())
    if wanted.unrevoked:
        query = query.where(~exists().where(_REVOKED.c.kind == "session", _REVOKED.c.subject == SESSION.c.id))
    if wanted.agent is not None:
        query = query.where((AGENT.c.id == wanted.agent) | (AGENT.c.name == wanted.agent))
    match wanted.status:
        case None:
            return query
        case "closed":
            return query.where(SESSION.c.closed == 1)
        case "idle":
            return query.where(SESSION.c.closed == 0, RUN.c.key.is_(None))
        case status:
            return query.where(SESSION.c.closed == 0, RUN.c.status == status)


def _object(row: Any) -> SessionObject:
    """Return the session of *row*; a prepared statement returns its JSON as text."""
    about: Mapping[str, Any] = msgspec.json.decode(row.about) if isinstance(row.about, str) else row.about
    return SessionObject(
        id=row.id,
        agent=row.agent_id,
        actor=msgspec.convert(about["actor"], Actor),
        title=row.title,
        status="closed" if row.closed else row.status or "idle",
        metadata=about["metadata"],
        created_at=row.created_at,
        last_activity_at=row.active_at,
        forked_from=about.get("forked_from", {}).get("session"),
        replaced_by=row.replaced_by,
    )


_OBJECT = Statement(_objects().where(SESSION.c.id == bindparam("b_id")))


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
    query = filtered(query, wanted).order_by(RENDER.c.session, RENDER.c.seq).limit(1)
    row = required(connection.execute(query), "render", id)
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
