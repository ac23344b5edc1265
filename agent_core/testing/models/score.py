"""An answer made ready for one wire: its bytes, rendered once, with holes for what each request fills in."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import msgspec
from aiohttp import web

from agent_core.clock import Clock, SystemClock
from agent_core.messages import Usage
from agent_core.providers.base import CallFailed, Finished, FinishReason, ModelTextDelta, Refusal, UsageReport
from agent_core.testing.models.asked import Answer, Head, Item, NativeWire, Raw, Redacted, Split, Stall, WholeResponse
from agent_core.testing.models.caching import Bill
from agent_core.testing.scripted import Bug, Cut, Flat, Pause, Say, ScriptedCall, Sleep, Think, Together

MARK = b"@@this-answers-own-part@"
"""A placeholder in rendered bytes for the part of ids that is unique per answer: as long as `Take.own`."""
NOW = b"@@now-sec@"
"""A placeholder in rendered bytes for the seconds since the epoch, ten digits."""


Sign = Callable[[Sequence[bytes], str], str]
"""Returns the seal of thinking, given the blocks before it in its own message, and its text."""


@dataclass(slots=True)
class Take:
    """What one playing of a score fills in. *own* is 24 hex digits."""

    head: Head
    own: bytes
    seconds: int
    bill: Bill
    sign: Sign
    _seals: dict[int, str] = field(default_factory=dict[int, str])

    def fill(self, data: bytes) -> bytes:
        return data.replace(MARK, self.own).replace(NOW, b"%d" % self.seconds)

    def seal(self, n: int, before: Sequence[bytes], text: str) -> str:
        """Return the seal of the answer's thinking *n*, the same each time it is asked for."""
        if n not in self._seals:
            self._seals[n] = self.sign([self.fill(each) for each in before], text)
        return self._seals[n]


Part = bytes | Callable[[Take], bytes]
Write = bytes | tuple[Part, ...]
"""One network write: ready bytes, or parts of which some are made for the request."""


@dataclass(frozen=True, slots=True)
class Beats:
    """Writes on a timetable; *rate* a second, 0 is the server's own."""

    writes: tuple[Write, ...]
    rate: float = 0


@dataclass(frozen=True, slots=True)
class End:
    """The end of the stream: `whole`, `cut` without its last events, or with a `broken` connection.

    *failed* is the failure that ended it: a stream has reported it by then; a whole answer is an error instead.
    """

    how: Literal["whole", "cut", "broken"] = "whole"
    failed: CallFailed | None = None


Move = Beats | Pause | Sleep | Stall | CallFailed | WholeResponse | End


@dataclass(frozen=True, slots=True)
class Score:
    """What one answer does on one wire, in order; *body* is the same as one JSON."""

    moves: tuple[Move, ...]
    body: Callable[[Take], bytes]
    split: int


Spoken = Say | Think | ScriptedCall | Refusal | NativeWire | Redacted


class Voice(Protocol):
    """How one wire says things; it keeps what it said, for ids, counts and the closing events.

    *usage* overrides what is counted where it is not None.
    """

    usage: Usage

    def start(self) -> list[Part]: ...

    def say(self, item: Spoken) -> Iterator[list[Part]]:
        """Give the parts of each delta of *item*, what opens and closes its frame included."""
        ...

    def finish(self, reason: FinishReason) -> list[Part]: ...

    def fail(self, failed: CallFailed) -> list[Part]: ...

    def body(self, take: Take) -> bytes: ...


def compose(answer: Answer, voice: Voice, *, split: int = 0) -> Score:
    """Render *answer* for the wire of *voice*."""
    return _Composer(voice, split).compose(answer)


