"""A session's whole log, and the snapshots that its prompts began with."""

import msgspec
from sqlalchemy import Connection, select

from agent_core.domain.agents import Snapshot
from agent_core.domain.events import Fact, StepStarted
from agent_core.store import log
from agent_core.store.tables import DEFAULT_PROJECT
from agent_core.store.work import sessions
from agent_core.store.work.catalog import SNAPSHOT


class WholeLog(msgspec.Struct, frozen=True):
    """All facts of a session, oldest first; *snapshots* are by hash, *marker* is that of its frames."""

    facts: list[Fact]
    snapshots: dict[str, Snapshot]
    marker: str


def whole_log(connection: Connection, session: str) -> WholeLog:
    """Read all of *session*; raises `NotFound`."""
    ref = sessions.find(connection, session)
    facts = log.facts_between(connection, ref.session_key, 0)
    named = {fact.body.snapshot for fact in facts if isinstance(fact.body, StepStarted)}
    _, marker = sessions.opener_and_marker(connection, ref)
    return WholeLog(facts, _snapshots(connection, named | {ref.snapshot}), marker)


def _snapshots(connection: Connection, names: set[str]) -> dict[str, Snapshot]:
    query = select(SNAPSHOT.c.hash, SNAPSHOT.c.content).where(
        SNAPSHOT.c.project == DEFAULT_PROJECT, SNAPSHOT.c.hash.in_(names)
    )
    return {row.hash: msgspec.json.decode(row.content, type=Snapshot) for row in connection.execute(query)}
