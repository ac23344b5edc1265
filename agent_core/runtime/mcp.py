"""MCP servers as operators define them: checked, kept, shown."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from msgspec.structs import asdict, replace
from sqlalchemy import Connection

from agent_core.agents import SECRET, secrets_in
from agent_core.errors import Fault, InvalidInput
from agent_core.listings import (
    McpServerObject,
    ServedToolObject,
    ServerInfo,
    ServerStatus,
    changes_of,
    digest_of,
    is_held,
    names_of,
    offered_of,
    spec_of,
    taken,
)
from agent_core.mcp.oauth import Authorization
from agent_core.mcp.port import McpConnections
from agent_core.mcp.served import ServedTool, ServerSecrets, with_private
from agent_core.objects import Page
from agent_core.runtime.discovery import Discovery, McpLogins
from agent_core.runtime.revisions import Revisions
from agent_core.runtime.roster import cursor_key
from agent_core.secrets import Secrets, Unreadable
from agent_core.servers import McpAnnotations, McpListing, McpOAuth, McpServer, McpTool, login_object
from agent_core.store import servers
from agent_core.store.servers import NEVER, StoredServer
from agent_core.store.store import Store
from agent_core.tools.base import REPEATED, Tool, repeats
from agent_core.tools.toolset import Scope

HIDDEN = "[hidden]"
"""What an answer has in the place of a private text; sent back it keeps the text as it is."""
_PURPOSE = "mcp server"
_OPEN, _CLOSE = "{{sealed:", "}}"


def sealed(server: McpServer, secrets: Secrets | None) -> McpServer:
    """Return *server* as it is stored; without *secrets* there is no key, and its texts are stored as they are."""
    if secrets is None:
        return server
    return _with_literals(server, lambda text: f"{_OPEN}{secrets.seal(text, _PURPOSE)}{_CLOSE}")


def opened(server: McpServer, secrets: Secrets | None) -> McpServer:
    """Return a stored *server* with its texts; raises `Unreadable`."""

    def read(text: str) -> str:
        if not (text.startswith(_OPEN) and text.endswith(_CLOSE)):
            return text
        if secrets is None:
            raise Unreadable
        return secrets.open(text.removeprefix(_OPEN).removesuffix(_CLOSE), _PURPOSE)

    return with_private(server, read)


def masked(server: McpServer) -> McpServer:
    """Return *server* as answers show it: references to secrets stay, other private texts are hidden."""
    shown = _with_literals(server, lambda _: HIDDEN)
    url = shown.url if shown.url != HIDDEN or server.url is None else f"{server.url.partition('?')[0]}?{HIDDEN}"
    return replace(shown, url=url)


def unmasked(server: McpServer, stored: McpServer) -> McpServer:
    """Return *server* with each text that was sent back hidden as *stored* has it."""
    oauth, stored_oauth = server.oauth, stored.oauth
    if oauth is not None and stored_oauth is not None and oauth.client_secret == HIDDEN:
        oauth = replace(oauth, client_secret=stored_oauth.client_secret)
    args = [
        stored.args[place] if text == HIDDEN and place < len(stored.args) else text
        for place, text in enumerate(server.args)
    ]
    return replace(
        server,
        url=stored.url if server.url == masked(stored).url else server.url,
        headers=_kept(server.headers, stored.headers),
        env=_kept(server.env, stored.env),
        args=tuple(args),
        oauth=oauth,
    )


def _kept(texts: dict[str, str], stored: dict[str, str]) -> dict[str, str]:
    return {name: stored.get(name, text) if text == HIDDEN else text for name, text in texts.items()}


def _with_literals(server: McpServer, change: Callable[[str], str]) -> McpServer:
    """Return *server* with each private text that refers to no secret as *change* makes it; a URL with a query is one.

    A text that does is not private: what is secret in it is stored elsewhere.
    """
    changed = with_private(server, lambda text: text if SECRET.search(text) else change(text))
    return changed if server.url is not None and "?" in server.url else replace(changed, url=server.url)


Names = Mapping[tuple[str, str], str]


def shown(stored: StoredServer, names: Names, now: int) -> McpServerObject:
    """Return *stored* for operators at *now*; *names* are those of its tools for agents, by server and its own name."""
    server, listing = stored.server, None if stored.kept is None else stored.kept.listing
    changes, accepted = changes_of(server, listing, stored.accepted), stored.accepted
    return McpServerObject(
        id=stored.id,
        **asdict(masked(server)),
        source=stored.source,
        status=status_of(stored),
        error=stored.error,
        login=login_object(server, stored.login_state, now),
        info=None if listing is None else _info(listing),
        tools=tuple(
            _tool(server, each, names[server.name, each.name]) for each in offered_of(server, listing, accepted)
        ),
        changes=changes,
        left_out=() if stored.kept is None else stored.kept.left_out,
        digest=None if listing is None else digest_of(listing),
        listed_at=stored.listed_at,
        failed_at=stored.failed_at,
        due_at=None if stored.due_at >= NEVER else stored.due_at,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def status_of(stored: StoredServer) -> ServerStatus:
    """Return how the server is: what an operator has to look at comes first."""
    if not stored.server.enabled:
        return "disabled"
    if stored.error is not None:
        return "failing"
    if stored.kept is None:
        return "new"
    return "changed" if is_held(changes_of(stored.server, stored.kept.listing, stored.accepted)) else "ok"


def brief(server: McpServerObject) -> McpServerObject:
    """Return *server* as a list has it: without schemas, and with the names of what has changed alone."""
    tools = tuple(replace(tool, parameters={}) for tool in server.tools)
    return replace(server, tools=tools, changes=tuple(replace(x, before=None, now=None) for x in server.changes))


def _info(listing: McpListing) -> ServerInfo:
    return ServerInfo(title=listing.title, version=listing.version, era=listing.era, instructions=listing.instructions)


def _tool(server: McpServer, tool: McpTool, name: str) -> ServedToolObject:
    spec = spec_of(server, tool, name)
    return ServedToolObject(
        name=name,
        tool=tool.name,
        title=spec.title,
        description=spec.description,
        effect=spec.effect,
        idempotent=spec.idempotent,
        parameters=spec.parameters,
        annotations=tool.annotations if tool.annotations != McpAnnotations() else None,
    )


def why_none(stored: StoredServer) -> str | None:
    """Return in a sentence why a server gives no tools; None if it does, also while it is away."""
    name = stored.server.name
    if not stored.server.enabled:
        return f"The MCP server `{name}` is disabled."
    if stored.kept is not None:
        return None
    return stored.error or f"The MCP server `{name}` has not said yet what it offers."


def names_in(stored: Sequence[StoredServer]) -> Names:
    """Return the names of all tools that were accepted, those that are gone too: they may come back."""
    return names_of(
        [
            (each.server.name, [tool.name for tool in each.accepted or () if taken(each.server, tool.name)])
            for each in stored
        ]
    )


NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
MAX_TIMEOUT = 600.0
MAX_ENTRIES = 100
MAX_TEXT = 8_000
SETTING = "PARLEY_MCP_STDIO"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_OF_THE_PROTOCOL = frozenset(
    ["host", "content-length", "content-type", "accept", "connection", "transfer-encoding", "upgrade", "last-event-id"]
)
"""Headers that the transport writes itself, as it does all that begin with `mcp-`."""
CheckUrl = Callable[[str], None]
"""Raises `ParleyError` for an address that is not asked."""


def check_server(server: McpServer, *, check_url: CheckUrl, stdio: bool, secrets: Collection[str] | None) -> None:
    """Raise `InvalidInput`, with the field, for a *server* that could not work.

    *stdio* says whether one may be a program; *secrets* are the names of those that are stored, None when they may come
    later.
    """
    if not NAME.fullmatch(server.name):
        raise InvalidInput("name", "a server's name has 1 to 32 letters, digits, `_` and `-`.")
    faults = [*_place(server, check_url, stdio=stdio), *_lists(server)]
    if not 0 < server.timeout_s <= MAX_TIMEOUT:
        faults.append(Fault("timeout_s", f"above 0 and at most {MAX_TIMEOUT:g} seconds."))
    if secrets is not None:
        faults += _missing(server, secrets)
    if faults:
        first, *more = faults
        raise InvalidInput(first.path, first.message, *more)


def check_filed(servers: Sequence[McpServer], *, check_url: CheckUrl) -> None:
    """Raise `InvalidInput`, with the field in the file, for one of the operator's own *servers* that could not work.

    Secrets that they refer to may be stored later.
    """
    for server in servers:
        try:
            check_server(server, check_url=check_url, stdio=True, secrets=None)
        except InvalidInput as error:
            raise InvalidInput(f"mcpServers.{server.name}.{error.path}", error.message) from None


def _missing(server: McpServer, secrets: Collection[str]) -> Iterator[Fault]:
    """Give the fields that refer to secrets which are not among *secrets*."""
    fields: dict[str, object] = {
        "url": server.url,
        **{f"headers.{name[:100]}": text for name, text in server.headers.items()},
        **{f"env.{name[:100]}": text for name, text in server.env.items()},
        **{f"args[{place}]": text for place, text in enumerate(server.args)},
        "oauth.client_secret": None if server.oauth is None else server.oauth.client_secret,
    }
    fields["server"] = None if secrets_in(list(fields.values())) >= secrets_in(server) else server
    for path, text in fields.items():
        if listed := ", ".join(sorted(secrets_in(text) - set(secrets))):
            yield Fault(path, f"there is no secret {listed}; store it first, with `parley secrets set`.")


def _place(server: McpServer, check_url: CheckUrl, *, stdio: bool) -> Iterator[Fault]:
    """Give what is wrong with where the server is."""
    if server.transport == "stdio":
        yield from _program(server, stdio=stdio)
        return
    for name in ("command", "args", "env", "cwd"):
        if getattr(server, name):
            yield Fault(name, "a server over http has none: it is not started here.")
    if not server.url:
        yield Fault("url", "a server over http has a `url`, such as https://example.com/mcp.")
    else:
        yield from _address("url", server.url, check_url)
    yield from _headers(server)
    if server.oauth is not None:
        yield from _oauth(server, server.oauth, check_url)


def _oauth(server: McpServer, oauth: McpOAuth, check_url: CheckUrl) -> Iterator[Fault]:
    is_login = oauth.grant == "authorization_code"
    for name in ("client_id", "client_secret"):
        value = getattr(oauth, name)
        if value is None and not is_login:
            text = "client credentials have one; or log in by a browser, with `grant: authorization_code`."
            yield Fault(f"oauth.{name}", text)
        elif value is not None and not value.strip():
            yield Fault(f"oauth.{name}", "it is empty.")
    if is_login and oauth.client_secret and not oauth.client_id:
        yield Fault("oauth.client_id", "a client with a secret has an id.")
    if is_login and any(name.lower() == "authorization" for name in server.headers):
        yield Fault("headers.Authorization", "the login sets it; leave one of the two out.")
    if isinstance(oauth.resource, str) and not oauth.resource.strip():
        yield Fault("oauth.resource", "it is empty; `false` asks for no resource.")
    for name in ("issuer", "token_url"):
        if (url := getattr(oauth, name)) is not None:
            yield from _address(f"oauth.{name}", url, check_url)


def _program(server: McpServer, *, stdio: bool) -> Iterator[Fault]:
    if not stdio:
        text = f"programs are started for the API only with {SETTING}=on; set it, or write the server in mcp.json."
        yield Fault("transport", text)
    if not server.command or not server.command.strip() or "\0" in server.command:
        yield Fault("command", "a server over stdio has a `command`: the program to start.")
    for name in ("url", "headers", "oauth", "context"):
        if getattr(server, name):
            yield Fault(name, "a server over stdio has none: it gets no HTTP requests. Use `args` and `env`.")
    for name, value in server.env.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value or len(value) > MAX_TEXT:
            yield Fault(f"env.{name[:100]}", "a variable has letters, digits and `_` in its name, and no U+0000.")
    for place, value in enumerate(server.args):
        if "\0" in value or len(value) > MAX_TEXT:
            yield Fault(f"args[{place}]", f"at most {MAX_TEXT:,} characters, without U+0000.")


def _address(path: str, url: str, check_url: CheckUrl) -> Iterator[Fault]:
    try:
        check_url(url)
    except Exception as error:  # noqa: BLE001 - what a guard raises is its own; its text says what is wrong
        yield Fault(path, str(error))


def _headers(server: McpServer) -> Iterator[Fault]:
    seen: set[str] = set()
    for name, value in server.headers.items():
        path = f"headers.{name[:100]}"
        if not _HEADER.fullmatch(name):
            yield Fault(path, "no name of a header.")
        elif name.lower() in _OF_THE_PROTOCOL or name.lower().startswith("mcp-"):
            yield Fault(path, "the protocol sets it itself; leave it out.")
        elif name.lower() in seen:
            yield Fault(path, "it is there twice.")
        elif not (value.isascii() and value.isprintable()) or len(value) > MAX_TEXT:
            yield Fault(path, f"its value is at most {MAX_TEXT:,} printable ASCII characters.")
        seen.add(name.lower())


def _lists(server: McpServer) -> Iterator[Fault]:
    for name in ("allow", "deny", "context", "args", "headers", "env"):
        if len(getattr(server, name)) > MAX_ENTRIES:
            yield Fault(name, f"at most {MAX_ENTRIES}.")
    for name in ("allow", "deny"):
        for place, glob in enumerate(getattr(server, name)):
            if not glob or len(glob) > 128:  # noqa: PLR2004 - as long as a tool's own name may be
                yield Fault(f"{name}[{place}]", "a glob over the server's own names, 1 to 128 characters.")
    for place, key in enumerate(server.context):
        if not _KEY.fullmatch(key):
            yield Fault(f"context[{place}]", "a key of the caller's context: letters, digits, `_`, `.` and `-`.")
        elif repeats(key, server.context[:place]):
            yield Fault(f"context[{place}]", REPEATED)


_log = structlog.get_logger("parley.mcp")


class McpCatalog:
    """The MCP servers of a project, and the toolset of what they offer.

    A server that is away keeps its tools, whose calls fail; one that was never reached has none. Without *connections*
    servers are only stored. *check_url* refuses addresses, *stdio* says whether the API may name programs; *values* are
    the stored secrets, *secrets* seals. Without *authorization* no one logs in here.
    """

    def __init__(
        self,
        store: Store,
        revisions: Revisions,
        connections: McpConnections | None,
        *,
        secrets: Secrets | None,
        values: ServerSecrets,
        check_url: CheckUrl,
        stdio: bool,
        authorization: Authorization | None = None,
    ) -> None:
        self._store, self._revisions, self._connections = store, revisions, connections
        self._secrets, self._values = secrets, values
        self._check_url, self._stdio = check_url, stdio
        self._stored: tuple[StoredServer, ...] = ()
        self._names: Mapping[tuple[str, str], str] = {}
        self._tools: Mapping[str, Tool] = {}
        self.logins = McpLogins(
            store,
            None if connections is None else authorization,
            secrets,
            values,
            self,
        )
        if connections is not None:
            connections.attach(self.logins)
        self._discovery = None if connections is None else Discovery(store, connections, values, self)
        revisions.follow("mcp", self._load)
        revisions.follow("secrets", self._wake)

    def start(self) -> None:
        """Ask the servers that are due from now on."""
        if self._discovery is not None:
            self._discovery.start()

    async def stop(self) -> None:
        """Ask no more, and close all connections."""
        if self._discovery is not None:
            await self._discovery.stop()
        await self.logins.stop()

    async def tools(self, _scope: Scope, /) -> Mapping[str, Tool]:
        return self._tools

    @property
    def stored(self) -> Sequence[StoredServer]:
        """The servers as they were read last."""
        return self._stored

    @property
    def names(self) -> Collection[str]:
        return [each.server.name for each in self._stored]

    @property
    def statuses(self) -> Sequence[ServerStatus]:
        """How each server was when it was read last."""
        return [status_of(each) for each in self._stored]

    @property
    def unreached(self) -> Mapping[str, str]:
        """The servers that give no tools because they are disabled or were never reached, each with the reason."""
        return {each.server.name: why for each in self._stored if (why := why_none(each)) is not None}

    async def known(self, names: Collection[str]) -> frozenset[str]:
        """Return the names of all servers; when one of *names* is not among them it is looked for again."""
        if not {each.server.name for each in self._stored}.issuperset(names):
            await self._revisions.look()
        return frozenset(each.server.name for each in self._stored)

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[McpServerObject]:
        """Return servers, the oldest first, without the schemas of their tools."""
        after = cursor_key(cursor) or 0
        page = await self._store.read(servers.listed, limit=limit, after=after)
        await self._revisions.look()
        return Page(tuple(brief(self._shown(each)) for each in page.items), page.next_cursor)

    async def get(self, name: str) -> McpServerObject:
        """Return the server with this id or name; raises `NotFound`."""
        stored = await self._store.read(servers.find, name)
        await self._revisions.look()  # what is shown is in use here
        return self._shown(stored)

    async def create(self, server: McpServer) -> McpServerObject:
        """Store a new server, which is asked as soon as possible; raises `InvalidInput`."""
        now = self._store.clock.now()

        def work(connection: Connection) -> StoredServer:
            self._check(server, servers.secret_names(connection))
            return servers.create(connection, sealed(server, self._secrets), now=now)

        return await self._changed(await self._store.write(work))

    async def update(self, name: str, changes: Mapping[str, Any]) -> McpServerObject:
        """Store *changes* (fields); raises `NotFound`, `ManagedByFile`, `InvalidInput`.

        A private text that is sent back hidden stays as it is. Another address makes it another server.
        """
        now = self._store.clock.now()

        def work(connection: Connection) -> tuple[StoredServer, StoredServer]:
            stored = servers.editable(servers.find(connection, name))
            wanted = self._merged(stored.server, changes)
            self._check(wanted, servers.secret_names(connection))
            return stored, servers.change(connection, stored, sealed(wanted, self._secrets), now=now)

        before, after = await self._store.write(work)
        shown = await self._changed(after)
        if before.login is not None and after.login is None:
            await self.logins.revoke(before)
        return shown

    async def delete(self, name: str) -> None:
        """Remove a server, and have a login there forgotten where it was given; raises `NotFound`, `ManagedByFile`."""

        def work(connection: Connection) -> StoredServer:
            stored = servers.editable(servers.find(connection, name))
            servers.delete(connection, stored)
            return stored

        deleted = await self._store.write(work)
        await self.look()
        await self.logins.revoke(deleted)

    async def sync_files(self, wanted: Sequence[McpServer]) -> None:
        """Update the stored servers to those of the operator's file; raises `InvalidInput`.

        Secrets that they refer to may be stored later; until then they are not reached. The logins of those that are
        taken out, or that are others by now, are revoked; nothing waits for that.
        """
        now = self._store.clock.now()
        check_filed(wanted, check_url=self._check_url)
        private = [sealed(server, self._secrets) for server in wanted]
        if private or any(each.source == "file" for each in self._stored):
            ended = await self._store.write(servers.sync_files, private, now=now)
            await self.look()
            self.logins.revoke_later(ended)

    async def refresh(self, name: str) -> McpServerObject:
        """Ask a server now, and return what is known of it then; raises `NotFound`, `InvalidInput`."""
        if self._discovery is None:
            raise InvalidInput("id", "this process does not connect to MCP servers.")
        now = self._store.clock.now()
        await self._discovery.ask(await self._store.write(servers.take, name, now=now))
        return await self.get(name)

    async def accept(self, name: str, digest: str | None = None) -> McpServerObject:
        """Accept what a server says now; raises `NotFound`, `InvalidInput` if that is not what *digest* names."""

        def work(connection: Connection) -> StoredServer:
            stored = servers.find(connection, name)
            if stored.kept is None:
                raise InvalidInput("id", f"`{stored.server.name}` was never reached: there is nothing to accept.")
            if digest is not None and digest != digest_of(stored.kept.listing):
                raise InvalidInput("digest", "the server says something else by now; look at it again.")
            return servers.accept(connection, stored)

        return await self._changed(await self._store.write(work))

    def _merged(self, stored: McpServer, changes: Mapping[str, Any]) -> McpServer:
        """Return *stored*, sealed, with *changes*, opened."""
        try:
            before = self.opened(stored)
        except Unreadable:  # what is hidden in it is lost; all of it can be given again
            before = stored
        try:
            wanted = msgspec.convert({**asdict(before), **changes}, McpServer)
        except msgspec.ValidationError as error:
            raise InvalidInput("server", str(error)) from error
        return unmasked(wanted, before)

    def _check(self, server: McpServer, secrets: Collection[str]) -> None:
        check_server(server, check_url=self._check_url, stdio=self._stdio, secrets=secrets)

    def opened(self, server: McpServer, /) -> McpServer:
        """Return a stored *server* with its private texts; raises `Unreadable`."""
        return opened(server, self._secrets)

    def _shown(self, stored: StoredServer) -> McpServerObject:
        others = [each for each in self._stored if each.key != stored.key]  # it may be newer than what was read last
        names = names_in(sorted([*others, stored], key=lambda each: each.key))
        return shown(stored, names, self._store.clock.now())

    async def _changed(self, stored: StoredServer) -> McpServerObject:
        await self.look()
        return self._shown(stored)

    async def look(self) -> None:
        """Take up what was written since."""
        await self._revisions.look()

    async def _load(self) -> None:
        """Read all servers again, and make their tools."""
        self._stored = tuple(await self._store.read(servers.everything))
        self._names = names_in(self._stored)
        tools: dict[str, Tool] = {}
        for stored in self._stored if self._connections is not None else ():
            tools.update(self._tools_of(stored))
        self._tools = tools
        await self._wake()

    async def _wake(self) -> None:
        """Look at once at what is due; a secret that was stored makes the servers due that refer to it."""
        if self._discovery is not None:
            self._discovery.wake()

    def _tools_of(self, stored: StoredServer) -> Mapping[str, Tool]:
        assert self._connections is not None, "Without connections there are no tools."
        listing = None if stored.kept is None else stored.kept.listing
        if not stored.server.enabled or listing is None:
            return {}
        try:
            server = self.opened(stored.server)
        except Unreadable as error:
            remedy = "give its headers, env and args again"
            _log.warning("mcp.unreadable", server=stored.server.name, why=str(error), remedy=remedy)
            return {}
        tools: dict[str, Tool] = {}
        for tool in offered_of(server, listing, stored.accepted):
            name = self._names[server.name, tool.name]
            spec = spec_of(server, tool, name)
            tools[name] = ServedTool(spec, server, tool.name, self._connections, self._values, tool.parameters)
        return tools
