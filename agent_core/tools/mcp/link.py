"""The connection to one MCP server: which era it speaks, what is open to it, and every use of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import reduce
from typing import Any, Protocol, TypeVar

import mcp_types as wire
import msgspec
import structlog
from mcp import Client
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_core.clock import Clock, within
from agent_core.listings import strings_of
from agent_core.loop.announce import UNKNOWN
from agent_core.secrets import scrubbed
from agent_core.servers import McpListing, McpServer
from agent_core.tools.base import CallContext, Outcome, ToolError
from agent_core.tools.mcp.entries import readable_lists
from agent_core.tools.mcp.failures import NOT_RUN, failure, is_lost, is_own, is_unreadable, leaf, may_have_run
from agent_core.tools.mcp.held import HeldCall, HeldCalls, Progress
from agent_core.tools.mcp.http_client import check_headers
from agent_core.tools.mcp.listing import described, listed
from agent_core.tools.mcp.marks import CURRENT, CallMark
from agent_core.tools.mcp.masking import changed_outcome
from agent_core.tools.mcp.owner import ClientOwner
from agent_core.tools.mcp.port import McpUnavailable
from agent_core.tools.mcp.questions import Unanswerable, taken_up
from agent_core.tools.mcp.use import SPARE, ToolUse

DISCOVERY = 10.0
"""Seconds for a whole discovery over HTTP."""
CHILD_DISCOVERY = 30.0
"""Seconds for one of a child process: it starts first, and may be silent for ten seconds to what it does not know."""
_GONE = 404
_STEADY = 60_000
_MAX_PAUSE = 300.0
_LISTEN_CHECK = 15.0
_INFO = wire.Implementation(name="parley", version="1")
R = TypeVar("R")
_log = structlog.get_logger("parley.mcp")


class Carrier(Protocol):
    """Carries messages to one server, over HTTP or to a child process."""

    per_call: bool
    """Whether a client of the modern era is made for each call: over HTTP that costs nothing."""

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Return the SDK's transport for one client."""
        ...

    async def ready(self) -> None:
        """Return when a client may be opened: a child process that died waits before it starts again."""
        ...

    @property
    def deaf(self) -> bool:
        """Return whether the stream of news has ended; the SDK opens it again, and gives up without a word."""
        ...

    @property
    def tokens(self) -> Sequence[str]:
        """Return the newest access tokens that went to the server, which it may repeat."""
        ...

    def opens(self, lost: Callable[[], None]) -> None:
        """Call *lost* when the client that is opened next is of no more use."""
        ...

    @property
    def words(self) -> str:
        """Return the last that the server wrote to its standard error."""
        ...

    async def close(self) -> None:
        """Release what is shared by the clients."""
        ...


