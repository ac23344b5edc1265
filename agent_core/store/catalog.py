"""Agents, and the prompts of their sessions, as they are kept."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, bindparam, exists, insert, or_, select, text, update
from sqlalchemy import delete as sqlalchemy_delete
from sqlalchemy.exc import IntegrityError

from agent_core.agents import Compaction, Controls, Definition, Limits, Persona, Snapshot, ToolSpec, spread
from agent_core.channels import ChannelConflict, Channels, known_fields
from agent_core.errors import ConfigError, InvalidInput, ManagedByFile, SessionOpen
from agent_core.ids import new_id
from agent_core.objects import AgentObject, Page
from agent_core.quotas import AddressQuota, Quota, VisitorQuota
from agent_core.store.database import Statement, required
from agent_core.store.log import RUN, SESSION, table_of
from agent_core.store.tables import (
    DEFAULT_PROJECT,
    AgentRow,
    AgentVersionRow,
    DroppedPromptRow,
    ProjectRow,
    SnapshotRow,
)

AGENT, VERSION, SNAPSHOT, PROJECT = (table_of(t) for t in (AgentRow, AgentVersionRow, SnapshotRow, ProjectRow))
_SELECT = select(AGENT, VERSION.c.definition).join(
    VERSION, (VERSION.c.agent == AGENT.c.key) & (VERSION.c.version == AGENT.c.version)
)

_NAMED = (
    AGENT.c.project == bindparam("b_project"),
    or_(AGENT.c.id == bindparam("b_name"), AGENT.c.name == bindparam("b_name")),
)
_FIND = Statement(_SELECT.where(*_NAMED))
_KEY = Statement(select(AGENT.c.key).where(*_NAMED))

_DEFAULT = select(PROJECT.c.key).where(PROJECT.c.key == DEFAULT_PROJECT)
# A transaction that opens a session does not wait for this lock; SQLite has one writer at a time anyway.
_IS_THERE, _ALONE = Statement(_DEFAULT), Statement(_DEFAULT.with_for_update(key_share=True))
_MAKE = Statement(insert(PROJECT).values(key=DEFAULT_PROJECT, name="default"))
_LISTED = Statement(
    _SELECT.where(AGENT.c.project == bindparam("b_project"), AGENT.c.key > bindparam("b_after"))
    .order_by(AGENT.c.key)
    .limit(bindparam("b_limit"))
)
_KEPT_HASH = select(SNAPSHOT.c.hash).where(
    SNAPSHOT.c.project == bindparam("b_project"), SNAPSHOT.c.hash == bindparam("b_hash")
)
_KEPT, _HELD = Statement(_KEPT_HASH), Statement(_KEPT_HASH.with_for_update(read=True, key_share=True))
_KEEP, _ADD = (
    Statement(insert(table).values({name: bindparam(f"b_{name}") for name in names}))
    for table, names in (
        (SNAPSHOT, ("project", "hash", "content")),
        (VERSION, ("agent", "version", "definition", "created_at")),
    )
)
_CONTENT = Statement(
    select(SNAPSHOT.c.content).where(SNAPSHOT.c.project == DEFAULT_PROJECT, SNAPSHOT.c.hash == bindparam("b_hash"))
)
_ROUTED = "routed:"
"""What the names of rows with the routed tools of snapshots begin with."""
ASIDE = "aside:"
"""What the names of prompts begin with that are about to be deleted, see `prompts`."""
_GROUPS = (Limits, Controls, VisitorQuota, AddressQuota, Quota, Persona, Compaction)


class StoredAgent(msgspec.Struct, frozen=True):
    """An agent's key and its object."""

    key: int
    object: AgentObject


def ensure_project(connection: Connection) -> None:
    """Create the default project if it is missing."""
    if not _IS_THERE.run(connection):
        _MAKE.run(connection)


def ping(connection: Connection) -> None:
    """Return when the database answers."""
    connection.execute(select(PROJECT.c.key).limit(1)).first()


def find(connection: Connection, name: str, project: int = DEFAULT_PROJECT) -> StoredAgent:
    """Return the agent with this id or name; raises `NotFound`."""
    return _stored(required(_FIND.run(connection, b_project=project, b_name=name), "agent", name))


def key_of(connection: Connection, name: str, project: int = DEFAULT_PROJECT) -> int:
    """Return the key of the agent with this id or name; raises `NotFound`."""
    return required(_KEY.run(connection, b_project=project, b_name=name), "agent", name).key


