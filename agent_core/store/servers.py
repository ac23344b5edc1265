"""MCP servers, logins at them and secrets, as they are kept."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
import structlog
from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy import delete as sqlalchemy_delete
from sqlalchemy.exc import IntegrityError

from agent_core.agents import secrets_in
from agent_core.channels import known_fields
from agent_core.errors import Conflict, InvalidInput, ManagedByFile, NotFound
from agent_core.ids import new_id
from agent_core.listings import KeptListing, accepted_after
from agent_core.objects import Page, SecretObject
from agent_core.servers import LoginState, McpOAuth, McpServer, McpTool, uses_login
from agent_core.store import tools
from agent_core.store.database import page_of, required
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT, McpServerRow, SecretRow, ToolRow, ToolVersionRow

SERVER, SECRET = table_of(McpServerRow), table_of(SecretRow)
_OURS = SERVER.c.project == DEFAULT_PROJECT
LEASE = 90_000
"""Milliseconds for which the process that claimed a server alone discovers it: more than a discovery may take."""
NEVER = 2**62
"""When a server is due that is disabled."""
HOUR = 3_600_000
MIN_PAUSE, MAX_PAUSE = 5_000, 600_000
"""Milliseconds of the pause after a first failure, and of the longest: each is twice the one before."""
STEADY = 5_000
"""Milliseconds between two discoveries of a server that says again and again that its list has changed."""
MAX_ERROR = 2_000
Source = Literal["file", "api"]
_OTHER_PLACE = ("transport", "url", "command", "args", "cwd")
"""Fields that say which server it is: with another value of them it is one of which nothing is known."""
NO_LOGIN: dict[str, Any] = {"login": None, "login_state": None, "login_lease": None}
_log = structlog.get_logger("parley.mcp")


class StoredServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it is stored, the private texts of its definition sealed; see `McpServerRow`."""

    key: int
    id: str
    source: Source
    definition: bytes
    server: McpServer
    kept: KeptListing | None
    listed_at: int | None
    accepted: tuple[McpTool, ...] | None
    error: str | None
    failed_at: int | None
    login: str | None = None
    login_state: LoginState | None = None
    due_at: int
    created_at: int
    updated_at: int


class Claim(msgspec.Struct, frozen=True):
    """A server that one process discovers until *lease*; *before* is when it had been due."""

    stored: StoredServer
    lease: int
    before: int


def everything(connection: Connection) -> Sequence[StoredServer]:
    """Return all servers that this version can read, the oldest first."""
    rows = connection.execute(select(SERVER).where(_OURS).order_by(SERVER.c.key))
    return [stored for row in rows if (stored := _readable(row)) is not None]


def listed(connection: Connection, *, limit: int, after: int) -> Page[StoredServer]:
    """Return up to *limit* servers with a key above *after*, without those that this version cannot read."""
    query = select(SERVER).where(_OURS, SERVER.c.key > after)
    rows = connection.execute(query.order_by(SERVER.c.key).limit(limit + 1)).all()
    servers = [stored for row in rows[:limit] if (stored := _readable(row)) is not None]
    return Page(tuple(servers), str(rows[limit - 1].key) if len(rows) > limit else None)


def find(connection: Connection, name: str) -> StoredServer:
    """Return the server with this id or name; raises `NotFound`, or `Conflict` if this version cannot read it."""
    named = or_(SERVER.c.id == name, SERVER.c.name == name)
    row = required(connection.execute(select(SERVER).where(_OURS, named)), "MCP server", name)
    if (server := _readable(row)) is None:
        raise Conflict(f"The MCP server `{row.name}` cannot be read by this version: {tools.NEWER}.")
    return server


def editable(stored: StoredServer) -> StoredServer:
    """Return *stored*; raises `ManagedByFile` when a file defines it."""
    if stored.source == "file":
        raise ManagedByFile(f"The MCP server `{stored.server.name}` comes from mcp.json: change the file instead.")
    return stored


def create(connection: Connection, server: McpServer, *, now: int, source: Source = "api") -> StoredServer:
    """Store a new server, due at once; raises `InvalidInput` when its name is taken."""
    id = new_id("mcp")
    row = {"project": DEFAULT_PROJECT, "id": id, "name": server.name, "source": source, "created_at": now}
    row |= {"definition": msgspec.json.encode(server), "due_at": _due(server, now), "updated_at": now}
    try:
        connection.execute(insert(SERVER).values(**row))
    except IntegrityError as error:
        text = f"an MCP server named `{server.name}` is there already; choose another name."
        raise InvalidInput("name", text) from error
    tools.bump_revision(connection, "mcp")
    return find(connection, id)


