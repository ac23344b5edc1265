"""Secrets in the store, sealed. Each function is one transaction's work."""

from collections.abc import Collection, Mapping, Sequence

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from agent_core.agents import secrets_in
from agent_core.errors import Conflict, NotFound
from agent_core.objects import Page, SecretObject
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT
from agent_core.store.work.tooling.revisions import bump
from agent_core.store.work.tooling.servers import NEVER
from agent_core.store.work.tooling.tables import McpServerRow, SecretRow, ToolRow, ToolVersionRow

SECRET = table_of(SecretRow)
TOOL, VERSION, SERVER = table_of(ToolRow), table_of(ToolVersionRow), table_of(McpServerRow)


def put(connection: Connection, name: str, sealed: str, *, now: int, replace: bool) -> SecretObject:
    """Store a secret; raises `Conflict` when there is one of that *name* and it is not to be replaced.

    The MCP servers that refer to it are due at once: they may have failed for want of it.
    """
    where = (SECRET.c.project == DEFAULT_PROJECT, SECRET.c.name == name)
    existing = connection.execute(select(SECRET.c.created_at).where(*where)).first()
    if existing is not None and not replace:
        raise Conflict(f"There is a secret `{name}` already; give it a new value with PUT /v1/secrets/{name}.")
    bump(connection, "secrets")
    _make_servers_due(connection, name, now)
    if existing is None:
        row = {"project": DEFAULT_PROJECT, "name": name, "created_at": now}
        connection.execute(insert(SECRET).values(**row, sealed=sealed.encode(), updated_at=now))
        return SecretObject(name=name, created_at=now, updated_at=now)
    connection.execute(update(SECRET).where(*where).values(sealed=sealed.encode(), updated_at=now))
    return SecretObject(name=name, created_at=existing.created_at, updated_at=now)


def sealed(connection: Connection, names: Collection[str]) -> Mapping[str, str]:
    """Return those of the secrets *names* that there are, by name, sealed."""
    query = select(SECRET.c.name, SECRET.c.sealed).where(SECRET.c.project == DEFAULT_PROJECT, SECRET.c.name.in_(names))
    return {row.name: bytes(row.sealed).decode() for row in connection.execute(query)}


def listed(connection: Connection, *, limit: int, after: int | None) -> Page[SecretObject]:
    """Return up to *limit* secrets without their values, the oldest first, with a row's key above *after*."""
    columns = (SECRET.c.key, SECRET.c.name, SECRET.c.created_at, SECRET.c.updated_at)
    query = select(*columns).where(SECRET.c.project == DEFAULT_PROJECT).order_by(SECRET.c.key).limit(limit + 1)
    rows = connection.execute(query if after is None else query.where(SECRET.c.key > after)).all()
    secrets = [SecretObject(name=row.name, created_at=row.created_at, updated_at=row.updated_at) for row in rows]
    return Page(tuple(secrets[:limit]), str(rows[limit - 1].key) if len(rows) > limit else None)


def remove(connection: Connection, name: str) -> None:
    """Delete a secret; raises `NotFound`, and `Conflict` while tools or servers refer to it."""
    bump(connection, "secrets")
    if users := users_of(connection, name):
        raise Conflict(
            f"The secret `{name}` is used by {', '.join(users)}; change these first, or give it a new value."
        )
    gone = delete(SECRET).where(SECRET.c.project == DEFAULT_PROJECT, SECRET.c.name == name)
    if not connection.execute(gone).rowcount:
        raise NotFound("secret", name)


def users_of(connection: Connection, name: str) -> Sequence[str]:
    """Return the tools, in their newest versions, and the servers that refer to the secret *name*."""
    newest = select(TOOL.c.name, VERSION.c.definition).join(
        VERSION, (VERSION.c.tool == TOOL.c.key) & (VERSION.c.version == TOOL.c.version)
    )
    tools = connection.execute(newest.where(TOOL.c.project == DEFAULT_PROJECT).order_by(TOOL.c.name))
    servers = connection.execute(
        select(SERVER.c.name, SERVER.c.definition).where(SERVER.c.project == DEFAULT_PROJECT).order_by(SERVER.c.name)
    )
    return [
        *(f"the tool `{row.name}`" for row in tools if _refers(row.definition, name)),
        *(f"the MCP server `{row.name}`" for row in servers if _refers(row.definition, name)),
    ]


def _make_servers_due(connection: Connection, name: str, now: int) -> None:
    """Make the servers that refer to the secret *name* due, but for those that are disabled."""
    later = (SERVER.c.project == DEFAULT_PROJECT, SERVER.c.due_at > now, SERVER.c.due_at < NEVER)
    rows = connection.execute(select(SERVER.c.key, SERVER.c.definition).where(*later)).all()
    keys = [row.key for row in rows if _refers(row.definition, name)]
    connection.execute(update(SERVER).where(SERVER.c.key.in_(keys)).values(due_at=now))


def _refers(definition: bytes, name: str) -> bool:
    return name in secrets_in(msgspec.json.decode(bytes(definition)))
