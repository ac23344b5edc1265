"""Prompts that runs of deleted sessions brought with them. Each function is one transaction's work.

The transaction that deletes a session notes them, so that a process which dies leaves the next one to finish. A prompt
may be others' too: one that no row names is first set aside, under another name. Who wants it from then on stores it
again; who had found it just before has a row that names it by the time that `settle` looks.
"""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, delete, select, text, update

from agent_core.store.log import RUN, SESSION, table_of
from agent_core.store.work.catalog import ASIDE, SNAPSHOT
from agent_core.store.work.tables import DroppedPromptRow

DROPPED = table_of(DroppedPromptRow)
SETTLED = 2.0
"""Seconds after which no transaction is under way any more that found a prompt before it was set aside."""
# As text: both databases have the same words for it. One that others noted, and set aside, is looked at again.
_NOTE = text("INSERT INTO dropped_prompt (hash) VALUES (:name) ON CONFLICT (hash) DO UPDATE SET aside_at = NULL")
_BATCH = 500
"""Names that one statement compares."""


def drop(connection: Connection, session: int) -> None:
    """Note the prompts that runs of *session*, which is about to be deleted, brought: others than its own."""
    own = select(SESSION.c.snapshot).where(SESSION.c.key == session).scalar_subquery()
    brought = select(RUN.c.snapshot).where(RUN.c.session == session, RUN.c.snapshot != own).distinct()
    for name in sorted(connection.execute(brought).scalars()):
        connection.execute(_NOTE, {"name": name})


def is_any_dropped(connection: Connection) -> bool:
    """Return whether any prompt is noted."""
    return connection.execute(select(DROPPED.c.hash).limit(1)).first() is not None


def set_aside(connection: Connection, now: int) -> None:
    """Rename the noted prompts that no session and no run names, so that they are found no more."""
    noted = set(connection.execute(select(DROPPED.c.hash).where(DROPPED.c.aside_at.is_(None))).scalars())
    for name in sorted(noted - _named(connection, noted)):
        if _is_stored(connection, name):
            connection.execute(delete(SNAPSHOT).where(SNAPSHOT.c.hash == ASIDE + name))
            connection.execute(update(SNAPSHOT).where(SNAPSHOT.c.hash == name).values(hash=ASIDE + name))
    for batch in _batches(noted):
        connection.execute(update(DROPPED).where(DROPPED.c.hash.in_(batch)).values(aside_at=now))


def settle(connection: Connection, now: int) -> None:
    """Delete the prompts that were set aside `SETTLED` seconds ago; one that a row names after all gets its name back.

    Those that others set aside later have their time.
    """
    due = DROPPED.c.aside_at <= now - SETTLED * 1000
    hashes = set(connection.execute(select(DROPPED.c.hash).where(due)).scalars())
    named = _named(connection, hashes)
    for name in sorted(hashes):
        if name in named and not _is_stored(connection, name):
            connection.execute(update(SNAPSHOT).where(SNAPSHOT.c.hash == ASIDE + name).values(hash=name))
        connection.execute(delete(SNAPSHOT).where(SNAPSHOT.c.hash == ASIDE + name))
        connection.execute(delete(DROPPED).where(DROPPED.c.hash == name))


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
