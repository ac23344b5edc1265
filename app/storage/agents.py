"""The agents that a database has, for checks outside of a server."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

from agent_core import AgentObject
from agent_core.store import catalog
from app.settings import Settings
from app.storage.servers import query

MAX_AGENTS = 10_000
"""Agents that a check looks at."""


def stored_agents(settings: Settings) -> Sequence[AgentObject]:
    """Return the agents that were made over HTTP; none of a database that is missing, or of another version."""
    return [agent for agent in all_agents(settings) if agent.source == "api"]


def all_agents(settings: Settings) -> Sequence[AgentObject]:
    """Return all agents of the database, those of files as the last start read them; none as above."""
    return query(settings, _read) or ()


def _read(connection: Connection) -> Sequence[AgentObject]:
    try:
        return catalog.listed(connection, limit=MAX_AGENTS, after=0).items
    except (msgspec.ValidationError, connection.dialect.loaded_dbapi.Error):
        # Of another version, or empty: that is a finding of the migrations. Prepared statements raise the driver's own.
        return ()
