"""Discovery: ask MCP servers what they offer, hourly, when they say that it has changed, and when an operator asks.

One process at a time asks a server; the others read what it found. A failure is repeated after a growing pause, so that
a server that comes back is seen by itself. No message and no start waits for it.
"""

import asyncio
from functools import partial
from typing import Any

import structlog

from agent_core.clock import Clock, within
from agent_core.errors import ParleyError, Unavailable
from agent_core.listings import KeptListing, changes_of, cleaned, is_held
from agent_core.mcp.port import McpConnections
from agent_core.mcp.served import ServerSecrets, ready
from agent_core.messages import visible
from agent_core.runtime.mcp.logins import KnownServers
from agent_core.runtime.tasks import cancel_and_wait
from agent_core.secrets import scrubbed
from agent_core.servers import McpServer
from agent_core.store import servers
from agent_core.store.servers import Claim, StoredServer
from agent_core.store.store import Store
from agent_core.traces import trace_of

TIMEOUT = 60.0
"""Seconds that a discovery may take: less than a process has a server for itself."""
AT_ONCE = 8
"""Servers that one process asks at the same time."""
AWAY = 5.0
"""Seconds until the next look when the database cannot be reached."""
REMEDY = "see what it says with `parley tools show {}`, and take it up with `parley tools accept {}`"
_log = structlog.get_logger("parley.mcp")


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
            await self._store.write(lambda connection: servers.failed(connection, claim, answer, now=now))
            if stored.error != answer:
                remedy = "it is asked again by itself; `parley doctor` says how it is"
                _log.warning("mcp.failing", server=stored.server.name, why=answer, remedy=remedy)
        else:
            await self._store.write(lambda connection: servers.succeeded(connection, claim, answer, now=now))
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
            claim = await self._store.write(partial(servers.claim, now=now))
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
                await self._store.write(partial(servers.notice, name=name, now=now))
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
