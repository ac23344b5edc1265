"""Sessions in the store: open, find, list, close, fork, delete. Each function is one transaction's work."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Column, Connection, bindparam, insert, literal, select, update

from agent_core import events as e
from agent_core.agents import Snapshot
from agent_core.errors import InvalidInput, SessionBusy
from agent_core.events import Fact
from agent_core.ids import new_id
from agent_core.messages import Actor
from agent_core.objects import ACTIVE
from agent_core.quotas import ANYWHERE, Origin, Spending
from agent_core.store import catalog, files, log, quotas, runs
from agent_core.store.catalog import AGENT, keep_snapshot
from agent_core.store.codes import CODES
from agent_core.store.database import Statement, literals, required
from agent_core.store.log import EVENT, RENDER, RUN, SESSION, SessionKey
from agent_core.store.quotas import AgentBounds
from agent_core.store.tables import DEFAULT_PROJECT

FIRST_SEQS = 2
"""Facts of a session that was just opened: `session.opened` and `snapshot.frozen`."""

_MANY = 500  # sessions that one query is about
TITLE_LENGTH = 200
"""Characters of a title: those of its column."""


class SessionRef(msgspec.Struct, frozen=True, kw_only=True):
    """What the core needs of a session to work in it; *bounds* are its agent's, *noted* see `store.notes`.

    *shared*: others than its opener, *actor*, have written in it. *redactions*: how often its log was redacted.
    *newest_version* is its agent's, *agent_version* the one that it has taken up.
    """

    key: int
    id: str
    agent: int
    agent_version: int
    snapshot: str
    prefix: str
    actor: str
    closed: bool
    newest: int
    window_seq: int
    bounds: AgentBounds
    address: str | None = None
    noted: bytes | None = None
    shared: bool = False
    redactions: int = 0
    newest_version: int = 0

    @property
    def session_key(self) -> SessionKey:
        return SessionKey(self.key, self.id)

    def is_outdated(self, now: "SessionRef") -> bool:
        """Return whether what was read with this row does not hold *now*: redacted since, or frozen again."""
        return any(getattr(self, name) != getattr(now, name) for name in ("redactions", "agent_version", "snapshot"))


_NEW = (
    "project", "id", "address", "agent", "agent_version", "actor", "actor_kind", "about", "closed", "snapshot",
    "prefix", "next_seq", "window_seq",
)  # fmt: skip
_INSERT = Statement(insert(SESSION).values({name: bindparam(f"b_{name}") for name in _NEW}).returning(SESSION.c.key))
_SHARE_AGENT = Statement(
    select(AGENT.c.id, AGENT.c.version, AGENT.c.max_runs, AGENT.c.quotas)
    .where(AGENT.c.key == bindparam("b_agent"))
    .with_for_update(read=True, key_share=True)
)
_CAP = select(AGENT.c.max_runs).where(AGENT.c.key == SESSION.c.agent).scalar_subquery()
_QUOTAS = select(AGENT.c.quotas).where(AGENT.c.key == SESSION.c.agent).scalar_subquery()
_NEWEST = select(AGENT.c.version).where(AGENT.c.key == SESSION.c.agent).scalar_subquery()
_FIND = select(SESSION, _CAP.label("max_runs"), _QUOTAS.label("quotas"), _NEWEST.label("newest_version")).where(
    SESSION.c.id == bindparam("b_id"), SESSION.c.project == bindparam("b_project")
)
_BY_ID, _HOLD = Statement(_FIND), Statement(_FIND.with_for_update())


def find(connection: Connection, session: str, project: int = DEFAULT_PROJECT) -> SessionRef:
    """Return the session named *session*; raises `NotFound`."""
    return _ref(required(_BY_ID.run(connection, b_id=session, b_project=project), "session", session))


def hold(connection: Connection, session: str, project: int = DEFAULT_PROJECT) -> SessionRef:
    """Return the session named *session*, locked as `log.lock` does; raises `NotFound`."""
    return _ref(required(_HOLD.run(connection, b_id=session, b_project=project), "session", session))


def by_address(connection: Connection, address: str, project: int = DEFAULT_PROJECT) -> str | None:
    """Return the id of the session at *address*."""
    query = select(SESSION.c.id).where(SESSION.c.project == project, SESSION.c.address == address)
    return connection.execute(query).scalar()


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """What a new session is made of; *agent_version* is the agent's newest as its snapshot was built.

    *marker* is that of its frames, see `context.frames`.
    """

    agent: int
    agent_id: str
    agent_version: int
    snapshot: str
    actor: Actor
    metadata: dict[str, Any]
    address: str | None
    marker: str
    now: int
    origin: Origin = ANYWHERE


class StaleAgent(Exception):
    """The agent of a session has a newer version, or was deleted; this error never leaves the core."""


class StaleSession(Exception):
    """The session is not as it was loaded into memory; this error never leaves the core."""


class BusySession(Exception):
    """A run of the session is queued or open, so that its prompt has to stay; this error never leaves the core."""


class OpenedSession(msgspec.Struct, frozen=True):
    """A session and the *facts* it was opened with; none when it was there already."""

    ref: SessionRef
    facts: Sequence[Fact] = ()


def open_or_find(connection: Connection, opening: NewSession, snapshot: Snapshot) -> OpenedSession:
    """Return the session at the address of *opening*, opened with *snapshot* if there is none.

    Raises `StaleAgent`, `RateLimited`.
    """
    existing = opening.address and by_address(connection, opening.address)
    if existing:
        return OpenedSession(find(connection, existing))
    bounds = share_agent(connection, opening)
    who, spent = (opening.actor, opening.origin), Spending(sessions=1)
    quotas.take(connection, opening.agent, bounds.quotas, *who, spent, now=opening.now)
    keep_snapshot(connection, snapshot)
    return OpenedSession(*open_session(connection, opening, bounds))


def share_agent(connection: Connection, opening: NewSession) -> AgentBounds:
    """Lock the agent of *opening* against changes until the commit and return its bounds; raises `StaleAgent`.

    The id is compared too: SQLite gives the key of a deleted agent to the next one.
    """
    agent = _SHARE_AGENT.run(connection, b_agent=opening.agent).first()
    if agent is None or (agent.id, agent.version) != (opening.agent_id, opening.agent_version):
        raise StaleAgent
    return AgentBounds(agent.max_runs, agent.quotas)


def open_session(connection: Connection, opening: NewSession, bounds: AgentBounds) -> tuple[SessionRef, list[Fact]]:
    """Insert a session with its first two facts; *bounds* are from `share_agent`."""
    ref = SessionRef(
        key=0,
        id=new_id("ses"),
        agent=opening.agent,
        agent_version=opening.agent_version,
        snapshot=opening.snapshot,
        prefix=opening.snapshot,
        actor=opening.actor.id,
        closed=False,
        newest=FIRST_SEQS,
        window_seq=1,
        bounds=bounds,
        address=opening.address,
        newest_version=opening.agent_version,
    )
    ref = msgspec.structs.replace(ref, key=_insert(connection, ref, opening))
    bodies: list[e.FactBody] = [
        e.SessionOpened(agent=opening.agent_id, actor=opening.actor),
        e.SnapshotFrozen(hash=opening.snapshot, reason="opened"),
    ]
    return ref, log.write(connection, ref.session_key, 1, [(None, body) for body in bodies], now=opening.now)


def _insert(connection: Connection, ref: SessionRef, opening: NewSession) -> int:
    about = {"actor": opening.actor, "metadata": opening.metadata, "marker": opening.marker}
    return _INSERT.run(
        connection,
        b_project=DEFAULT_PROJECT,
        b_id=ref.id,
        b_address=opening.address,
        b_agent=ref.agent,
        b_agent_version=ref.agent_version,
        b_actor=ref.actor,
        b_actor_kind=opening.actor.kind,
        b_about=msgspec.json.encode(about).decode(),  # a prepared statement does not convert values
        b_closed=0,
        b_snapshot=ref.snapshot,
        b_prefix=ref.prefix,
        b_next_seq=ref.newest + 1,
        b_window_seq=ref.window_seq,
    ).scalar_one()


def opener_and_marker(connection: Connection, session: SessionRef) -> tuple[Actor, str]:
    """Return who opened a session, and the marker of its frames, empty if it is older than markers."""
    about = connection.execute(select(SESSION.c.about).where(SESSION.c.key == session.key)).scalar_one()
    return msgspec.convert(about["actor"], Actor), about.get("marker", "")


def is_named(connection: Connection, session: SessionRef, actor: str) -> bool:
    """Return whether the model reads who wrote a message of *actor*: others than the opener write in the session.

    The first such message is written down in the session's row, which is locked.
    """
    if actor != session.actor and not session.shared:
        connection.execute(update(SESSION).where(SESSION.c.key == session.key).values(shared=1))
    return session.shared or actor != session.actor


def merge_metadata(connection: Connection, session: SessionRef, patch: dict[str, Any]) -> None:
    """Merge *patch* into the metadata of a locked session; None removes an entry."""
    about = connection.execute(select(SESSION.c.about).where(SESSION.c.key == session.key)).scalar_one()
    laid = {name: value for name, value in {**about["metadata"], **patch}.items() if value is not None}
    connection.execute(update(SESSION).where(SESSION.c.key == session.key).values(about={**about, "metadata": laid}))


def updated_since(connection: Connection, seen: Mapping[str, int]) -> set[str]:
    """Return which of the sessions *seen* have facts beyond the seq of each."""
    return {name for name, following in _each(connection, seen, SESSION.c.next_seq) if following > seen[name] + 1}


def outdated(connection: Connection, redactions: Mapping[str, int]) -> set[str]:
    """Return which sessions were redacted more often than *redactions*, a count for each, says, or are gone."""
    now = dict(_each(connection, redactions, SESSION.c.redactions))
    return {name for name, count in redactions.items() if now.get(name) != count}


def _each(connection: Connection, sessions: Collection[str], column: Column[Any]) -> Iterator[tuple[str, int]]:
    """Yield the id and the *column* of those *sessions* that are there."""
    names = list(sessions)
    for start in range(0, len(names), _MANY):
        query = select(SESSION.c.id, column).where(SESSION.c.id.in_(names[start : start + _MANY]))
        yield from ((row[0], row[1]) for row in connection.execute(query))


def close(connection: Connection, session: SessionRef) -> None:
    """Close a session to further messages. Raises `SessionBusy` while a run is queued or open."""
    refuse_busy(connection, session, "close")
    connection.execute(update(SESSION).where(SESSION.c.key == session.key).values(closed=True))


def rename(connection: Connection, session: SessionRef, title: str) -> None:
    """Give a session another title."""
    connection.execute(update(SESSION).where(SESSION.c.key == session.key).values(title=title[:TITLE_LENGTH]))


def delete(connection: Connection, session: SessionRef) -> None:
    """Remove a session and its log. Raises `SessionBusy` while a run is queued or open."""
    refuse_busy(connection, session, "delete")
    quotas.give_back(connection, session.key)
    files.give_back(connection, session.key)
    quotas.forget_session(connection, session.id)
    catalog.drop_prompts(connection, session.key)
    connection.execute(SESSION.delete().where(SESSION.c.key == session.key))


def fork(connection: Connection, source: SessionRef, *, at: int | None, actor: Actor | None) -> str:
    """Copy a session's log up to seq *at* (None: all) into a new session and return its id.

    No run may be open at *at*: raises `InvalidInput`, for None `SessionBusy`.
    """
    last = source.newest if at is None else at
    if not FIRST_SEQS <= last <= source.newest:
        raise InvalidInput("at", f"the session's facts go from {FIRST_SEQS} to {source.newest}.")
    query = select(RUN).where(RUN.c.session == source.key, RUN.c.first_seq <= last).order_by(RUN.c.key)
    runs = [dict(run) for run in connection.execute(query).mappings()]
    if any(run["last_seq"] is None or run["last_seq"] > last for run in runs):
        if at is None:
            raise SessionBusy(f"Session `{source.id}` is answering; wait, or fork at an earlier seq.")
        raise InvalidInput("at", f"a run is open at seq {last}; choose the seq at which a run ended.")
    row = connection.execute(select(SESSION).where(SESSION.c.key == source.key)).mappings().one()
    about = {**row["about"], "forked_from": {"session": source.id, "at": last}}
    if actor is not None:
        about["actor"] = msgspec.to_builtins(actor)
    copy = {**row, "id": new_id("ses"), "address": None, "next_seq": last + 1, "about": about, "closed": False}
    frozen = _newest_of(connection, source, "snapshot.frozen", last)
    copy |= {
        "actor": about["actor"]["id"],
        "actor_kind": about["actor"]["kind"],
        "shared": row["shared"] or about["actor"]["id"] != row["actor"],
        "prefix": msgspec.json.decode(frozen, type=e.SnapshotFrozen).hash if frozen else "",
        "window_seq": _window_at(connection, source, last),
    }
    waiting = _noted_at(connection, source, last)
    copy["noted"] = msgspec.json.encode(waiting) if waiting else None
    del copy["key"]
    key = connection.execute(insert(SESSION).values(**copy).returning(SESSION.c.key)).scalar_one()
    _copy_log(connection, source.key, key, last, runs)
    quotas.copy_blobs(connection, source.key, key, files.copy(connection, source.key, key, last))
    files.copy_results(connection, source.key, key)
    return str(copy["id"])


def _noted_at(connection: Connection, source: SessionRef, last: int) -> list[int]:
    """Return the notes that the next run would have shown the model at seq *last*: later runs may have by now."""
    begun = (EVENT.c.session == source.key) & (EVENT.c.type == CODES[e.RunStarted.type]) & (EVENT.c.seq > last)
    decoded = (
        msgspec.json.decode(data, type=e.RunStarted).notes
        for data in connection.execute(select(EVENT.c.data).where(begun)).scalars()
    )
    noted = {*runs.seqs_of(source.noted), *(seq for seqs in decoded for seq in seqs)}
    return sorted(seq for seq in noted if seq <= last)


def _copy_log(connection: Connection, source: int, target: int, last: int, runs: list[dict[str, Any]]) -> None:
    keys: dict[int | None, int | None] = {None: None}
    for run in runs:
        old = run.pop("key")
        parent = keys[run["parent"]]
        values = {**run, "id": new_id("run"), "session": target, "parent": parent, "charged": None, "options": None}
        keys[old] = connection.execute(insert(RUN).values(**values).returning(RUN.c.key)).scalar_one()
    old, new = RUN.alias("old_run"), RUN.alias("new_run")
    twin = (new.c.session == target) & (new.c.first_seq == old.c.first_seq)
    copied = (
        select(literal(target), EVENT.c.seq, new.c.key, EVENT.c.type, EVENT.c.time, EVENT.c.data)
        .select_from(EVENT.outerjoin(old, old.c.key == EVENT.c.run).outerjoin(new, twin))
        .where(EVENT.c.session == source, EVENT.c.seq <= last)
    )
    connection.execute(insert(EVENT).from_select(["session", "seq", "run", "type", "time", "data"], copied))
    renders = select(literal(target), RENDER.c.seq, RENDER.c.id).where(RENDER.c.session == source, RENDER.c.seq <= last)
    connection.execute(insert(RENDER).from_select(["session", "seq", "id"], renders))


def _window_at(connection: Connection, source: SessionRef, last: int) -> int:
    """Return where the window began at seq *last*; what only made results shorter did not move it."""
    kind = (EVENT.c.session == source.key) & (EVENT.c.type == CODES[e.ContextCompacted.type]) & (EVENT.c.seq <= last)
    windows = connection.execute(select(EVENT.c.data).where(kind).order_by(EVENT.c.seq.desc())).scalars()
    facts = (msgspec.json.decode(data, type=e.ContextCompacted) for data in windows)
    return next((fact.window_seq for fact in facts if fact.kind != "prune"), 1)


def _newest_of(connection: Connection, source: SessionRef, kind: str, last: int) -> bytes | None:
    """Return the body of the newest fact of *kind* up to seq *last*."""
    wanted = (EVENT.c.session == source.key) & (EVENT.c.type == CODES[kind]) & (EVENT.c.seq <= last)
    return connection.execute(select(EVENT.c.data).where(wanted).order_by(EVENT.c.seq.desc()).limit(1)).scalar()


def refuse_busy(connection: Connection, session: SessionRef, verb: str) -> None:
    """Raise `SessionBusy` while a run of *session* is queued or open; *verb* says what has to wait."""
    query = select(RUN.c.key).where(RUN.c.session == session.key, RUN.c.status.in_(literals(*ACTIVE, "queued")))
    if connection.execute(query).first():
        raise SessionBusy(f"Session `{session.id}` is answering; cancel its runs before you {verb} it.")


def _ref(row: Any) -> SessionRef:
    return SessionRef(
        key=row.key,
        id=row.id,
        agent=row.agent,
        agent_version=row.agent_version,
        snapshot=row.snapshot,
        prefix=row.prefix,
        actor=row.actor,
        closed=bool(row.closed),
        newest=row.next_seq - 1,
        window_seq=row.window_seq,
        bounds=AgentBounds(row.max_runs, row.quotas),
        address=row.address,
        noted=row.noted,
        shared=bool(row.shared),
        redactions=row.redactions,
        newest_version=row.newest_version,
    )
