"""The HTTP server: uvicorn on a socket of ours, which ends open streams first and says when it is up."""

import asyncio
import errno
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from uvicorn import Config
from uvicorn import Server as Uvicorn

from agent_core import ConfigError
from app.serving.connections import REFUSED, Connections
from app.serving.protocol import Connection
from app.serving.readers import Readers

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