def listed(connection: Connection, *, limit: int, after: int, project: int = DEFAULT_PROJECT) -> Page[AgentObject]:
    """Return up to *limit* agents with a key above *after*."""
    rows = _LISTED.run(connection, b_project=project, b_after=after, b_limit=limit + 1)
    agents = [_stored(row) for row in rows]
    more = agents[limit - 1].key if len(agents) > limit else None
    return Page(tuple(agent.object for agent in agents[:limit]), None if more is None else str(more))


def agents_with(connection: Connection, wanted: Callable[[Definition], bool]) -> Sequence[str]:
    """Return the names of the agents whose newest definition is *wanted*, in order."""
    rows = connection.execute(_SELECT.where(AGENT.c.project == DEFAULT_PROJECT).order_by(AGENT.c.name))
    return [made.name for made in (_read(row.definition) for row in rows) if wanted(made)]


def definition(connection: Connection, agent: int, version: int) -> tuple[str, Definition]:
    """Return the id and the definition of one version of an agent."""
    query = (
        select(AGENT.c.id, VERSION.c.definition)
        .join(VERSION, VERSION.c.agent == AGENT.c.key)
        .where(AGENT.c.key == agent, VERSION.c.version == version)
    )
    row = connection.execute(query).one()
    return row.id, _read(row.definition)


def create(
    connection: Connection,
    wanted: Definition,
    *,
    channels: Channels,
    now: int,
    source: Literal["file", "api"] = "api",
) -> AgentObject:
    """Store a new agent; raises `InvalidInput` when its name, or unless it is from a file its place, is taken."""
    _ALONE.run(connection)
    if source == "api":
        _refuse_conflict(connection, wanted, None, channels)
    name = new_id("agent")
    values = {"project": DEFAULT_PROJECT, "id": name, "name": wanted.name, "source": source, "version": 1}
    values |= _bounds(wanted)
    try:
        key = connection.execute(insert(AGENT).values(**values).returning(AGENT.c.key)).scalar_one()
    except IntegrityError as error:
        raise InvalidInput("name", f"an agent named `{wanted.name}` is there already; choose another name.") from error
    _add_version(connection, key, 1, wanted, now)
    return find(connection, name).object


def update_definition(
    connection: Connection, agent: StoredAgent, wanted: Definition, *, channels: Channels, now: int
) -> AgentObject:
    """Store *wanted* as the agent's next version; an equal definition changes nothing."""
    stored = channels.readable(agent.object.definition)
    if wanted == stored:
        return agent.object
    if agent.object.source == "api" and wanted.channels != stored.channels:
        _ALONE.run(connection)
        _refuse_conflict(connection, wanted, agent.key, channels)
    version = agent.object.version + 1
    values = {"version": version, "name": wanted.name, **_bounds(wanted)}
    try:
        connection.execute(update(AGENT).where(AGENT.c.key == agent.key).values(**values))
    except IntegrityError as error:
        raise InvalidInput("name", f"an agent named `{wanted.name}` is there already; choose another name.") from error
    _add_version(connection, agent.key, version, channels.keep_unknown(wanted, agent.object.definition), now)
    return find(connection, agent.object.id).object


def editable(agent: StoredAgent) -> StoredAgent:
    """Return *agent*; raises `ManagedByFile` when a file defines it."""
    if agent.object.source == "file":
        raise ManagedByFile(
            f"The agent `{agent.object.definition.name}` comes from a file: change the file and start again."
        )
    return agent


def delete(connection: Connection, agent: StoredAgent) -> None:
    """Remove an agent that no session uses; raises `SessionOpen` otherwise."""
    # Opening a session locks the agent's row in share mode until its commit: after this no new session appears.
    connection.execute(select(AGENT.c.key).where(AGENT.c.key == agent.key).with_for_update())
    if connection.execute(select(exists().where(SESSION.c.agent == agent.key))).scalar():
        raise SessionOpen(f"The agent `{agent.object.definition.name}` still has sessions: delete them first.")
    connection.execute(AGENT.delete().where(AGENT.c.key == agent.key))


