"""Logins at MCP servers, and what servers list, again and again."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import structs
from sqlalchemy import Connection

from agent_core.clock import Clock, within
from agent_core.errors import ConfigError, InvalidInput, ParleyError, Unavailable
from agent_core.listings import KeptListing, changes_of, cleaned, is_held
from agent_core.mcp.oauth import Authorization
from agent_core.mcp.port import McpConnections
from agent_core.mcp.served import ServerSecrets, ready
from agent_core.messages import visible
from agent_core.runtime.revisions import cancel_and_wait
from agent_core.secrets import Secrets, Unreadable, scrubbed
from agent_core.servers import (
    LoginFailed,
    LoginState,
    McpLogin,
    McpServer,
    PendingLogin,
    remedy_of,
    state_of,
    uses_login,
)
from agent_core.store import servers
from agent_core.store.servers import Claim, StoredServer
from agent_core.store.store import Store
from agent_core.traces import trace_of

_PURPOSE, _TICKET = "mcp login", "mcp login begun"
_MAX_OPENED = 100
_REVOKING = 10.0
"""Seconds that the end of a login, which no one waits for, may take at its issuer; so long a stop waits for it."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
T = TypeVar("T", McpLogin, PendingLogin)
_log = structlog.get_logger("parley.mcp")


def _is_own(redirect_uri: str) -> bool:
    """Return whether a login may lead back to *redirect_uri*: to this machine, or to any host over HTTPS."""
    try:
        parts = urlsplit(redirect_uri)
        has_port = parts.port is not None
    except ValueError:
        return False
    if parts.fragment or parts.username is not None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK and has_port)


class LoginBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A login that has begun: an operator opens *url*, and *ticket* ends it with the address that this led to.

    *issuer* is who gives the tokens, which come from *token_endpoint*.
    """

    url: str
    ticket: str
    issuer: str
    token_endpoint: str
    expires_at: int


class KnownServers(Protocol):
    """The servers of a project as this process knows them."""

    @property
    def stored(self) -> Sequence[StoredServer]:
        """Return the servers as they were read last."""
        ...

    def opened(self, server: McpServer, /) -> McpServer:
        """Return a stored *server* with its private texts; raises `Unreadable`."""
        ...

    async def look(self) -> None:
        """Take up what was written since."""
        ...


class McpLogins:
    """The logins of a project's *servers*, for operators and (`ServerLogins`) for connections.

    Without *authorization* no one logs in here.
    """

    def __init__(
        self,
        store: Store,
        authorization: Authorization | None,
        secrets: Secrets | None,
        values: ServerSecrets,
        known_servers: KnownServers,
    ) -> None:
        self._store, self._secrets, self._values, self._servers = store, secrets, values, known_servers
        self._authorization = authorization
        self._read: dict[str, McpLogin] = {}
        self._revoking: set[asyncio.Task[None]] = set()

    async def begin(self, name: str, redirect_uri: str, scope: str | None = None) -> LoginBegun:
        """Return the page that logs in at the server *name*; raises `NotFound`, `InvalidInput`, `LoginFailed`.

        *scope* is asked for in the place of what is configured, or what the server names.
        """
        if not _is_own(redirect_uri):
            raise InvalidInput("redirect_uri", "an address of this machine, http://127.0.0.1:PORT/…, or of HTTPS.")
        stored = await self._stored(name)
        begun = await self._here.begin(await self._filled(stored), redirect_uri, scope)
        pending = begun.pending
        return LoginBegun(
            url=begun.page,
            ticket=await self._sealed(pending, f"{_TICKET} {stored.id}"),
            issuer=pending.issuer,
            token_endpoint=pending.token_endpoint,
            expires_at=pending.until,
        )

    async def complete(self, name: str, ticket: str, redirected: str) -> None:
        """Log in at the server *name*, by the address that the page led to; raises as `begin`, `InvalidInput`."""
        stored = await self._stored(name)
        try:
            pending = await self._unsealed(ticket, f"{_TICKET} {stored.id}", PendingLogin)
        except (Unreadable, msgspec.MsgspecError):
            raise InvalidInput("ticket", "it is not that of a login at this server; begin one.") from None
        login = await self._here.complete(await self._filled(stored), pending, redirected)
        sealed, now = await self._sealed(login, _PURPOSE), self._store.clock.now()
        work = partial(servers.keep_login, stored=stored, sealed=sealed, state=state_of(login), now=now)
        if not await self._store.write(work):
            raise LoginFailed(f"The MCP server `{stored.server.name}` was changed meanwhile; log in again.")
        _log.info("mcp.logged_in", server=stored.server.name, issuer=login.issuer)
        await self._servers.look()

    async def logout(self, name: str) -> None:
        """Forget the login at the server *name*, and have its authorization server forget it; raises `NotFound`.

        Raises `LoginFailed` when it is another one by then: what another operator has just begun is not ended.
        """
        stored = await self._store.read(servers.find, name)
        if not await self._store.write(servers.drop_login, stored):
            text = f"The login at the MCP server `{stored.server.name}` was renewed, or made again, meanwhile"
            raise LoginFailed(f"{text}: log out again if that one shall end too.")
        await self._servers.look()
        await self.revoke(stored)

    async def revoke(self, stored: StoredServer) -> None:
        """Have the authorization server forget the login of *stored*, which is in the database no more.

        Once, within seconds; that it was not done is logged.
        """
        login = await self._opened_login(stored)
        if login is None or self._authorization is None:
            return
        try:
            revoked, why = (
                await self._authorization.revoke(await self._filled(stored), login),
                "its issuer did not do it",
            )
        except ParleyError as error:  # a secret of the client that is there no more
            revoked, why = False, str(error)
        name, issuer = stored.server.name, login.issuer
        if revoked or login.revocation_endpoint is None:
            _log.info("mcp.logged_out", server=name, revoked=revoked)
        else:
            _log.warning("mcp.not_revoked", server=name, issuer=issuer, why=why, remedy="revoke it at its issuer")

    def revoke_later(self, ended: Sequence[StoredServer]) -> None:
        """Revoke the logins of *ended* as `revoke` does, without waiting for it."""
        for stored in ended:
            task = asyncio.create_task(self._revoked(stored), name="parley-mcp-revoke")
            self._revoking.add(task)
            task.add_done_callback(self._revoking.discard)

    async def stop(self) -> None:
        """Return when no revocation is under way, in seconds: each is one request, which is bounded."""
        if self._revoking:
            await asyncio.wait(self._revoking)

    async def _revoked(self, stored: StoredServer) -> None:
        try:
            async with within(self._store.clock, _REVOKING):
                await self.revoke(stored)
        except Exception as error:  # noqa: BLE001 - the boundary: no caller awaits this task
            name, why = stored.server.name, f"{type(error).__name__}: {error}"
            _log.warning("mcp.not_revoked", server=name, why=why, remedy="revoke it at its issuer")

    # What connections ask.

    async def login(self, server: str, /) -> McpLogin | None:
        return await self._opened_login(self._of(server))

    async def claim(self, server: str, spent: McpLogin, /) -> McpLogin | bool | None:
        sealed, now = await self._text_of(spent), self._store.clock.now()
        claimed = await self._store.write(servers.claim_login, server=server, spent=sealed, now=now)
        if not isinstance(claimed, str):
            return claimed
        return await self._login(claimed)

    async def put(self, server: str, spent: McpLogin, new: McpLogin, /) -> bool:
        before, after = await self._text_of(spent), await self._sealed(new, _PURPOSE)
        state_before = self._state(server)
        state = structs.replace(state_of(new), lacks=state_before and state_before.lacks)
        was_put = await self._store.write(servers.put_login, server=server, spent=before, sealed=after, state=state)
        await self._servers.look()
        return was_put

    async def lack(self, server: str, login: McpLogin, scope: str, /) -> None:
        state_before = self._state(server)
        if state_before is not None and state_before.lacks != scope:
            state = structs.replace(state_of(login), lacks=visible(scope)[: servers.MAX_ERROR])
            sealed = await self._text_of(login)
            await self._changed(partial(servers.lack_login, server=server, login=sealed, state=state))

    async def end(self, server: str, spent: McpLogin, why: str, /) -> None:
        state = structs.replace(state_of(spent), ended=visible(why)[: servers.MAX_ERROR])
        sealed = await self._text_of(spent)
        await self._changed(partial(servers.end_login, server=server, spent=sealed, state=state))
        _log.warning("mcp.login_ended", server=server, why=why, remedy=remedy_of(server))

    async def release(self, server: str, spent: McpLogin, /) -> None:
        sealed = await self._text_of(spent)
        await self._store.write(servers.release_login, server=server, spent=sealed)

    async def _changed(self, work: Callable[[Connection], None]) -> None:
        await self._store.write(work)
        await self._servers.look()

    def _of(self, server: str) -> StoredServer | None:
        return next((each for each in self._servers.stored if each.server.name == server), None)

    def _state(self, server: str) -> LoginState | None:
        stored = self._of(server)
        return None if stored is None else stored.login_state

    async def _stored(self, name: str) -> StoredServer:
        """Return a server that may be logged in to; raises `NotFound`, `InvalidInput`."""
        stored = await self._store.read(servers.find, name)
        if not uses_login(stored.server):
            raise InvalidInput("id", f"the MCP server `{stored.server.name}` has its access by what is configured.")
        if not stored.server.enabled:
            raise InvalidInput("id", f"the MCP server `{stored.server.name}` is disabled; enable it first.")
        return stored

    async def _filled(self, stored: StoredServer) -> McpServer:
        server, _ = await ready(self._servers.opened(stored.server), self._values)
        return server

    async def _opened_login(self, stored: StoredServer | None) -> McpLogin | None:
        """Return the login of *stored*, None where it has none or has one that no key here opens."""
        if stored is None or stored.login is None:
            return None
        return await self._login(stored.login)

    async def _login(self, sealed: str) -> McpLogin | None:
        if sealed not in self._read:
            try:
                login = await self._unsealed(sealed, _PURPOSE, McpLogin)
            except (Unreadable, msgspec.MsgspecError) as error:
                _log.warning("mcp.login_unreadable", why=str(error), remedy="log in again with `parley mcp login`")
                return None
            if len(self._read) >= _MAX_OPENED:
                self._read.clear()
            self._read[sealed] = login
        return self._read[sealed]

    async def _text_of(self, login: McpLogin) -> str:
        """Return *login* as it is in the database: one of an earlier key is another text than it would be now."""
        stored = next((sealed for sealed, each in self._read.items() if each == login), None)
        return stored or await self._sealed(login, _PURPOSE)

    async def _sealed(self, value: McpLogin | PendingLogin, purpose: str) -> str:
        text = msgspec.json.encode(value).decode()
        return await asyncio.to_thread(self._key.seal, text, purpose)

    async def _unsealed(self, sealed: str, purpose: str, kind: type[T]) -> T:
        return msgspec.json.decode(await asyncio.to_thread(self._key.open, sealed, purpose), type=kind)

    @property
    def _here(self) -> Authorization:
        if self._authorization is None:
            raise InvalidInput("id", "this process does not connect to MCP servers.")
        return self._authorization

    @property
    def _key(self) -> Secrets:
        if self._secrets is None:
            raise ConfigError("This core has no key to seal secrets with; build it with `secrets`.")
        return self._secrets


TIMEOUT = 60.0
"""Seconds that a discovery may take: less than a process has a server for itself."""
AT_ONCE = 8
"""Servers that one process asks at the same time."""
AWAY = 5.0
"""Seconds until the next look when the database cannot be reached."""
REMEDY = "see what it says with `parley tools show {}`, and take it up with `parley tools accept {}`"


class Discovery:
    """Asks those of *known_servers* that are due."""

    def __init__(
        self,
        store: Store,
        connections: McpConnections,
        secrets: ServerSecrets,
        known_servers: KnownServers,
    ) -> None:
        self._store, self._connections, self._secrets, self._servers = store, connections, secrets, known_servers
        self._clock: Clock = store.clock
        self._woken, self._room = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
        self._noticed: set[str] = set()
        self._connected: dict[str, McpServer] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask from now on."""
        self._work = asyncio.create_task(self._run(), name="parley-mcp")

    async def stop(self) -> None:
        """Ask no more, and close all connections."""
        await cancel_and_wait(self._work, *self._asking)
        await self._connections.close()

    def wake(self) -> None:
        """Look at once at what is due: something has changed."""
        self._woken.set()

    async def ask(self, claim: Claim) -> None:
        """Ask the server of *claim*, and write what it said or why it did not."""
        stored = claim.stored
        answer = await self._answer_of(stored.server)
        now = self._clock.now()
        if isinstance(answer, str):
            await self._store.write(servers.failed, claim, answer, now=now)
            if stored.error != answer:
                remedy = "it is asked again by itself; `parley doctor` says how it is"
                _log.warning("mcp.failing", server=stored.server.name, why=answer, remedy=remedy)
        else:
            await self._store.write(servers.succeeded, claim, answer, now=now)
            _report(stored, answer)
        await self._servers.look()
        self.wake()

    async def _answer_of(self, server: McpServer) -> KeptListing | str:
        """Return what *server* offers, or in a sentence why that is not known; no secret is in it."""
        values: dict[str, str] = {}
        try:
            open_, secrets = await ready(self._servers.opened(server), self._secrets)
            values.update(secrets)
            async with within(self._clock, TIMEOUT):
                listing = await self._connections.discover(open_)
            return await asyncio.to_thread(cleaned, listing, partial(scrubbed, values=values))
        except TimeoutError:
            return f"The MCP server `{server.name}` did not say within {TIMEOUT:g} s what it offers."
        except ParleyError as error:
            return visible(scrubbed(str(error), values))[: servers.MAX_ERROR]
        except Exception as error:  # noqa: BLE001 - the boundary: a server must not end the discovery of the others
            text = f"The MCP server `{server.name}` cannot be asked: {type(error).__name__}: {error}"
            return visible(scrubbed(text, values))[: servers.MAX_ERROR]

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._connect()
                await self._take_up_notices()
                await self._begin()
                due = await self._store.peek(servers.next_due)
            except Unavailable:  # what was found holds until the database is back
                due = self._clock.now() + int(AWAY * 1000)
            except Exception as error:  # noqa: BLE001 - the boundary: what the database says once must not end the task
                _log.error("mcp.discovery_failed", exception=trace_of(error))
                due = self._clock.now() + int(AWAY * 1000)
            await self._sleep(due)

    async def _begin(self) -> None:
        """Begin to ask every server that is due, as far as there is room; the end of one makes some."""
        while not self._room.locked():
            now, due = self._clock.now(), await self._store.peek(servers.next_due)
            if due is None or due > now:
                return
            claim = await self._store.write(servers.claim, now=now)
            if claim is None:  # another process was first
                return
            await self._room.acquire()
            task = asyncio.create_task(self._one(claim), name="parley-mcp-ask")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _one(self, claim: Claim) -> None:
        try:
            await self.ask(claim)
        except Unavailable as error:  # its lease ends, and it is asked again
            _log.warning("mcp.not_written", server=claim.stored.server.name, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the boundary: no caller awaits this task; it is asked again as above
            _log.error("mcp.not_written", server=claim.stored.server.name, exception=trace_of(error))
        finally:
            self._room.release()
            self.wake()

    async def _sleep(self, due: int | None) -> None:
        """Return when *due* has come, or something has changed; while there is no room only that counts."""
        waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._woken.wait())]
        if due is not None and not self._room.locked():
            seconds = max(0.0, (due - self._clock.now()) / 1000)
            waits.append(asyncio.create_task(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _take_up_notices(self) -> None:
        """Make the servers due that said that their lists have changed."""
        while self._noticed:
            name, now = self._noticed.pop(), self._clock.now()
            try:
                await self._store.write(servers.notice, name=name, now=now)
            except Unavailable:
                self._noticed.add(name)
                raise

    async def _connect(self) -> None:
        """Follow the servers that were reached, and forget those that are gone or defined otherwise."""
        wanted = {each.server.name: each.server for each in self._servers.stored if each.server.enabled and each.kept}
        for name, server in list(self._connected.items()):
            if wanted.get(name) != server:
                del self._connected[name]
                await self._connections.forget(name)
        for name, server in wanted.items():
            if name in self._connected:
                continue
            self._connected[name] = server
            try:
                open_, _ = await ready(self._servers.opened(server), self._secrets)
            except Unavailable:
                del self._connected[name]
                raise
            except ParleyError:  # the next discovery says why
                continue
            self._connections.follow(open_, partial(self._notice, name))

    def _notice(self, name: str) -> None:
        self._noticed.add(name)
        self.wake()


def _report(stored: StoredServer, fresh: KeptListing) -> None:
    """Log what operators should know of a discovery: that a server is back, and that tools are held back."""
    server, before = stored.server, changes_of(stored.server, stored.kept and stored.kept.listing, stored.accepted)
    if stored.error is not None:
        _log.info("mcp.reached", server=server.name, tools=len(fresh.listing.tools))
    changes = changes_of(server, fresh.listing, stored.accepted)
    if server.on_change == "hold" and is_held(changes) and changes != before:
        tools = [each.tool for each in changes if each.change != "removed"]
        remedy = REMEDY.format(server.name, server.name)
        _log.warning("mcp.changed", server=server.name, held=tools[:20], count=len(tools), remedy=remedy)
    if fresh.left_out and (stored.kept is None or stored.kept.left_out != fresh.left_out):
        listed = [f"{each.tool}: {each.why}" for each in fresh.left_out][:20]
        _log.warning("mcp.left_out", server=server.name, tools=listed, remedy="correct them at the server")
