"""Logins at MCP servers in the store, sealed: kept, dropped, renewed by one process at a time. One transaction each.

A login is in the row of its server, and goes with it. What is compared are sealed texts: equal ones are equal logins.
"""

from typing import Any

import msgspec
from sqlalchemy import Connection, select, update

from agent_core.servers import LoginState
from agent_core.store.tables import DEFAULT_PROJECT
from agent_core.store.work.tooling import revisions
from agent_core.store.work.tooling.servers import NEVER, NO_LOGIN, SERVER, StoredServer

LEASE = 45_000
"""Milliseconds for which one process renews a login: more than a request to a token endpoint may take."""


def keep(connection: Connection, stored: StoredServer, sealed: str, state: LoginState, *, now: int) -> bool:
    """Keep a new login of *stored*, which is asked at once; return whether its definition is still that one."""
    revisions.bump(connection, "mcp")
    same = (SERVER.c.key == stored.key, SERVER.c.definition == stored.definition)
    updated = connection.execute(update(SERVER).where(*same).values(**_values(sealed, state), login_lease=None))
    due = (*same, SERVER.c.due_at > now, SERVER.c.due_at < NEVER)
    connection.execute(update(SERVER).where(*due).values(due_at=now))
    return updated.rowcount > 0


def drop(connection: Connection, stored: StoredServer) -> bool:
    """Forget the login of *stored*; return whether it was still that one, and else forget nothing."""
    revisions.bump(connection, "mcp")
    login = SERVER.c.login.is_(None) if stored.login is None else SERVER.c.login == stored.login.encode()
    mine = update(SERVER).where(SERVER.c.key == stored.key, login)
    return connection.execute(mine.values(**NO_LOGIN)).rowcount > 0


def claim(connection: Connection, server: str, spent: str, *, now: int) -> str | bool | None:
    """Return the sealed login of *server* if it is another than *spent*, None if there is none.

    Else whether the caller alone may renew it from now on.
    """
    query = select(SERVER.c.login).where(SERVER.c.project == DEFAULT_PROJECT, SERVER.c.name == server)
    sealed = connection.execute(query).scalar()
    if sealed is None or bytes(sealed).decode() != spent:
        return None if sealed is None else bytes(sealed).decode()
    free = (SERVER.c.login_lease.is_(None)) | (SERVER.c.login_lease <= now)
    mine = update(SERVER).where(*_is(server, spent), free).values(login_lease=now + LEASE)
    return connection.execute(mine).rowcount > 0


def put(connection: Connection, server: str, spent: str, sealed: str, state: LoginState) -> bool:
    """Keep what followed *spent*, unless another login is there by now, or none; return whether it is kept."""
    revisions.bump(connection, "mcp")
    values = {**_values(sealed, state), "login_lease": None}
    return connection.execute(update(SERVER).where(*_is(server, spent)).values(**values)).rowcount > 0


def lack(connection: Connection, server: str, login: str, state: LoginState) -> None:
    """Note in the *state* of *login* what it lacks, unless another one is there by now."""
    revisions.bump(connection, "mcp")
    values = {"login_state": msgspec.json.encode(state)}
    connection.execute(update(SERVER).where(*_is(server, login)).values(**values))


def end(connection: Connection, server: str, spent: str, state: LoginState) -> None:
    """Drop *spent*, unless another login is there by now; *state* says why."""
    revisions.bump(connection, "mcp")
    values = {**NO_LOGIN, "login_state": msgspec.json.encode(state)}
    connection.execute(update(SERVER).where(*_is(server, spent)).values(**values))


def release(connection: Connection, server: str, spent: str) -> None:
    """Let another process renew *spent*."""
    connection.execute(update(SERVER).where(*_is(server, spent)).values(login_lease=None))


def _is(server: str, sealed: str) -> tuple[Any, ...]:
    return (SERVER.c.project == DEFAULT_PROJECT, SERVER.c.name == server, SERVER.c.login == sealed.encode())


def _values(sealed: str, state: LoginState) -> dict[str, Any]:
    return {"login": sealed.encode(), "login_state": msgspec.json.encode(state)}