def change(connection: Connection, stored: StoredServer, server: McpServer, *, now: int) -> StoredServer:
    """Store *server* in the place of *stored*, due at once; an equal definition changes nothing.

    At another address it is another server, of which nothing is accepted yet. A login goes with it, and with another
    issuer or client: its tokens are those of the one before.
    """
    if server == stored.server:
        return stored
    values: dict[str, Any] = {"definition": msgspec.json.encode(server), "name": server.name, "updated_at": now}
    values |= {"due_at": _due(server, now), "error": None, "failed_at": None}
    if any(getattr(server, name) != getattr(stored.server, name) for name in _OTHER_PLACE):
        values |= {"listing": None, "listed_at": None, "accepted": None, **NO_LOGIN}
    elif stored.kept is not None:
        accepted = accepted_after(server, stored.kept.listing, stored.accepted)
        values["accepted"] = msgspec.json.encode(accepted)
    if _client_of(server) != _client_of(stored.server):
        values |= NO_LOGIN
    try:
        _set(connection, stored, values)
    except IntegrityError as error:
        text = f"an MCP server named `{server.name}` is there already; choose another name."
        raise InvalidInput("name", text) from error
    return find(connection, stored.id)


def delete(connection: Connection, stored: StoredServer) -> None:
    """Remove a server, and its login; agents that name it go on without."""
    connection.execute(SERVER.delete().where(SERVER.c.key == stored.key))
    tools.bump_revision(connection, "mcp")


def sync_files(connection: Connection, servers: Sequence[McpServer], *, now: int) -> Sequence[StoredServer]:
    """Store the servers that a file defines: new ones are created, changed ones discovered again.

    One that is in the file no more becomes an ordinary one, as an agent does whose file is gone, and is disabled: its
    operator took it out. One of the same name that came over HTTP is the file's from then on.

    Returns the servers as they were whose login has ended by this: those that were taken out, and those that `change`
    ends it of.
    """
    ended: list[StoredServer] = []
    tools.bump_revision(connection, "mcp")  # processes that start together do it one after the other
    existing = {stored.server.name: stored for stored in everything(connection)}
    unread = frozenset(connection.execute(select(SERVER.c.name).where(_OURS)).scalars()) - existing.keys()
    for server in servers:
        stored = existing.get(server.name)
        if server.name in unread:  # a newer version wrote it: what was accepted of it is not ours to drop
            continue
        if stored is None:
            create(connection, server, now=now, source="file")
        else:
            before, stored = stored, change(connection, stored, server, now=now)
            ended += [before] if before.login is not None and stored.login is None else []
            if stored.source != "file":
                _set(connection, stored, {"source": "file"})
    names = {server.name for server in servers}
    for name, stored in existing.items():
        if stored.source == "file" and name not in names:
            off = msgspec.structs.replace(stored.server, enabled=False)
            values = {"source": "api", "definition": msgspec.json.encode(off), "due_at": NEVER, "updated_at": now}
            _set(connection, stored, {**values, **NO_LOGIN})
            ended += [] if stored.login is None else [stored]
    return ended


def notice(connection: Connection, name: str, *, now: int) -> None:
    """Make the server *name*, if it is there, due because it says that its list has changed.

    It is so at the earliest `STEADY` after its last discovery: many notices are one.
    """
    row = connection.execute(select(SERVER.c.key, SERVER.c.listed_at).where(_OURS, SERVER.c.name == name)).first()
    if row is not None:
        at = max(now, (row.listed_at or 0) + STEADY)
        later = (SERVER.c.key == row.key, SERVER.c.due_at > at, SERVER.c.due_at < NEVER)
        connection.execute(update(SERVER).where(*later).values(due_at=at))


def secret_names(connection: Connection) -> frozenset[str]:
    """Return the names of the secrets that are stored."""
    return frozenset(connection.execute(select(SECRET.c.name).where(SECRET.c.project == DEFAULT_PROJECT)).scalars())


