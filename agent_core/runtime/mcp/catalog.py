"""The catalogue of MCP servers: their definitions, what they offer as tools, and what of it was accepted."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from msgspec.structs import asdict
from sqlalchemy import Connection

from agent_core.errors import InvalidInput
from agent_core.listings import McpServerObject, ServerStatus, digest_of, offered_of, spec_of
from agent_core.mcp.oauth import Authorization
from agent_core.mcp.port import McpConnections
from agent_core.mcp.served import ServedTool, ServerSecrets
from agent_core.objects import Page
from agent_core.runtime.agents.roster import cursor_key
from agent_core.runtime.mcp.checks import CheckUrl, check_filed, check_server
from agent_core.runtime.mcp.discovery import Discovery
from agent_core.runtime.mcp.logins import McpLogins
from agent_core.runtime.mcp.private import opened, sealed, unmasked
from agent_core.runtime.mcp.shown import brief, names_in, shown, status_of, why_none
from agent_core.runtime.tools.revisions import Revisions
from agent_core.secrets import Secrets, Unreadable
from agent_core.servers import McpServer
from agent_core.store import servers
from agent_core.store.servers import StoredServer
from agent_core.store.store import Store
from agent_core.tools.base import Tool
from agent_core.tools.toolset import Scope

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
        page = await self._store.read(lambda connection: servers.listed(connection, limit=limit, after=after))
        await self._revisions.look()
        return Page(tuple(brief(self._shown(each)) for each in page.items), page.next_cursor)

    async def get(self, name: str) -> McpServerObject:
        """Return the server with this id or name; raises `NotFound`."""
        stored = await self._store.read(lambda connection: servers.find(connection, name))
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
            ended = await self._store.write(lambda connection: servers.sync_files(connection, private, now=now))
            await self.look()
            self.logins.revoke_later(ended)

    async def refresh(self, name: str) -> McpServerObject:
        """Ask a server now, and return what is known of it then; raises `NotFound`, `InvalidInput`."""
        if self._discovery is None:
            raise InvalidInput("id", "this process does not connect to MCP servers.")
        now = self._store.clock.now()
        await self._discovery.ask(await self._store.write(lambda connection: servers.take(connection, name, now=now)))
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
