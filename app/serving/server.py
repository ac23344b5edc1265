"""HTTP on one connection: uvicorn's protocol, with bounds on what a client may send, and how slowly.

uvicorn bounds none of this: a head may be of any size and take any time, as may a body; a client that does not read
keeps its answer in memory, and requests may be pipelined without end. What it cannot parse it answers as plain text.

The class is the smallest subclass that sees what it must: the parser's callbacks, the end of an answer, and the
transport's. It relies on these names of `HttpToolsProtocol`, which a test holds against the installed version:
`parser, transport, flow, cycle, pipeline, scope, headers, url, client, on_message_begin, on_header, on_body,
on_headers_complete, on_message_complete, on_response_complete, _unset_keepalive_if_required`.
"""

import asyncio
import errno
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any, Literal, Self

import httptools
import msgspec
from uvicorn import Config
from uvicorn import Server as Uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from agent_core.errors import ConfigError
from app.serving.connections import REFUSED, TRY_AGAIN, Connections, Reason
from app.serving.readers import Readers

SLICE = 32_768
"""Bytes that the parser gets at once: the bounds are checked between two slices."""
AGAIN = frozenset({429, 503})
"""Statuses of the same that may be tried again, when there are fewer connections."""


class Excess(Exception):
    """A bound was passed inside a callback of the parser, which stops at once."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Connection(HttpToolsProtocol):
    """One connection among *connections*, whose bounds it keeps."""

    def __init__(self, *arguments: Any, connections: Connections, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._all, self._bounds = connections, connections.bounds
        self._reading: Literal["nothing", "head", "body"] = "nothing"
        self._excess: Reason | None = None
        self._closing = False
        self._used = False
        # Bytes of the head or the body that is read, and since when; or since when nothing is.
        self._bytes, self._since = 0, 0.0
        # Bytes since the last that were a body's own, and the fields after the last chunk of a body.
        self._framing, self._trailers = 0, 0
        self._passed_over = 0
        self._answered: float | None = None
        self._paused: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self._all.now()
        if (refused := self._all.enter(self, self._address)) is not None:
            self._decline(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        self._closing = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            self._pass_over(len(data))
            return
        self._unset_keepalive_if_required()
        if self._answered is not None:
            self._pass_over(len(data))
        rest = memoryview(data)
        while rest and not self._closing:
            if self._reading == "nothing":
                self._begin("head")
            room = self._bounds.head_bytes - self._bytes if self._reading == "head" else SLICE
            piece, rest = rest[:room], rest[room:]
            self._bytes += len(piece)
            self._framing += len(piece)
            self._feed(bytes(piece))
            size = {"nothing": 0, "head": self._bytes, "body": self._framing}[self._reading]
            if size >= self._bounds.head_bytes and not self._closing:
                self._refuse("head_size" if self._reading == "head" else "trailers")

    def _feed(self, piece: bytes) -> None:
        parser: Any = self.parser
        try:
            # There are no WebSockets here: a request for one is answered as any other.
            with suppress(httptools.HttpParserUpgrade):
                parser.feed_data(piece)
        except httptools.HttpParserError:
            self._refuse(self._excess or "not_http")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= self._bounds.pipelined:
            self._stop_parser("pipeline")
        self._used = True
        if self._reading != "head":
            self._begin("head")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading != "body":
            super().on_header(name, value)
            return
        # A trailer: no route reads it, and among the headers, which are the scope's, it could pass for one of them.
        self._trailers += 1
        if self._trailers > self._bounds.head_fields:
            self._stop_parser("trailers")

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._bounds.head_bytes or len(self.headers) > self._bounds.head_fields:
            self._stop_parser("head_size")
        self._begin("body")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._begin("nothing")
        self._answered, self._passed_over = None, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        now = self._all.now()
        if self._reading == "body" and not self.pipeline:
            self._answered = now
        elif self._reading == "nothing":
            self._since = now
        super().on_response_complete()

    def pause_writing(self) -> None:
        if self._paused is None:
            self._paused = self._all.now()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._paused = None
        super().resume_writing()

    def look(self, now: float) -> None:
        """Close the connection when its client is too slow at *now*."""
        bounds, elapsed = self._bounds, now - self._since
        if self._closing:
            if elapsed > bounds.unread_seconds:
                self.transport.abort()
        elif self._paused is not None and now - self._paused > bounds.reader_seconds:
            self._all.note("reader", self._address)
            self._end()
            self.transport.abort()
        elif self._answered is not None:
            if now - self._answered > bounds.unread_seconds:
                self._refuse("unread")
        elif self.flow.read_paused:
            self._since = now  # it is this server that does not read
        elif self._reading == "head":
            if elapsed > bounds.head_seconds:
                self._refuse("head_time")
        elif self._reading == "body":
            if elapsed > bounds.body_grace and self._bytes < bounds.body_rate * elapsed:
                self._refuse("body_time")
        elif not self._is_answering and elapsed > (bounds.idle_seconds if self._used else bounds.head_seconds):
            self._closing, self._since = True, now
            self.transport.close()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else "unknown"

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _begin(self, reading: Literal["nothing", "head", "body"]) -> None:
        self._reading, self._bytes, self._since = reading, 0, self._all.now()
        self._framing, self._trailers = 0, 0

    def _stop_parser(self, reason: Reason) -> None:
        self._excess = reason
        raise Excess(reason)

    def _pass_over(self, size: int) -> None:
        """Count bytes that no request is made of; more than a few are not waited for."""
        self._passed_over += size
        bounds = self._bounds
        if self._passed_over > (bounds.refused_bytes if self._closing else bounds.unread_bytes):
            self._end()
            self.transport.abort()

    def _refuse(self, reason: Reason) -> None:
        """Answer with the *reason*, unless an answer has begun, and close; what still comes is passed over for a while.

        Closed at once, the system would answer the client's next bytes with a reset, and the answer might be lost.
        """
        self._all.note(reason, self._address)
        begun = self._is_answering and self.cycle.response_started
        self._end()
        if begun or reason in {"unread", "pipeline"} or self.transport.is_closing():
            self.transport.close()
            return
        self.transport.write(refusal(reason))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _decline(self, reason: Reason) -> None:
        """Answer with the *reason* and close, as long as there is room for a connection that is not counted."""
        if self._all.keep(self):
            self._refuse(reason)
            return
        self._all.note(reason, self._address)
        self._end()
        self.transport.abort()  # even refused ones take room, for a moment

    def _end(self) -> None:
        """Read and answer nothing more; what works on a request learns that its client has left."""
        self._closing, self._since = True, self._all.now()
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self.flow.resume_reading()
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.flow.resume_writing()


def refusal(reason: Reason) -> bytes:
    """Return the answer to a client whose connection is refused or closed for *reason*, after which it is closed."""
    match reason:
        case "full":
            detail = "The server has as many connections as it takes; try again in a moment."
            return _answer(503, "unavailable", detail)
        case "address":
            detail = "Too many connections from this address; close some, or try again in a moment."
            return _answer(429, "rate_limited", detail)
        case "head_size":
            detail = "The request line and the headers are too large: at most 32 kB and 128 fields."
            return _answer(431, "headers_too_large", detail)
        case "trailers":
            detail = "What is between the chunks of the body and after them is too large: at most 32 kB and 128 fields."
            return _answer(431, "headers_too_large", detail)
        case "head_time" | "body_time":
            return _answer(408, "timeout", "The request did not arrive in time; send it again, faster.")
        case "not_http" | "pipeline" | "unread" | "reader":
            return _answer(400, "invalid_http", "This is no HTTP/1.1 request that can be read.")


def _answer(status: int, code: str, detail: str) -> bytes:
    """Return a problem, in the shape that the API gives them, as the bytes of an answer."""
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "code": code, "detail": detail}
    content = msgspec.json.encode(body)
    again = b"retry-after: %d\r\n" % TRY_AGAIN if status in AGAIN else b""
    safe = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
    head = b"content-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(content)
    return b"".join([STATUS_LINE[status], again, safe, head, b"\r\n", content])


# Seconds that open requests get to end after Ctrl-C; streams are ended at once. The core's own grace comes after.
GRACE = 2
# Seconds of it after which connections are cut whose client neither reads its answer nor ends its request.
CUT_AFTER = 1.5
BACKLOG = 2048
NEAR = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - as HOST names them
EVERY = frozenset(NEAR)
# File descriptors beside those of connections: of the database, of the models, and of refused connections for a moment.
SPARE_FILES = REFUSED + 256


class Server(Uvicorn):
    """uvicorn that ends open streams before it waits for requests, and says when it is up."""

    def __init__(
        self, config: Config, *, readers: Readers, connections: Connections, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._readers, self._open, self._on_started = readers, connections, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._open.start()
        self._on_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: what comes after the server needs them too."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        timer = asyncio.get_running_loop().call_later(CUT_AFTER, self._cut_connections)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()
            self._open.stop()

    def _cut_connections(self) -> None:
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._readers.close()
        super().handle_exit(sig, frame)


def config(app: object, connections: Connections) -> Config:
    """Return how uvicorn serves *app* on *connections*; what is started and stopped around it is ours."""
    protocol = partial(Connection, connections=connections)
    return Config(
        app,  # pyright: ignore[reportArgumentType] - any ASGI application
        http=protocol,  # pyright: ignore[reportArgumentType] - uvicorn only calls it
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,  # `app.logs` sets up the logs of all
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=int(connections.bounds.idle_seconds),
        timeout_graceful_shutdown=GRACE,
    )


@contextmanager
def listening(host: str, port: int, named: str = "PORT") -> Iterator[socket.socket]:
    """Give a bound socket; raise ConfigError naming HOST or the port, by where it was *named*, if there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        # Bound is not yet taken: only listening refuses a second server on the same port.
        sock.listen(BACKLOG)
        yield sock
    except OSError as error:
        raise _refused(host, port, named, error) from None
    finally:
        sock.close()