def sync_files(connection: Connection, definitions: Sequence[Definition], *, channels: Channels, now: int) -> None:
    """Store the agents that files define: new ones are created, changed ones get a version.

    An agent whose file is gone becomes an ordinary one, so that its sessions still work. Processes that start together
    do it one after the other. Raises `ConfigError` when two agents claim one place.
    """
    _ALONE.run(connection)
    stored = {row.name: row for row in connection.execute(_SELECT.where(AGENT.c.project == DEFAULT_PROJECT))}
    names = {wanted.name for wanted in definitions}
    for wanted in definitions:
        if wanted.name not in stored:
            create(connection, wanted, channels=channels, now=now, source="file")
            continue
        update_definition(connection, _stored(stored[wanted.name]), wanted, channels=channels, now=now)
        connection.execute(update(AGENT).where(AGENT.c.name == wanted.name).values(source="file"))
    gone = [row.key for name, row in stored.items() if row.source == "file" and name not in names]
    if gone:
        connection.execute(update(AGENT).where(AGENT.c.key.in_(gone)).values(source="api"))
    for conflict in _conflicts(connection, channels):
        raise ConfigError(f"Agents: {conflict}")


def _conflicts(connection: Connection, channels: Channels) -> list[ChannelConflict]:
    """Return which agents of the project claim one place, the oldest first."""
    rows = connection.execute(_SELECT.where(AGENT.c.project == DEFAULT_PROJECT).order_by(AGENT.c.key))
    return channels.conflicts(_read(row.definition) for row in rows)


def _refuse_conflict(connection: Connection, wanted: Definition, key: int | None, channels: Channels) -> None:
    """Raise `InvalidInput` when an agent other than that of *key* claims what *wanted* claims."""
    if not channels.claims(wanted):
        return
    rows = connection.execute(_SELECT.where(AGENT.c.project == DEFAULT_PROJECT, AGENT.c.key != (key or 0)))
    others = [_read(row.definition) for row in rows]
    for conflict in channels.conflicts([*(other for other in others if other.name != wanted.name), wanted]):
        if wanted.name in (conflict.first, conflict.second):
            raise InvalidInput(conflict.path, str(conflict))


def keep_snapshot(connection: Connection, snapshot: Snapshot, *, is_held: bool = False) -> None:
    """Store *snapshot* under its hash, unless it is stored already; *is_held*: it keeps its name until the commit.

    The tools that its router shows are a row of their own, which many snapshots share: those of runs that bring
    instructions or a model of their own differ in the prompt alone.
    """
    if _is_kept(connection, snapshot.hash, _HELD if is_held else _KEPT):
        return
    if snapshot.routed and not _is_kept(connection, _ROUTED + snapshot.routed_hash):
        _keep(connection, _ROUTED + snapshot.routed_hash, snapshot.routed)
    _keep(connection, snapshot.hash, msgspec.structs.replace(snapshot, routed=()))


def snapshot(connection: Connection, name: str) -> Snapshot:
    """Return the snapshot with this hash."""
    loaded = msgspec.json.decode(_content(connection, name), type=Snapshot)
    if not loaded.routed_hash:
        return loaded
    return msgspec.structs.replace(loaded, routed=_routed(_content(connection, _ROUTED + loaded.routed_hash)))


def _is_kept(connection: Connection, name: str, look: Statement = _KEPT) -> bool:
    return bool(look.run(connection, b_project=DEFAULT_PROJECT, b_hash=name))


def _keep(connection: Connection, name: str, content: object) -> None:
    _KEEP.run(connection, b_project=DEFAULT_PROJECT, b_hash=name, b_content=msgspec.json.encode(content))


def _content(connection: Connection, name: str) -> bytes:
    # A run that found the prompt just before it was set aside reads it there until it has its name back.
    content = _CONTENT.run(connection, b_hash=name).scalar() or _CONTENT.run(connection, b_hash=ASIDE + name).scalar()
    if content is None:
        raise LookupError(f"No prompt is stored as {name}.")
    return content


@lru_cache(maxsize=32)
def _routed(content: bytes) -> tuple[ToolSpec, ...]:
    """Return the tools in a row; equal rows give the same ones, so that sessions share them in memory."""
    return msgspec.json.decode(content, type=tuple[ToolSpec, ...])


def _bounds(wanted: Definition) -> dict[str, Any]:
    """Return what the agent's row repeats of the limits in its newest definition."""
    return {"max_runs": wanted.limits.max_runs, "quotas": msgspec.json.encode(wanted.limits.quotas)}


