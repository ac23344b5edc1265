"""Puts a score on a connection: each write by itself, on a fixed timetable or flat out."""

import asyncio
from collections.abc import Sequence

from aiohttp import web

from agent_core.clock import Clock, SystemClock
from agent_core.testing.models.score import Beats, Take, Write


class Sender:
    """One stream on its way to its client.

    *rate* is writes a second, 0 is flat out. On the machine's own clock a stream costs a timer per write and no task,
    so that hundreds run beside each other; late writes are made up for, they delay none of the next.
    """

    def __init__(self, request: web.Request, response: web.StreamResponse, take: Take, clock: Clock) -> None:
        self._request, self._response, self._take, self._clock = request, response, take, clock
        self._begun = False
        self._due = 0.0

    async def send(self, beats: Beats, rate: float, split: int) -> None:
        """Send *beats* at *rate*, or in pieces of *split* bytes."""
        if not self._begun:
            self._begun = True
            await self._response.prepare(self._request)
        if split:
            whole = b"".join(self._bytes(write) for write in beats.writes)
            await self._flat_out([whole[n : n + split] for n in range(0, len(whole), split)])
        elif not rate:
            await self._flat_out(beats.writes)
        elif isinstance(self._clock, SystemClock):
            await self._paced(beats.writes, 1 / rate)
        else:
            for write in beats.writes:
                await self._response.write(self._bytes(write))
                await self._clock.sleep(1 / rate)

    async def end(self) -> None:
        """End the stream in order."""
        if not self._begun:
            await self._response.prepare(self._request)
        await self._response.write_eof()

    async def _flat_out(self, writes: Sequence[Write]) -> None:
        """Give the event loop a round after each write, so that each is one of its own."""
        for write in writes:
            await self._response.write(self._bytes(write))
            await asyncio.sleep(0)

    async def _paced(self, writes: Sequence[Write], interval: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        # After a wait the schedule starts again; within an answer it continues.
        begin = self._due if now - self._due < interval else now
        self._due = begin + len(writes) * interval
        if begin <= now:
            await self._response.write(self._bytes(writes[0]))
            writes, begin = writes[1:], begin + interval
        if writes:
            await _Timetable(loop, self._framed(), writes, begin, interval).done

    def _framed(self) -> "_Framed":
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError("The client has left.")
        return _Framed(transport, self._take, chunked=self._response.chunked)

    def _bytes(self, write: Write) -> bytes:
        return filled(self._take, write)


class _Framed:
    """The connection below the response, for writes that need no task: same bytes, HTTP chunks made here."""

    def __init__(self, transport: asyncio.Transport, take: Take, *, chunked: bool) -> None:
        self._transport, self._take, self._chunked = transport, take, chunked

    @property
    def closing(self) -> bool:
        return self._transport.is_closing()

    def write(self, write: Write) -> None:
        data = filled(self._take, write)
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)


class _Timetable:
    """Makes write n at *begin* + n * *interval*; *done* is when all are made, or the client has disconnected."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        out: _Framed,
        writes: Sequence[Write],
        begin: float,
        interval: float,
    ) -> None:
        self._loop, self._out, self._writes = loop, out, writes
        self._begin, self._interval, self._next = begin, interval, 0
        self.done: asyncio.Future[None] = loop.create_future()
        loop.call_at(begin, self._fire)

    def _fire(self) -> None:
        if self.done.done() or self._out.closing:
            self._finish()
            return
        # The loop's timers have whole milliseconds: half of one early is on time.
        now = self._loop.time() + 0.0005
        while self._next < len(self._writes) and self._due() <= now:
            self._out.write(self._writes[self._next])
            self._next += 1
        if self._next < len(self._writes):
            self._loop.call_at(self._due(), self._fire)
        else:
            self._finish()

    def _due(self) -> float:
        return self._begin + self._next * self._interval

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def filled(take: Take, write: Write) -> bytes:
    """Return the bytes of *write* for the request of *take*."""
    if isinstance(write, bytes):
        return take.fill(write)
    return take.fill(b"".join(part if isinstance(part, bytes) else part(take) for part in write))