def room_for(connections: int) -> int:
    """Return for how many *connections* there are file descriptors, having asked the system for enough of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft < wanted and soft != resource.RLIM_INFINITY:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(8, min(connections, soft - SPARE_FILES))


def _refused(host: str, port: int, named: str, error: OSError) -> Exception:
    match error.errno:
        case errno.EADDRINUSE:
            return ConfigError(f"{named}: {port} is in use on {host}; stop what listens there, or set another {named}.")
        case errno.EACCES:
            return ConfigError(f"{named}: {port} needs more rights than this user has; set a {named} above 1023.")
        case _ if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            return ConfigError(f"HOST: `{host}` is no address of this machine; use 127.0.0.1 or 0.0.0.0.")
        case _:
            return error


def url_of(host: str, sock: socket.socket) -> str:
    """Return the address under which this machine reaches the server."""
    near = NEAR.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{near}:{sock.getsockname()[1]}"


def place_of(host: str, url: str) -> str:
    """Return where a server listens, for people: at *url*, and at what others reach where *host* is every address."""
    if host not in EVERY:
        return url
    port = url.rpartition(":")[2]
    return f"{f'[{host}]' if ':' in host else host}:{port}, on this machine {url}"


TAKEN = (signal.SIGINT, signal.SIGTERM)
AT_ONCE = "parley: ended at once; unfinished work continues in another process, or at the next start.\n"


class Signals:
    """Calls a function at the first signal; until `ask` sets one, that cancels the task that made this."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._end: Callable[[], object] = task.cancel
        self._came = False

    def ask(self, end: Callable[[], object]) -> None:
        """Call *end* at the first signal from now on."""
        self._end = end

    @contextmanager
    def taken(self) -> Iterator[Self]:
        """Take the signals while the block runs."""
        loop = asyncio.get_running_loop()
        for each in TAKEN:
            loop.add_signal_handler(each, self.take, each)
        try:
            yield self
        finally:
            for each in TAKEN:
                loop.remove_signal_handler(each)

    def take(self, number: signal.Signals) -> None:
        """Handle a signal; a second one ends the process without cleanup, as a kill does."""
        if self._came:
            sys.stderr.write(AT_ONCE)
            sys.stderr.flush()
            os._exit(128 + number)
        self._came = True
        self._end()
