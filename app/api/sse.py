"""Server-sent events: each event is encoded once, and all events of one batch are sent in one chunk."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from agent_core.errors import RateLimited, Unavailable
from agent_core.events import Event, Fact
from app.api.deps import Mine
from app.api.wire import rfc3339
from app.serving.readers import Seats
from channels.web.visible import ASKING, ShowTools, is_plain, visible

SILENCE = 15.0
# The component that describes one event of a stream in OpenAPI.
SSE = "ServerSentEvent"
COMMENT = b": still here\n\n"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
OPERATOR_VIEW = "operator"
VIEWS: dict[ShowTools, str] = {"none": "visitor:none", "names": "visitor:names", "full": "visitor:full"}
DECIDES = ":decides"
NO_BODY = b"{}"
_log = structlog.get_logger("parley.stream")


def frame(event: Event, show: ShowTools | None, *, decides: bool = False, own: str = "") -> bytes:
    """Return *event* as a frame, empty when it is not for this reader; made once for all readers of a kind.

    *show* is what a visitor may see of tools; None is an operator. *decides*: the event is about an approval of which
    the visitor may decide. All visitors who read a session are one person, with the id *own*.
    """
    view = OPERATOR_VIEW if show is None or is_plain(event) else f"{VIEWS[show]}{DECIDES}" if decides else VIEWS[show]
    made = event.frames.get(view)
    if made is None:
        body = event.raw if view is OPERATOR_VIEW or show is None else visible(event, show, decides=decides, own=own)
        made = event.frames[view] = b"" if body is None else _build(event, body)
    return made


def _build(event: Event, body: bytes) -> bytes:
    """Splice the envelope into the body's JSON, so that nothing is parsed again."""
    start = b"{" if body == NO_BODY else body[:-1] + b","
    head, names = _head(event.type), _names(event.run, event.parent_run)
    time = rfc3339(event.time).encode()
    if not isinstance(event, Fact):
        return b'%b%b%b%b"}\n\n' % (head, start, names, time)
    session = msgspec.json.encode(event.session)
    return b'id: %d\n%b%b%b%b","session":%b}\n\n' % (event.seq, head, start, names, time, session)


@lru_cache(maxsize=256)
def _head(kind: str) -> bytes:
    return b"event: %b\ndata: " % kind.encode()


@lru_cache(maxsize=4096)
def _names(run: str | None, parent: str | None) -> bytes:
    """Return the envelope's part that all events of a run share."""
    return b'"run":%b,"parent_run":%b,"time":"' % (msgspec.json.encode(run), msgspec.json.encode(parent))


class EventStream(Response):
    """The answer that passes batches of *source* on until it ends, the reader leaves or the server stops.

    Use `open_stream`, which asks for the first batch before any header is sent. *readers* may end it. *mine* knows
    which approvals a visitor may decide. *gone* runs when the reader disconnects first; after *silence* seconds without
    an event a comment is sent.
    """

    def __init__(
        self,
        source: AsyncIterator[list[Event]],
        first: list[Event] | None,
        *,
        show: ShowTools | None,
        readers: Seats,
        mine: Mine | None = None,
        headers: Mapping[str, str] | None = None,
        gone: Callable[[], Awaitable[object]] | None = None,
        silence: float = SILENCE,
    ) -> None:
        self.status_code, self.background = 200, None
        self.init_headers({**HEADERS, **(headers or {})})
        self._source, self._first = source, first
        self._show: ShowTools | None = show
        self._mine, self._readers, self._gone, self._silence = mine, readers, gone, silence
        self._spoke, self._ended = 0.0, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's shape
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pump = asyncio.create_task(self._pump(send))
        left = asyncio.create_task(disconnected(receive))
        alive = Comments(send, self)
        try:
            with self._readers.holding(pump):
                await asyncio.wait((pump, left), return_when=asyncio.FIRST_COMPLETED)
                if self._gone is not None and not pump.done():
                    await self._left(self._gone)
        finally:
            alive.stop()
            left.cancel()
            pump.cancel()
            await asyncio.wait((pump, left))
            await close(self._source)
            await self._end(send)
        if not pump.cancelled():
            # Without a database the stream ends as any does: its reader reconnects, and gets the error then.
            with suppress(Unavailable):
                pump.result()

    async def _left(self, gone: Callable[[], Awaitable[object]]) -> None:
        """Call *gone* after the reader has disconnected; a failure is logged, as no one is left to receive it."""
        try:
            await gone()
        except Unavailable as error:
            _log.warning("stream.not_cancelled", reason=str(error))

    @property
    def silence(self) -> float:
        """Seconds of silence after which a comment is sent."""
        return self._silence

    @property
    def spoke(self) -> float:
        """The loop's time of the last send."""
        return self._spoke

    async def _pump(self, send: Send) -> None:
        loop, batch = asyncio.get_running_loop(), self._first
        self._spoke = loop.time()
        while batch is not None:
            chunk = b"".join(await self._framed(batch))
            if chunk:
                self._spoke = loop.time()
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            batch = await anext(self._source, None)
        self._spoke = loop.time()
        await self._end(send)  # now: the reader need not wait for the cleanup

    async def _end(self, send: Send) -> None:
        if not self._ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            self._ended = True

    async def _framed(self, batch: list[Event]) -> list[bytes]:
        show: ShowTools | None = self._show
        if (mine := self._mine) is None or not any(event.type in ASKING for event in batch):
            return [frame(event, show) for event in batch]
        await mine.learn(batch)
        await mine.record(batch, show)
        return [frame(event, show, decides=mine.decides(event), own=mine.own) for event in batch]


class Comments:
    """Send comments on a silent stream: one timer per stream, no task per event."""

    def __init__(self, send: Send, stream: EventStream) -> None:
        self._send, self._stream = send, stream
        self._loop = asyncio.get_running_loop()
        self._sent: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(stream.silence, self._look)

    def stop(self) -> None:
        """Send no further comment."""
        self._timer.cancel()
        if self._sent is not None:
            self._sent.cancel()

    def _look(self) -> None:
        rest = self._stream.spoke + self._stream.silence - self._loop.time()
        if rest <= 0:
            message: Message = {"type": "http.response.body", "body": COMMENT, "more_body": True}
            if self._sent is None or self._sent.done():
                self._sent = self._loop.create_task(_send_one(self._send, message))
            rest = self._stream.silence
        self._timer = self._loop.call_later(rest, self._look)


async def open_stream(
    source: AsyncIterator[list[Event]],
    *,
    show: ShowTools | None,
    readers: Seats,
    mine: Mine | None = None,
    headers: Mapping[str, str] | None = None,
    gone: Callable[[], Awaitable[object]] | None = None,
) -> EventStream:
    """Return the stream of *source*, whose first batch has come: an unknown cursor is raised from here.

    Raises `RateLimited` when the reader has no room for one more among *readers*.
    """
    readers.check()
    first = await anext(source, None)
    try:
        readers.check()  # others of the same reader may have come meanwhile
    except RateLimited:
        await close(source)
        raise
    return EventStream(source, first, show=show, readers=readers, mine=mine, headers=headers, gone=gone)


async def disconnected(receive: Receive) -> None:
    """Return when the caller has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def close(source: AsyncIterator[list[Event]]) -> None:
    """Close *source* now, when it can be closed."""
    if (end := getattr(source, "aclose", None)) is not None:
        await end()


async def _send_one(send: Send, message: Message) -> None:
    await send(message)