class _Composer:
    """Collects writes and moves; what opens or closes a frame goes with the next delta."""

    def __init__(self, voice: Voice, split: int) -> None:
        self._voice, self._split = voice, split
        self._moves: list[Move] = []
        self._writes: list[Write] = []
        self._pending: list[Part] = []
        self._started = self._played = self._over = False
        self._ending: Literal["done", "tools", "refused"] = "done"

    def compose(self, answer: Answer) -> Score:
        for item in answer:
            self._add(item)
            if self._over:
                break
        else:
            # Raw bytes alone are the whole stream as their author wants it.
            if self._started or not self._played:
                self._add(Finished(self._ending))
            else:
                self._end()
        return Score(tuple(self._moves), self._voice.body, self._split)

    def _add(self, item: Item) -> None:
        match item:
            case Pause() | Sleep() | Stall():
                self._flush()
                self._moves.append(item)
            case Cut():
                self._end(End("cut"))
            case Bug():
                self._refuse(WholeResponse(500, b"Internal Server Error"))
            case CallFailed():
                self._fail(item)
            case WholeResponse():
                self._refuse(item)
            case Split():
                self._split = item.size
            case Raw():
                self._played = True
                self._write([item.data])
            case UsageReport():
                self._voice.usage = item.usage
            case Finished():
                self._start()
                self._pending += self._voice.finish(item.reason)
                self._end()
            case Flat():
                self._flat(item)
            case Together():
                self._together(item)
            case _:
                self._say(item)

    def _start(self) -> None:
        if not self._started:
            self._started = self._played = True
            self._pending += self._voice.start()

    def _say(self, item: Spoken) -> None:
        self._start()
        if isinstance(item, ScriptedCall) and self._ending == "done":
            self._ending = "tools"
        if isinstance(item, Refusal):
            self._ending = "refused"
        for parts in self._voice.say(item):
            self._write(parts)

    def _flat(self, item: Flat) -> None:
        self._start()
        self._beats(0)
        for batch in item.batches:
            texts = tuple(delta.text for delta in batch if isinstance(delta, ModelTextDelta))
            self._write([part for parts in self._voice.say(Say(texts)) for part in parts])
        self._beats(item.rate)

    def _together(self, item: Together) -> None:
        """Add each item, and make one write of what they wrote."""
        self._beats(0)
        for each in item.items:
            self._add(each)
        if self._over or any(isinstance(each, CallFailed) for each in item.items):
            last = self._moves.pop() if isinstance(self._moves[-1], End | CallFailed) else None
            if self._moves and isinstance(self._moves[-1], Beats):
                self._moves[-1] = Beats((_joined(self._moves[-1].writes),))
            self._moves += [last] if last else []
        elif self._writes:
            self._writes = [_joined(self._writes)]

    def _fail(self, item: CallFailed) -> None:
        if item.kind == "network":
            self._end(End("broken"))
        elif self._started:
            self._pending += self._voice.fail(item)
            self._end(End(failed=item))
        else:
            self._refuse(item)

    def _refuse(self, item: CallFailed | WholeResponse) -> None:
        """Answer with another status; too late for that, the connection breaks."""
        if self._played:
            self._end(End("broken"))
            return
        self._moves.append(item)
        self._over = True

    def _end(self, end: End | None = None) -> None:
        self._flush()
        self._moves.append(end or End())
        self._over = True

    def _write(self, parts: list[Part]) -> None:
        self._writes.append(_packed([*self._pending, *parts]))
        self._pending = []

    def _flush(self) -> None:
        if self._pending:
            self._write([])
        self._beats(0)

    def _beats(self, rate: float) -> None:
        if self._writes:
            self._moves.append(Beats(tuple(self._writes), rate))
            self._writes = []


def _joined(writes: Sequence[Write]) -> Write:
    return _packed([part for write in writes for part in (write if isinstance(write, tuple) else (write,))])


def _packed(parts: Sequence[Part]) -> Write:
    """Join neighbouring bytes, so that a hole costs only itself."""
    packed: list[Part] = []
    for part in parts:
        if packed and isinstance(part, bytes) and isinstance(packed[-1], bytes):
            packed[-1] += part
        else:
            packed.append(part)
    if len(packed) == 1 and isinstance(packed[0], bytes):
        return packed[0]
    return tuple(packed)


def encode(value: object) -> bytes:
    """Return *value* as JSON."""
    return msgspec.json.encode(value)


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