class Link:
    """The connection to *server*, for any task; opened on demand and again after it was lost."""

    def __init__(self, server: McpServer, carrier: Carrier, clock: Clock, idle: float) -> None:
        self.server, self._carrier, self._clock, self._idle = server, carrier, clock, idle
        self._owner: ClientOwner | None = None
        self._old: set[ClientOwner] = set()
        self._modern: wire.DiscoverResult | None = None
        self._opening = asyncio.Lock()
        self._calls: set[CallMark] = set()
        self._changed: Callable[[], None] | None = None
        self._closed = False
        self._held = HeldCalls(server.name)

    async def discover(self) -> McpListing:
        """Return what the server lists; raises `McpUnavailable`, within ten seconds, or thirty of a child process."""
        mark = CallMark()
        CURRENT.set(mark)
        try:
            async with within(self._clock, DISCOVERY if self._carrier.per_call else CHILD_DISCOVERY):
                listing = await self._again(mark, self._listing, fresh=True)
            if not self._carrier.tokens:
                return listing
            return msgspec.convert(strings_of(msgspec.to_builtins(listing), self._plain), McpListing)
        except Exception as error:  # noqa: BLE001 - whatever a stranger's server does is one kind of failure
            raise self._failure(error, mark) from None

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        headers: Mapping[str, str],
        *,
        repeatable: bool,
    ) -> Outcome:
        """Call a tool; what goes wrong is a `ToolError` that names the server."""
        seconds = self.server.timeout_s + SPARE
        try:
            if taken_up(context.answer).held:
                ended = await self._held.resumed(context.call, context.answer, context.progress, seconds)
            else:
                mark, progress = CallMark(headers=headers), Progress(context.progress, self._plain)
                CURRENT.set(mark)
                shown = replace(context, progress=progress)
                use = ToolUse(self.server, tool, arguments, shown, mark, repeatable=repeatable)
                work = self._ended(mark, use, repeatable=repeatable)
                if repeatable:  # it ends with its question
                    ended = await work
                else:
                    task = asyncio.create_task(work)
                    held = HeldCall(use.questions, task, progress, context.actor.id)
                    ended = await self._held.begun(context.call, held, seconds)
        except Unanswerable as error:
            return ToolError(f"The MCP server `{self.server.name}` cannot be answered: {error}.")
        if ended is None:
            late = failure(self.server, TimeoutError(), CallMark(), self._carrier.words)
            return ToolError(f"{late} {UNKNOWN}", unknown=True)
        return await asyncio.to_thread(changed_outcome, ended, self._plain) if self._carrier.tokens else ended

    async def _ended(self, mark: CallMark, use: ToolUse, *, repeatable: bool) -> Outcome:
        """Return how a call ends, or what it asks; errors are outcomes."""
        self._calls.add(mark)
        try:
            check_headers(self.server.name, mark.headers)
            return await self._again(mark, use, once=not repeatable)
        except Unanswerable as error:
            return ToolError(f"The MCP server `{self.server.name}` cannot be answered: {error}.")
        except Exception as error:  # noqa: BLE001 - as above
            text = str(self._failure(error, mark))
            if repeatable or not may_have_run(error, mark):
                return ToolError(text)
            return ToolError(f"{text} {UNKNOWN}", unknown=True)
        finally:
            self._calls.discard(mark)

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call *changed* at each news of the list, and whenever news may have been missed; return if there is none.

        It ends with `close`.
        """
        self._changed, pause, again = changed, 1.0, False
        while not self._closed:
            began, mark = self._clock.now(), CallMark()
            CURRENT.set(mark)
            try:
                if not await self._news(changed, again=again):
                    return
            except Exception as error:  # noqa: BLE001 - as above
                _log.info("mcp.news_lost", server=self.server.name, error=str(self._failure(error, mark)))
            again = True
            if self._carrier.per_call:
                self._modern = None  # the server may come back as another one
            pause = 1.0 if self._clock.now() - began >= _STEADY else pause
            await self._clock.sleep(pause)
            pause = min(_MAX_PAUSE, 2 * pause)

    async def close(self) -> None:
        """Close what is open, for good; nothing of it is left."""
        self._closed = True
        await self._held.close()
        self._retire()
        await asyncio.gather(*(owner.close() for owner in self._old))
        self._old.clear()
        await self._carrier.close()

    # Sessions.

    async def _again(
        self,
        mark: CallMark,
        work: Callable[[ClientSession], Awaitable[R]],
        *,
        fresh: bool = False,
        once: bool = False,
    ) -> R:
        """Return what *work* does with a session; once more with a new one where the server had forgotten the first.

        With *fresh* an era that needs no session is found again. A call that may run *once* alone is not made again
        for an error, which the tool may have had after it ran: a server that forgot a session says so at HTTP 404.
        """
        if fresh and self._carrier.per_call:
            self._modern = None
        had_session = self._modern is None and self._owner is not None
        had_one = self._modern is not None or had_session
        try:
            return await self._with_session(work)
        except Exception as error:
            if not (had_one and self._is_forgotten(leaf(error), mark)):
                raise
            self._retire()
            if once and mark.sent and not (had_session and mark.status == _GONE and is_own(leaf(error))):
                raise
        mark.sent, mark.status, mark.remedy, mark.failure = False, None, None, None
        return await self._with_session(work)

    async def _with_session(self, work: Callable[[ClientSession], Awaitable[R]]) -> R:
        """Return what *work* does; its errors come out as they are, and not in groups."""
        async with self._session() as session:
            try:
                return await work(session)
            except Exception as error:  # noqa: BLE001 - raised below, outside the client's task group
                failed = error
        raise failed

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[ClientSession]:
        owner = await self._prepared()
        if owner is None:
            async with self._client("modern") as client:
                yield client.session
            return
        async with owner.using() as client:
            try:
                yield client.session
            except MCPError as error:
                if is_lost(error) and not self._carrier.per_call:
                    owner.retire()
                raise

    async def _prepared(self) -> ClientOwner | None:
        """Return the owner of the open client, opened if need be; None when each call has its own."""
        if self._modern is not None:
            return None
        if self._owner is not None and self._owner.open:
            return self._owner
        async with self._opening:
            if self._modern is None and (self._owner is None or not self._owner.open):
                await self._open()
        return None if self._modern is not None else self._owner

    async def _open(self) -> None:
        """Open a client and find out which era the server speaks.

        A child process goes on starting when what needed it first gives up, for what needs it next.
        """
        owner = self._owner if self._owner is not None and self._owner.usable else await self._begun()
        try:
            client = await owner.client()
        except Exception:
            mark = CURRENT.get()
            if mark is not None:
                mark.status, mark.remedy, mark.failure = owner.mark.status, owner.mark.remedy, owner.mark.failure
            self._retire()
            self._old.discard(owner)
            raise
        except BaseException:
            if self._carrier.per_call:
                self._retire()
            raise
        if self._carrier.per_call and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._owner, self._modern = None, client.session.discover_result
            await owner.close()
            self._old.discard(owner)

    async def _begun(self) -> ClientOwner:
        """Begin to open a client."""
        self._retire()
        await self._carrier.ready()
        if self._closed:
            raise McpUnavailable(f"The connection to the MCP server `{self.server.name}` was closed.")
        owner = ClientOwner(lambda: self._client("auto"), self._clock, self._idle)
        self._carrier.opens(owner.retire)
        self._old.add(owner)
        self._owner = owner
        return owner

    def _retire(self) -> None:
        """Use what is open for no new call."""
        self._modern = None
        if self._owner is not None:
            self._owner.retire()
            self._owner = None
        self._old = {each for each in self._old if not each.finished}

    def _client(self, mode: str) -> Client:
        modern = mode == "modern"
        return Client(
            readable_lists(self._carrier.streams()),
            mode=MODERN_PROTOCOL_VERSIONS[-1] if modern else mode,
            prior_discover=self._modern if modern else None,
            cache=None,
            client_info=_INFO,
            elicitation_callback=self._asked,
            message_handler=self._notified_in_call if modern else self._notified,
        )

    def _is_forgotten(self, error: BaseException, mark: CallMark) -> bool:
        """Return whether the server seems not to know the session or the era that it had before."""
        if not isinstance(error, MCPError) or is_unreadable(error):
            return False
        return mark.status == _GONE or error.code in NOT_RUN

    def _failure(self, error: BaseException, mark: CallMark) -> McpUnavailable:
        found = failure(self.server, error, mark, self._carrier.words)
        return McpUnavailable(self._plain(str(found)), found.status)

    def _plain(self, text: str) -> str:
        """Return *text* of the server without access tokens."""
        return reduce(lambda said, token: scrubbed(said, {"access token": token}), self._carrier.tokens, text)

    # What servers say by themselves.

    async def _notified(self, message: IncomingMessage) -> None:
        if isinstance(message, wire.ToolListChangedNotification) and self._changed is not None:
            self._changed()

    async def _notified_in_call(self, message: IncomingMessage) -> None:
        """Take news from the stream of a call, where servers without a session may send it; a listing is no call."""
        if CURRENT.get() in self._calls:
            await self._notified(message)

    async def _asked(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK passes it
        params: wire.ElicitRequestParams,
    ) -> wire.ElicitResult | wire.ErrorData:
        """Answer a question of the legacy era; it belongs to the call on whose stream it came, or to the only one."""
        mark = CURRENT.get()
        if mark is None or mark.questions is None:
            mark = next(iter(self._calls)) if len(self._calls) == 1 else None
        if mark is not None and mark.questions is not None:
            return await mark.questions.answer(params)
        for each in self._calls:
            if each.questions is not None:
                each.questions.declined(
                    "The server asked the person something while several calls ran; that was declined, since it did "
                    "not say which call it is about."
                )
        return wire.ElicitResult(action="decline")

    async def _news(self, changed: Callable[[], None], *, again: bool) -> bool:
        """Follow the news until they end; return False if the server has none."""
        owner = await self._prepared()
        if owner is not None:
            async with owner.using() as client:
                if not _has_news(client.session):
                    return False
                if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                    if again:
                        changed()
                    await self._until_deaf(owner)
                    return True
        return await self._with_session(lambda session: self._listened(session, changed, again=again))

    async def _until_deaf(self, owner: ClientOwner) -> None:
        """Return when *owner* is lost, or gets no news any more; then it is retired."""
        deaf = False
        while not owner.lost.is_set():
            with suppress(TimeoutError):
                async with within(self._clock, _LISTEN_CHECK):
                    await owner.lost.wait()
            if deaf and self._carrier.deaf:
                owner.retire()
            deaf = self._carrier.deaf

    async def _listened(self, session: ClientSession, changed: Callable[[], None], *, again: bool) -> bool:
        if not _has_news(session):
            return False
        try:
            async with listen(session, tools_list_changed=True) as news:
                if again:
                    changed()
                async for _ in news:
                    changed()
        except MCPError as error:
            if error.code == wire.METHOD_NOT_FOUND:
                return False
            raise
        return True

    async def _listing(self, session: ClientSession) -> McpListing:
        tools, left_out = await listed(session, self.server)
        found = described(session, self.server, tools, session.protocol_version or "")
        return msgspec.structs.replace(found, left_out=left_out)


def _has_news(session: ClientSession) -> bool:
    capabilities = session.server_capabilities
    return bool(capabilities and capabilities.tools and capabilities.tools.list_changed)