def claim(connection: Connection, *, now: int) -> Claim | None:
    """Claim one server that is due, for this process alone; None when none is."""
    due = select(SERVER).where(_OURS, SERVER.c.due_at <= now)
    for row in connection.execute(due.order_by(SERVER.c.due_at)).all():
        mine = update(SERVER).where(SERVER.c.key == row.key, SERVER.c.due_at == row.due_at)
        if not connection.execute(mine.values(due_at=now + LEASE)).rowcount:
            continue
        if (stored := _readable(row)) is not None:  # else it is left to a process that can, and holds up no other
            return Claim(stored, now + LEASE, row.due_at)
    return None


def take(connection: Connection, name: str, *, now: int) -> Claim:
    """Claim the server *name*, due or not; raises `NotFound`, `InvalidInput` when it is disabled."""
    stored = find(connection, name)
    if not stored.server.enabled:
        raise InvalidInput("id", f"the MCP server `{stored.server.name}` is disabled; enable it first.")
    connection.execute(update(SERVER).where(SERVER.c.key == stored.key).values(due_at=now + LEASE))
    return Claim(stored, now + LEASE, min(now, stored.due_at))


def next_due(connection: Connection) -> int | None:
    """Return when the next server is due, None without one."""
    query = select(SERVER.c.due_at).where(_OURS, SERVER.c.due_at < NEVER)
    return connection.execute(query.order_by(SERVER.c.due_at).limit(1)).scalar()


def succeeded(connection: Connection, claim: Claim, discovered: KeptListing, *, now: int) -> None:
    """Keep what a discovery found, and what is accepted of it; nothing if the definition has changed meanwhile."""
    stored = _again(connection, claim)
    if stored is None:
        return
    accepted = accepted_after(stored.server, discovered.listing, stored.accepted)
    values: dict[str, Any] = {"listed_at": now, "error": None, "failed_at": None}
    values |= _next(stored, claim, now + HOUR)
    differs = stored.kept != discovered or stored.accepted != accepted or stored.error is not None
    if differs:
        values |= {"listing": msgspec.json.encode(discovered), "accepted": msgspec.json.encode(accepted)}
    _set(connection, stored, values, bump=differs)


def failed(connection: Connection, claim: Claim, error: str, *, now: int) -> None:
    """Note why a discovery failed; the next one is due after a pause that grows with each failure in a row.

    What was listed and accepted before stays.
    """
    stored = _again(connection, claim)
    if stored is None:
        return
    last = claim.before - stored.failed_at if stored.failed_at is not None else 0
    pause = min(max(2 * last, MIN_PAUSE), MAX_PAUSE)
    values: dict[str, Any] = {"error": error[:MAX_ERROR], "failed_at": now, **_next(stored, claim, now + pause)}
    _set(connection, stored, values, bump=stored.error != error[:MAX_ERROR])


def accept(connection: Connection, stored: StoredServer) -> StoredServer:
    """Accept all that the newest listing of *stored* says."""
    assert stored.kept is not None, "What was never listed cannot be accepted."
    _set(connection, stored, {"accepted": msgspec.json.encode(stored.kept.listing.tools)})
    return find(connection, stored.id)


def _again(connection: Connection, claim: Claim) -> StoredServer | None:
    """Return the claimed server as it is now, None if it is gone or defined otherwise."""
    row = connection.execute(select(SERVER).where(SERVER.c.key == claim.stored.key)).first()
    stored = None if row is None else _readable(row)
    return stored if stored is not None and stored.server == claim.stored.server else None


def _next(stored: StoredServer, claim: Claim, at: int) -> dict[str, Any]:
    """Return when it is due next: *at*, unless it was asked for since it was claimed."""
    return {"due_at": at} if stored.due_at == claim.lease else {}


def _set(connection: Connection, stored: StoredServer, values: dict[str, Any], *, bump: bool = True) -> None:
    """Change the row of *stored* unless its definition is another one by now: who changed that knows better."""
    if bump:  # first, as in every transaction that changes servers: no two wait for each other
        tools.bump_revision(connection, "mcp")
    same = (SERVER.c.key == stored.key, SERVER.c.definition == stored.definition)
    connection.execute(update(SERVER).where(*same).values(**values))


def _client_of(server: McpServer) -> tuple[object, ...]:
    """Return who logs in at *server*, and where."""
    oauth = server.oauth or McpOAuth()
    return uses_login(server), oauth.issuer, oauth.token_url, oauth.client_id


def _due(server: McpServer, now: int) -> int:
    return now if server.enabled else NEVER


