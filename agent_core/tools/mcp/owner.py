"""The owner of one open client: the task that opens it also closes it, as the SDK demands; anyone may use it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

from mcp import Client

from agent_core.clock import Clock
from agent_core.tools.mcp.failures import leaf
from agent_core.tools.mcp.marks import CURRENT, CallMark

_OPENING = 30.0
"""Seconds within which a connection opens; a server that is silent to the first question takes ten of them."""
_CLOSING = 10.0


class ClientOwner:
    """Opens a client at once, and keeps it until it is retired, unused for *idle* seconds, or dead.

    *lost* is set once it is of no more use.
    """

    def __init__(
        self, open_client: Callable[[], AbstractAsyncContextManager[Client]], clock: Clock, idle: float
    ) -> None:
        self._open, self._clock, self._idle = open_client, clock, idle
        self.mark, self.lost = CallMark(), asyncio.Event()
        self._stop, self._users, self._used = asyncio.Event(), 0, clock.now()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    @property
    def usable(self) -> bool:
        """Return whether new calls may use it, also while it is being opened."""
        return not self.lost.is_set() and not self._stop.is_set()

    @property
    def open(self) -> bool:
        """Return whether it is usable and open."""
        return self.usable and self._opened.done()

    @property
    def finished(self) -> bool:
        """Return whether nothing of it is left."""
        return self._task.done()

    async def client(self) -> Client:
        """Return the client once it is open; raises what went wrong."""
        return await asyncio.shield(self._opened)

    @asynccontextmanager
    async def using(self) -> AsyncGenerator[Client]:
        """Give the client, which stays open meanwhile unless the server ends it."""
        client = await self.client()
        self._users += 1
        try:
            yield client
        finally:
            self._users -= 1
            self._used = self._clock.now()
            if self.lost.is_set() and not self._users:
                self._stop.set()

    def retire(self) -> None:
        """Give it to no new call, and close it when the last one has ended."""
        self.lost.set()
        if not self._users:
            self._stop.set()

    async def close(self) -> None:
        """Close the client; return when nothing of it is left."""
        self._stop.set()
        if not self._opened.done():
            self._task.cancel()
        await asyncio.wait((self._task,), timeout=_CLOSING)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._fail(
            TimeoutError("closed before it was opened")
        )  # a task that was cancelled before it began says nothing

    async def _run(self) -> None:
        CURRENT.set(self.mark)  # the task began with the context of the call that needed it first
        idle = asyncio.create_task(self._retire_idle())
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(_OPENING):
                    client = await stack.enter_async_context(self._open())
                self._used = self._clock.now()
                if not self._opened.done():
                    self._opened.set_result(client)
                await self._stop.wait()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - raised where it is waited for
            self._fail(leaf(error))
        except asyncio.CancelledError:
            self._fail(TimeoutError("closed while it was being opened"))
            raise
        finally:
            self.lost.set()
            idle.cancel()
            with suppress(asyncio.CancelledError):
                await idle

    def _fail(self, error: BaseException) -> None:
        if not self._opened.done():
            self._opened.set_exception(error if isinstance(error, Exception) else ConnectionError(str(error)))
            self._opened.exception()  # no one may be waiting for it

    async def _retire_idle(self) -> None:
        while not self.lost.is_set():
            await self._clock.sleep(self._idle)
            if self._opened.done() and not self._users and self._clock.now() - self._used >= self._idle * 1000:
                self.retire()