def _add_version(connection: Connection, agent: int, version: int, wanted: Definition, now: int) -> None:
    content = msgspec.json.encode(spread(wanted))
    _ADD.run(connection, b_agent=agent, b_version=version, b_definition=content, b_created_at=now)


def _stored(row: Any) -> StoredAgent:
    wanted = _read(row.definition)
    return StoredAgent(row.key, AgentObject(id=row.id, version=row.version, source=row.source, definition=wanted))


def _read(stored: bytes) -> Definition:
    """Return a definition without what a newer version added to its fields: both serve during a deploy.

    The settings of channels are stored beside the fields, as earlier versions did, so each version reads the other's.
    """
    values: dict[str, Any] = msgspec.json.decode(stored)
    fields = known_fields(values, Definition, _GROUPS)
    channels: dict[str, Any] = {
        name: value for name, value in values.items() if name not in fields and isinstance(value, dict)
    }
    return msgspec.convert({**fields, "channels": channels}, Definition)


DROPPED = table_of(DroppedPromptRow)
SETTLED = 2.0
"""Seconds after which no transaction is under way any more that found a prompt before it was set aside."""
# As text: both databases have the same words for it. One that others noted, and set aside, is looked at again.
_NOTE = text("INSERT INTO dropped_prompt (hash) VALUES (:name) ON CONFLICT (hash) DO UPDATE SET aside_at = NULL")
_BATCH = 500
"""Names that one statement compares."""


def drop_prompts(connection: Connection, session: int) -> None:
    """Note the prompts that runs of *session*, which is about to be deleted, brought: others than its own."""
    own = select(SESSION.c.snapshot).where(SESSION.c.key == session).scalar_subquery()
    brought = select(RUN.c.snapshot).where(RUN.c.session == session, RUN.c.snapshot != own).distinct()
    for name in sorted(connection.execute(brought).scalars()):
        connection.execute(_NOTE, {"name": name})


def is_any_dropped(connection: Connection) -> bool:
    """Return whether any prompt is noted."""
    return connection.execute(select(DROPPED.c.hash).limit(1)).first() is not None


def set_aside_prompts(connection: Connection, now: int) -> None:
    """Rename the noted prompts that no session and no run names, so that they are found no more."""
    noted = set(connection.execute(select(DROPPED.c.hash).where(DROPPED.c.aside_at.is_(None))).scalars())
    for name in sorted(noted - _named(connection, noted)):
        if _is_stored(connection, name):
            connection.execute(sqlalchemy_delete(SNAPSHOT).where(SNAPSHOT.c.hash == ASIDE + name))
            connection.execute(update(SNAPSHOT).where(SNAPSHOT.c.hash == name).values(hash=ASIDE + name))
    for batch in _batches(noted):
        connection.execute(update(DROPPED).where(DROPPED.c.hash.in_(batch)).values(aside_at=now))


def settle_prompts(connection: Connection, now: int) -> None:
    """Delete the prompts that were set aside `SETTLED` seconds ago; one that a row names after all gets its name back.

    Those that others set aside later have their time.
    """
    due = DROPPED.c.aside_at <= now - SETTLED * 1000
    hashes = set(connection.execute(select(DROPPED.c.hash).where(due)).scalars())
    named = _named(connection, hashes)
    for name in sorted(hashes):
        if name in named and not _is_stored(connection, name):
            connection.execute(update(SNAPSHOT).where(SNAPSHOT.c.hash == ASIDE + name).values(hash=name))
        connection.execute(sqlalchemy_delete(SNAPSHOT).where(SNAPSHOT.c.hash == ASIDE + name))
        connection.execute(sqlalchemy_delete(DROPPED).where(DROPPED.c.hash == name))


def _is_stored(connection: Connection, name: str) -> bool:
    return connection.execute(select(SNAPSHOT.c.hash).where(SNAPSHOT.c.hash == name)).first() is not None


def _named(connection: Connection, hashes: Collection[str]) -> set[str]:
    """Return those of *hashes* that a session or a run names."""
    names = set[str]()
    for batch in _batches(hashes):
        for column in (RUN.c.snapshot, SESSION.c.snapshot, SESSION.c.prefix):
            names.update(connection.execute(select(column).where(column.in_(batch)).distinct()).scalars())
    return names


def _batches(names: Collection[str]) -> Iterator[Sequence[str]]:
    ordered = sorted(names)
    for start in range(0, len(ordered), _BATCH):
        yield ordered[start : start + _BATCH]