def _stored(row: Any) -> StoredServer:
    return StoredServer(
        key=row.key,
        id=row.id,
        source=row.source,
        definition=bytes(row.definition),
        server=_read(row.definition),
        kept=None if row.listing is None else msgspec.json.decode(row.listing, type=KeptListing),
        listed_at=row.listed_at,
        accepted=None if row.accepted is None else msgspec.json.decode(row.accepted, type=tuple[McpTool, ...]),
        error=row.error,
        failed_at=row.failed_at,
        login=None if row.login is None else bytes(row.login).decode(),
        login_state=None if row.login_state is None else msgspec.json.decode(row.login_state, type=LoginState),
        due_at=row.due_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _readable(row: Any) -> StoredServer | None:
    """Return the server of *row*, None of one that this version cannot read, which is logged."""
    try:
        return _stored(row)
    except msgspec.MsgspecError as error:
        _log.error("mcp.not_readable", server=row.name, id=row.id, reason=str(error), remedy=tools.NEWER)
        return None


def _read(definition: bytes) -> McpServer:
    """Return a definition without what a newer version added to it: both serve during a deploy."""
    return msgspec.convert(known_fields(msgspec.json.decode(definition), McpServer, (McpOAuth,)), McpServer)


LOGIN_LEASE = 45_000
"""Milliseconds for which one process renews a login: more than a request to a token endpoint may take."""


def keep_login(connection: Connection, stored: StoredServer, sealed: str, state: LoginState, *, now: int) -> bool:
    """Keep a new login of *stored*, which is asked at once; return whether its definition is still that one."""
    tools.bump_revision(connection, "mcp")
    same = (SERVER.c.key == stored.key, SERVER.c.definition == stored.definition)
    updated = connection.execute(update(SERVER).where(*same).values(**_values(sealed, state), login_lease=None))
    due = (*same, SERVER.c.due_at > now, SERVER.c.due_at < NEVER)
    connection.execute(update(SERVER).where(*due).values(due_at=now))
    return updated.rowcount > 0


def drop_login(connection: Connection, stored: StoredServer) -> bool:
    """Forget the login of *stored*; return whether it was still that one, and else forget nothing."""
    tools.bump_revision(connection, "mcp")
    login = SERVER.c.login.is_(None) if stored.login is None else SERVER.c.login == stored.login.encode()
    mine = update(SERVER).where(SERVER.c.key == stored.key, login)
    return connection.execute(mine.values(**NO_LOGIN)).rowcount > 0


def claim_login(connection: Connection, server: str, spent: str, *, now: int) -> str | bool | None:
    """Return the sealed login of *server* if it is another than *spent*, None if there is none.

    Else whether the caller alone may renew it from now on.
    """
    query = select(SERVER.c.login).where(_OURS, SERVER.c.name == server)
    sealed = connection.execute(query).scalar()
    if sealed is None or bytes(sealed).decode() != spent:
        return None if sealed is None else bytes(sealed).decode()
    free = (SERVER.c.login_lease.is_(None)) | (SERVER.c.login_lease <= now)
    mine = update(SERVER).where(*_is(server, spent), free).values(login_lease=now + LOGIN_LEASE)
    return connection.execute(mine).rowcount > 0


def put_login(connection: Connection, server: str, spent: str, sealed: str, state: LoginState) -> bool:
    """Keep what followed *spent*, unless another login is there by now, or none; return whether it is kept."""
    tools.bump_revision(connection, "mcp")
    values = {**_values(sealed, state), "login_lease": None}
    return connection.execute(update(SERVER).where(*_is(server, spent)).values(**values)).rowcount > 0


def lack_login(connection: Connection, server: str, login: str, state: LoginState) -> None:
    """Note in the *state* of *login* what it lacks, unless another one is there by now."""
    tools.bump_revision(connection, "mcp")
    values = {"login_state": msgspec.json.encode(state)}
    connection.execute(update(SERVER).where(*_is(server, login)).values(**values))


def end_login(connection: Connection, server: str, spent: str, state: LoginState) -> None:
    """Drop *spent*, unless another login is there by now; *state* says why."""
    tools.bump_revision(connection, "mcp")
    values = {**NO_LOGIN, "login_state": msgspec.json.encode(state)}
    connection.execute(update(SERVER).where(*_is(server, spent)).values(**values))


def release_login(connection: Connection, server: str, spent: str) -> None:
    """Let another process renew *spent*."""
    connection.execute(update(SERVER).where(*_is(server, spent)).values(login_lease=None))


def _is(server: str, sealed: str) -> tuple[Any, ...]:
    return (_OURS, SERVER.c.name == server, SERVER.c.login == sealed.encode())


def _values(sealed: str, state: LoginState) -> dict[str, Any]:
    return {"login": sealed.encode(), "login_state": msgspec.json.encode(state)}


TOOL, VERSION = table_of(ToolRow), table_of(ToolVersionRow)


def put_secret(connection: Connection, name: str, sealed: str, *, now: int, replace: bool) -> SecretObject:
    """Store a secret; raises `Conflict` when there is one of that *name* and it is not to be replaced.

    The MCP servers that refer to it are due at once: they may have failed for want of it.
    """
    where = (SECRET.c.project == DEFAULT_PROJECT, SECRET.c.name == name)
    existing = connection.execute(select(SECRET.c.created_at).where(*where)).first()
    if existing is not None and not replace:
        raise Conflict(f"There is a secret `{name}` already; give it a new value with PUT /v1/secrets/{name}.")
    tools.bump_revision(connection, "secrets")
    _make_servers_due(connection, name, now)
    if existing is None:
        row = {"project": DEFAULT_PROJECT, "name": name, "created_at": now}
        connection.execute(insert(SECRET).values(**row, sealed=sealed.encode(), updated_at=now))
        return SecretObject(name=name, created_at=now, updated_at=now)
    connection.execute(update(SECRET).where(*where).values(sealed=sealed.encode(), updated_at=now))
    return SecretObject(name=name, created_at=existing.created_at, updated_at=now)


def sealed_secrets(connection: Connection, names: Collection[str]) -> Mapping[str, str]:
    """Return those of the secrets *names* that there are, by name, sealed."""
    query = select(SECRET.c.name, SECRET.c.sealed).where(SECRET.c.project == DEFAULT_PROJECT, SECRET.c.name.in_(names))
    return {row.name: bytes(row.sealed).decode() for row in connection.execute(query)}


def listed_secrets(connection: Connection, *, limit: int, after: int | None) -> Page[SecretObject]:
    """Return up to *limit* secrets without their values, the oldest first, with a row's key above *after*."""
    query = select(SECRET.c.key, SECRET.c.name, SECRET.c.created_at, SECRET.c.updated_at)
    query = query.where(SECRET.c.project == DEFAULT_PROJECT)
    return page_of(connection, query, SECRET.c.key, _secret, limit=limit, after=after)


def _secret(row: Any) -> SecretObject:
    return SecretObject(name=row.name, created_at=row.created_at, updated_at=row.updated_at)


def remove_secret(connection: Connection, name: str) -> None:
    """Delete a secret; raises `NotFound`, and `Conflict` while tools or servers refer to it."""
    tools.bump_revision(connection, "secrets")
    if users := users_of_secret(connection, name):
        raise Conflict(
            f"The secret `{name}` is used by {', '.join(users)}; change these first, or give it a new value."
        )
    gone = sqlalchemy_delete(SECRET).where(SECRET.c.project == DEFAULT_PROJECT, SECRET.c.name == name)
    if not connection.execute(gone).rowcount:
        raise NotFound("secret", name)


def users_of_secret(connection: Connection, name: str) -> Sequence[str]:
    """Return the tools, in their newest versions, and the servers that refer to the secret *name*."""
    newest = select(TOOL.c.name, VERSION.c.definition).join(
        VERSION, (VERSION.c.tool == TOOL.c.key) & (VERSION.c.version == TOOL.c.version)
    )
    defined = connection.execute(newest.where(TOOL.c.project == DEFAULT_PROJECT).order_by(TOOL.c.name))
    servers = connection.execute(select(SERVER.c.name, SERVER.c.definition).where(_OURS).order_by(SERVER.c.name))
    return [
        *(f"the tool `{row.name}`" for row in defined if _refers(row.definition, name)),
        *(f"the MCP server `{row.name}`" for row in servers if _refers(row.definition, name)),
    ]


def _make_servers_due(connection: Connection, name: str, now: int) -> None:
    """Make the servers that refer to the secret *name* due, but for those that are disabled."""
    later = (_OURS, SERVER.c.due_at > now, SERVER.c.due_at < NEVER)
    rows = connection.execute(select(SERVER.c.key, SERVER.c.definition).where(*later)).all()
    keys = [row.key for row in rows if _refers(row.definition, name)]
    connection.execute(update(SERVER).where(SERVER.c.key.in_(keys)).values(due_at=now))


def _refers(definition: bytes, name: str) -> bool:
    return name in secrets_in(msgspec.json.decode(bytes(definition)))
